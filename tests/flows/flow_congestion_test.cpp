// A consumer's NIC tells of congestion, and the switch reads more slowly from the producers of that consumer, until no
// more of it is told.
#include "flow_network.h"

#include "roce/crc32.h"
#include "roce/icrc.h"
#include "roce/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace congestion {

constexpr std::size_t kOpcodeAt = 14 + 20 + 8;
constexpr std::byte kCnp{0x81};

FlowNetworkOptions marking(std::size_t consumers) {
  const RingShape shape{.slots = 64, .item_bytes = 250};
  return {.consumers = consumers, .producer_shape = shape, .consumer_shape = shape, .batch_bytes = 16 * 250};
}

// Until so many items have come to each consumer. The least share of the rate that each had.
std::vector<double> move(FlowNetwork& network, std::uint32_t items, const std::function<void()>& each_event = {}) {
  std::vector<std::uint32_t> popped(network.consumers());
  std::vector<double> least(network.consumers(), 1);
  network.run([&] {
    if (each_event) {
      each_event();
    }
    for (std::size_t i = 0; i < network.rings(); ++i) {
      while (network.push(i)) {
      }
    }
    const std::vector<double> shares = network.state().rate_shares;
    bool are_done = true;
    for (std::size_t i = 0; i < network.consumers(); ++i) {
      while (popped[i] < items && network.pop(i)) {
        ++popped[i];
      }
      are_done = are_done && popped[i] == items;
      least[i] = std::min(least[i], shares[i]);
    }
    return are_done;
  });
  return least;
}

// RoCEv2's notification (A17.9.3) from a consumer's NIC: BECN, no number, 16 reserved bytes. It is built as a SEND.
std::vector<std::byte> notification(const FlowNetwork& network, std::size_t consumer) {
  const FlowRing& ring = network.connection_of_consumer(consumer);
  constexpr std::array<std::byte, 16> kReserved{};
  roce::Packet packet;
  packet.ethernet = roce::Ethernet{.destination = network.own().mac, .source = ring.mac};
  roce::Ipv4 ip;
  ip.source = ring.ip;
  ip.destination = network.own().ip;
  packet.ip = ip;
  packet.bth.opcode = roce::Opcode::send_only;
  packet.bth.resv8a = 0x40;
  packet.bth.destination_qp = ring.end.queue_pair;
  packet.payload = kReserved;
  std::vector<std::byte> frame(128);
  frame.resize(std::get<std::size_t>(roce::build(packet, frame)));
  frame[kOpcodeAt] = kCnp;
  const std::span all(frame);
  const auto headers = all.subspan(roce::Ethernet::kBytes, kOpcodeAt - roce::Ethernet::kBytes + roce::Bth::kBytes);
  const std::uint32_t state = roce::crc32_extend(roce::icrc_after_ipv4(headers), kReserved);
  roce::store_icrc(frame.data() + frame.size() - roce::kIcrcBytes, roce::crc32_finish(state));
  return frame;
}

TEST(FlowCongestion, SlowsTheFlowToThatConsumerAndNoOther) {
  FlowNetwork network(zero_sided_program(), marking(2));
  EXPECT_EQ(move(network, 300), (std::vector<double>{1, 1}));
  const auto host = static_cast<std::uint16_t>(network.host_of_consumer(0));
  network.device().receive(host, notification(network, 0));
  EXPECT_EQ(network.device().drops(p4::Drop::bad_icrc), 0U);
  const std::vector<double> least = move(network, 64);
  EXPECT_EQ(least, (std::vector<double>{0.5, 1}));
  // Batch by batch it comes back.
  static_cast<void>(move(network, 600));
  EXPECT_EQ(network.state().rate_shares, (std::vector<double>{1, 1}));
}

// One batch is one reason to slow down, however often it is told; all of them never stop the flow.
TEST(FlowCongestion, IsCountedOnceForABatch) {
  FlowNetwork network(zero_sided_program(), marking(1));
  const auto host = static_cast<std::uint16_t>(network.host_of_consumer(0));
  for (int i = 0; i < 5; ++i) {
    network.device().receive(host, notification(network, 0));
  }
  EXPECT_EQ(move(network, 64), (std::vector<double>{0.5}));
  std::uint64_t frames = 0;
  network.on_send = [&](std::size_t, std::size_t, std::span<const std::byte>) {
    if (++frames % 4 == 0) {
      network.device().receive(host, notification(network, 0));
    }
    return -1;
  };
  EXPECT_LE(move(network, 64).at(0), 1.0 / 16);
}

// The whole way: a queue in front of a consumer grows, the switch marks what it sends there, and the consumer's NIC
// tells.
TEST(FlowCongestion, ALongQueueIsToldByTheNicThatGetsMarkedPackets) {
  FlowNetworkOptions options = marking(2);
  options.ecn_bytes = 1000;
  FlowNetwork network(zero_sided_program(), options);
  const std::size_t slow = network.host_of_consumer(0);
  std::uint64_t notifications = 0;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    const bool is_one = frame.size() > kOpcodeAt && frame[kOpcodeAt] == kCnp;
    EXPECT_TRUE(!is_one || from == slow);
    notifications += is_one ? 1U : 0U;
    return -1;
  };
  EXPECT_EQ(move(network, 300), (std::vector<double>{1, 1}));
  EXPECT_EQ(notifications, 0U) << "its queues are short";
  // Its port stands still for three of four events, so what goes there waits.
  std::uint64_t events = 0;
  std::vector<double> least =
      move(network, 300, [&] { network.device().set_paused(static_cast<std::uint16_t>(slow), ++events % 64 < 48); });
  EXPECT_GT(notifications, 3U);
  EXPECT_LE(least.at(0), 0.5);
  EXPECT_EQ(least.at(1), 1);
  network.device().set_paused(static_cast<std::uint16_t>(slow), false);
  static_cast<void>(move(network, 2000));
  EXPECT_EQ(network.state().rate_shares, (std::vector<double>{1, 1}));
}

// By the time that batches take. Each notification halves the rate, and all of them never stop the flow.
TEST(FlowCongestion, MakesPausesBetweenReads) {
  std::array<softnic::nic::Time, 3> times{};
  constexpr std::array<std::uint64_t, 3> kLevels{0, 8, 28};  // in quarters of a halving
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    FlowNetwork network(zero_sided_program(), marking(1));
    static_cast<void>(move(network, 100));
    const softnic::nic::Time begun = network.now();
    std::uint32_t popped = 0;
    network.run([&] {
      network.device().state().reg("Move.slownesses").write(0, kLevels.at(i));
      while (network.push(0)) {
      }
      while (network.pop(0)) {
        ++popped;
      }
      return popped >= 200;
    });
    times.at(i) = network.now() - begun;
  }
  EXPECT_GT(times[1], 3 * times[0]);
  EXPECT_LT(times[1], 8 * times[0]);
  EXPECT_GT(times[2], 8 * times[1]);
}

}  // namespace congestion
}  // namespace
}  // namespace sidelatch::flows
