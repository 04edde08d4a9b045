// What comes back: packets that go round in the switch when their flow has been stopped, and units that were away.
#include "flow_network.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace returns {

constexpr softnic::nic::Time kPoll = 10'000'000;  // so long that nothing comes by polls
constexpr std::uint64_t kIdle = 1;                // phases
constexpr std::uint64_t kHead = 5;

FlowNetworkOptions options_of(FlowKind kind, std::size_t producers, std::size_t consumers) {
  return {.producers = producers,
          .consumers = consumers,
          .kind = kind,
          .producer_shape = {.slots = 4, .item_bytes = 300},
          .consumer_shape = {.slots = 4, .item_bytes = 300},
          .rings = true,
          .poll_interval = std::chrono::nanoseconds(kPoll)};
}
p4::RegisterState& reg(FlowNetwork& network, const char* name) {
  return network.device().state().reg(std::string("Move.") + name);
}

// ---- Another flow gets the threads of one that was stopped. Failed, both: it heard what was meant for the first one.

// On its way from the thread of consumer 2, which is busy, to the next one.
TEST(FlowReturns, ABellOfAFlowThatWasStoppedIsNoneOfTheNextOnes) {
  FlowNetwork network(zero_sided_program(), options_of(FlowKind::balance, 1, 3));
  const std::size_t host = network.host_of_consumer(2);
  std::vector<std::byte> bell;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    if (from == host) {
      bell.assign(frame.begin(), frame.end());
    }
    return 0;
  };
  network.ring_of_consumer(2);
  network.run([&] { return !bell.empty(); });
  for (const bool is_stopped : {false, true}) {
    reg(network, "phases").write(2, kHead);
    network.device().receive(static_cast<std::uint16_t>(host), bell);
    ASSERT_TRUE(network.device().step());
    ASSERT_EQ(network.device().arrived(), 1U);
    if (is_stopped) {
      network.start_anew();
    }
    network.device().run();
    EXPECT_EQ(reg(network, "phases").read(0), is_stopped ? kIdle : kHead);
  }
}

TEST(FlowReturns, ATickOfAFlowThatWasStoppedIsNoneOfTheNextOnes) {
  for (const bool is_stopped : {false, true}) {
    FlowNetwork network(zero_sided_program(), options_of(FlowKind::shuffle, 1, 1));
    network.pass_time(kPoll);
    ASSERT_EQ(network.device().arrived(), 1U);
    if (is_stopped) {
      network.start_anew();
    }
    network.device().run();
    EXPECT_EQ(reg(network, "phases").read(0), is_stopped ? kIdle : kHead);
  }
}

}  // namespace returns
}  // namespace
}  // namespace sidelatch::flows
