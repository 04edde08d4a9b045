// A long queue in front of a consumer: the switch marks packets, the consumer's NIC tells of it, and the switch reads
// more slowly from the producers of that consumer, until the queue is short again.
#include "flow_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace congestion {

constexpr std::size_t kOpcodeAt = 14 + 20 + 8;
constexpr std::byte kCnp{0x81};

FlowNetworkOptions marking(std::size_t consumers) {
  const RingShape shape{.slots = 64, .item_bytes = 250};
  return {.consumers = consumers,
          .producer_shape = shape,
          .consumer_shape = shape,
          .batch_bytes = 16 * 250,
          .ecn_bytes = 1000};
}

// The consumer's port stands still for some time, again and again, until so many items have come. The least share of
// the rate that each consumer had.
std::vector<double> move(FlowNetwork& network, std::uint32_t items, bool is_congested) {
  std::vector<std::uint32_t> popped(network.consumers());
  std::uint64_t events = 0;
  std::vector<double> least(network.consumers(), 1);
  network.run([&] {
    ++events;
    if (is_congested) {
      network.device().set_paused(static_cast<std::uint16_t>(network.host_of_consumer(0)), events % 64 < 48);
    }
    for (std::size_t i = 0; i < network.rings(); ++i) {
      while (network.push(i)) {
      }
    }
    // Looked at now and then.
    const std::vector<double> shares = events % 32 == 0 ? network.state().rate_shares : least;
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
  network.device().set_paused(static_cast<std::uint16_t>(network.host_of_consumer(0)), false);
  return least;
}

TEST(FlowCongestion, SlowsTheFlowToThatConsumerAndNoOther) {
  FlowNetwork network(zero_sided_program(), marking(2));
  std::uint64_t notifications = 0;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    const bool is_one = frame.size() > kOpcodeAt && frame[kOpcodeAt] == kCnp;
    EXPECT_TRUE(!is_one || from == network.host_of_consumer(0));
    notifications += is_one ? 1U : 0U;
    return -1;
  };
  EXPECT_EQ(move(network, 500, false), (std::vector<double>{1, 1}));
  EXPECT_EQ(notifications, 0U);
  const std::vector<double> least = move(network, 500, true);
  EXPECT_GT(notifications, 3U);
  EXPECT_LE(least.at(0), 0.5);
  EXPECT_EQ(least.at(1), 1);
  static_cast<void>(move(network, 2000, false));
  EXPECT_EQ(network.state().rate_shares, (std::vector<double>{1, 1}));
}

// By the time that batches take. Each notification halves the rate, and all of them never stop the flow.
TEST(FlowCongestion, MakesPausesBetweenReads) {
  std::array<softnic::nic::Time, 3> times{};
  constexpr std::array<std::uint64_t, 3> kLevels{0, 8, 28};  // in quarters of a halving
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    FlowNetwork network(zero_sided_program(), marking(1));
    static_cast<void>(move(network, 100, false));
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
