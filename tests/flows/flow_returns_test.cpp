// What comes back: packets that go round in the switch when their flow has been stopped, and units that were away.
#include "flow_network.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace returns {

constexpr std::uint64_t kIdle = 1;  // phases
constexpr std::uint64_t kDone = 2;
constexpr std::uint64_t kHead = 5;

p4::RegisterState& reg(FlowNetwork& network, const char* name) {
  return network.device().state().reg(std::string("Move.") + name);
}

// ---- Another flow gets the threads of one that was stopped. Failed, both: it heard what was meant for the first one.

// On its way from the thread of consumer 2, which is busy, to the next one.
TEST(FlowReturns, ABellOfAFlowThatWasStoppedIsNoneOfTheNextOnes) {
  FlowNetwork network(zero_sided_program(), ringing(FlowKind::balance, 1, 3));
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
    FlowNetwork network(zero_sided_program(), ringing(FlowKind::shuffle, 1, 1));
    network.pass_time(kRarePoll);
    ASSERT_EQ(network.device().arrived(), 1U);
    if (is_stopped) {
      network.start_anew();
    }
    network.device().run();
    EXPECT_EQ(reg(network, "phases").read(0), is_stopped ? kIdle : kHead);
  }
}

// ---- A producer that comes back.

// Failed: what the consumer that had left was told, that it was lost, was forgotten; if that was to be said once more,
// something else was said.
TEST(FlowReturns, AProducerThatComesBackChangesNothingForAConsumerThatHasLeft) {
  constexpr std::uint64_t kLost = 1;  // of `marks`
  FlowNetworkOptions options = ringing(FlowKind::balance, 1, 2);
  options.poll_interval = std::chrono::microseconds(5);
  options.time_out = std::chrono::microseconds(20);
  options.most_retries = 2;
  options.is_open = true;
  FlowNetwork network(zero_sided_program(), options);
  bool is_cut = true;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    return is_cut && from == 0 ? 0 : -1;
  };
  const auto mark_of = [&](std::size_t thread) {
    return static_cast<std::uint64_t>(reg(network, "marks").read(thread)) & kLost;
  };
  const auto run_until = [&](const std::function<bool()>& done) {
    network.run([&] { return done() || network.now() > 10 * kRarePoll; });
    ASSERT_LE(network.now(), 10 * kRarePoll);
  };
  ASSERT_TRUE(network.push(0));
  ASSERT_NO_FATAL_FAILURE(run_until([&] { return mark_of(0) != 0 && mark_of(1) != 0; }));
  network.control().leave_consumer(network.flow(), 0);
  ASSERT_NO_FATAL_FAILURE(run_until([&] { return reg(network, "phases").read(0) == kDone; }));
  EXPECT_THROW(static_cast<void>(network.consumer(0).available()), FlowBroken);
  is_cut = false;
  network.rejoin_producer(0);
  EXPECT_EQ(mark_of(0), kLost);
  EXPECT_EQ(mark_of(1), 0U);
  EXPECT_TRUE(network.state().is_broken);
  ASSERT_NO_FATAL_FAILURE(run_until([&] { return network.pop(1).has_value(); }));
  EXPECT_FALSE(network.state().lost_producers[0]);
}

// ---- Units that join while the consumers of a balanced flow are away.

// A consumer joins and leaves twice, with the same memory. Failed: the producer was refused, because two consumers that
// were not there any more had had one ring.
TEST(FlowReturns, AProducerJoinsWhileAConsumerIsAwayThatHasComeAndGoneTwice) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}});
  const RingShape shape{.slots = 4, .item_bytes = 8};
  std::uint32_t queue_pairs = 17;
  const auto ring = [&](std::uint8_t unit, std::uint64_t address) {
    return FlowRing{.mac = {2, 0, 0, 0, 0, unit},
                    .ip = {10, 0, 0, unit},
                    .queue_pair = queue_pairs++,
                    .end = control.new_end(),
                    .rkey = 7,
                    .address = address,
                    .shape = shape};
  };
  const auto flow =
      control.start({.kind = FlowKind::balance, .producers = {ring(1, 0)}, .consumers = {ring(2, 0)}, .is_open = true});
  control.leave_consumer(flow, 0);
  EXPECT_EQ(control.join_consumer(flow, ring(2, 0)), 1U);
  EXPECT_THROW(control.join_consumer(flow, ring(2, 0)), std::invalid_argument) << "its memory is in use";
  control.leave_consumer(flow, 1);
  EXPECT_EQ(control.join_producer(flow, {ring(1, 0x1000)}), 1U);
  EXPECT_EQ(control.join_consumer(flow, ring(2, 0)), 2U);
}

// A ring has one head, of a unit's or of the switch's.
TEST(FlowReturns, AProducerMayHaveTheMemoryOfAConsumerThatHasLeftAndOfNoOther) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}});
  std::uint32_t queue_pairs = 17;
  const auto ring = [&](std::uint64_t address) {
    return FlowRing{.mac = {2, 0, 0, 0, 0, 1},
                    .ip = {10, 0, 0, 1},
                    .queue_pair = queue_pairs++,
                    .end = control.new_end(),
                    .rkey = 7,
                    .address = address,
                    .shape = {.slots = 4, .item_bytes = 8}};
  };
  const auto flow = control.start(
      {.kind = FlowKind::balance, .producers = {ring(0)}, .consumers = {ring(0x1000), ring(0x2000)}, .is_open = true});
  EXPECT_THROW(control.join_producer(flow, {ring(0x1000)}), std::invalid_argument);
  EXPECT_THROW(control.join_consumer(flow, ring(0)), std::invalid_argument);
  control.leave_consumer(flow, 0);
  EXPECT_EQ(control.join_producer(flow, {ring(0x1000)}), 1U);
  control.leave_consumer(flow, 1);  // nobody is there now
  EXPECT_EQ(control.join_producer(flow, {ring(0x2000)}), 2U);
}

// And their items come when one is back.
TEST(FlowReturns, ItemsOfAProducerThatJoinsWhileConsumersAreAwayComeWhenOneIsBack) {
  FlowNetworkOptions options = ringing(FlowKind::balance, 1, 2);
  options.is_open = true;
  FlowNetwork network(zero_sided_program(), options);
  const auto soon = [&](const std::function<bool()>& done) {
    const softnic::nic::Time begun = network.now();
    network.run([&] { return done() || network.now() > begun + 2 * kRarePoll; });
    ASSERT_LT(network.now() - begun, kRarePoll / 10);
  };
  for (const std::size_t consumer : {0U, 1U}) {
    network.control().leave_consumer(network.flow(), consumer);
    ASSERT_NO_FATAL_FAILURE(soon([&] { return network.consumer(consumer).has_ended(); }));
  }
  const std::size_t producer = network.join_producer(0);
  ASSERT_TRUE(network.push(producer));
  ASSERT_TRUE(network.push(0));
  ASSERT_NO_FATAL_FAILURE(soon([&] { return network.travelling() == 0; }));
  const std::size_t back = network.join_consumer(0);
  std::uint32_t popped = 0;
  ASSERT_NO_FATAL_FAILURE(soon([&] {
    while (network.pop(back)) {
      ++popped;
    }
    return popped == 2;
  }));
}

}  // namespace returns
}  // namespace
}  // namespace sidelatch::flows
