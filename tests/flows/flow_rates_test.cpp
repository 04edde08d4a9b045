// Rates that are limited, while the control plane does something else: what has moved is paid for, once, and what waits
// is heard at once.
#include "flow_network.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace rates {

constexpr std::uint32_t kItemBytes = 300;
constexpr std::uint64_t kSlow = 1000;       // bytes a second: an item takes 0.3 s
constexpr std::uint64_t kFast = 3'000'000;  // an item takes 100 us
constexpr softnic::nic::Time kItemTime = 100'000;
constexpr std::uint64_t kFastest = 1'000'000'000'000;

// Batches of one item.
FlowNetworkOptions options_of(FlowKind kind, std::size_t consumers, std::chrono::nanoseconds poll_interval) {
  return {.consumers = consumers,
          .kind = kind,
          .producer_shape = {.slots = 4, .item_bytes = kItemBytes},
          .consumer_shape = {.slots = 4, .item_bytes = kItemBytes},
          .batch_bytes = kItemBytes,
          .rings = true,
          .is_open = true,
          .poll_interval = poll_interval};
}
FlowNetworkOptions rarely_polled(FlowKind kind, std::size_t consumers) {
  return options_of(kind, consumers, std::chrono::nanoseconds(kRarePoll));
}

// A full flow of which one item has moved; the others are to be paid for.
void move_one(FlowNetwork& network) {
  network.control().limit_rate(network.flow(), kSlow);
  while (network.push(0)) {
  }
  const auto all = [&] {
    std::uint32_t heads = 0;
    for (std::size_t c = 0; c < network.consumers(); ++c) {
      heads += network.head_of(c);
    }
    return heads;
  };
  network.run([&] { return (all() != 0 && network.travelling() == 0) || network.now() > 2 * kRarePoll; });
  ASSERT_NE(all(), 0U);
}

// How long so many items take while the control plane does this all the time.
softnic::nic::Time time_of(std::uint32_t items, const std::function<void(FlowNetwork&)>& change) {
  FlowNetwork network(zero_sided_program(), options_of(FlowKind::shuffle, 1, std::chrono::microseconds(5)));
  network.control().limit_rate(network.flow(), kFast);
  const softnic::nic::Time begun = network.now();
  std::uint32_t popped = 0;
  network.run([&] {
    change(network);
    while (network.push(0)) {
    }
    while (network.pop(0)) {
      ++popped;
    }
    return popped >= items || network.now() > begun + 100 * items * kItemTime;
  });
  return network.now() - begun;
}

// Failed: each call forgave what had moved.
TEST(FlowRates, ALimitThatIsSetAgainAndAgainHolds) {
  constexpr std::uint32_t kItems = 30;
  const softnic::nic::Time time =
      time_of(kItems, [](FlowNetwork& network) { network.control().limit_rate(network.flow(), kFast); });
  EXPECT_GT(time, (kItems - 5) * kItemTime);
  EXPECT_LT(time, (kItems + 5) * kItemTime);
}
TEST(FlowRates, ALimitHoldsWhileThreadsAreWoken) {
  constexpr std::uint32_t kItems = 30;
  const softnic::nic::Time time =
      time_of(kItems, [](FlowNetwork& network) { network.control().close(network.flow()); });
  EXPECT_GT(time, (kItems - 5) * kItemTime);
  EXPECT_LT(time, (kItems + 5) * kItemTime);
}
// Failed: what had moved under the higher limit cost 0.3 s under the lower one.
TEST(FlowRates, ALowerLimitMakesWhatHasMovedNoDearer) {
  FlowNetwork network(zero_sided_program(), rarely_polled(FlowKind::shuffle, 1));
  network.control().limit_rate(network.flow(), kFast);
  while (network.push(0)) {
  }
  network.run([&] { return network.head_of(0) == 1 || network.now() > 2 * kRarePoll; });
  ASSERT_EQ(network.head_of(0), 1U);
  const softnic::nic::Time begun = network.now();
  network.control().limit_rate(network.flow(), kSlow);
  network.run([&] { return network.head_of(0) == 2 || network.now() > begun + 2 * kRarePoll; });
  EXPECT_LT(network.now() - begun, 2 * kItemTime);
  network.run([&] { return network.head_of(0) == 3 || network.now() > begun + 2 * kRarePoll; });
  EXPECT_EQ(network.head_of(0), 2U) << "the next one costs what the limit says";
}
// Down and up again, while the first item is still to be paid for.
TEST(FlowRates, ALimitThatGoesDownAndUpForgivesNothing) {
  constexpr std::uint32_t kItems = 30;
  const softnic::nic::Time time = time_of(kItems, [](FlowNetwork& network) {
    network.control().limit_rate(network.flow(), kSlow);
    network.control().limit_rate(network.flow(), kFast);
  });
  EXPECT_GT(time, (kItems - 5) * kItemTime);
  EXPECT_LT(time, (kItems + 5) * kItemTime);
}
TEST(FlowRates, WhatHasMovedIsPaidForAtTheHigherRate) {
  FlowNetwork network(zero_sided_program(), rarely_polled(FlowKind::shuffle, 1));
  ASSERT_NO_FATAL_FAILURE(move_one(network));
  const softnic::nic::Time begun = network.now();
  network.control().limit_rate(network.flow(), kFast);
  network.run([&] { return network.head_of(0) == 2 || network.now() > begun + 2 * kRarePoll; });
  EXPECT_GT(network.now() - begun, kItemTime / 2);
  EXPECT_LT(network.now() - begun, 2 * kItemTime);
}

// Failed: the thread slept until its next poll.
TEST(FlowRates, AHigherLimitAndNoneAreHeardAtOnce) {
  for (const std::uint64_t rate : {std::uint64_t{0}, kFastest}) {
    FlowNetwork network(zero_sided_program(), rarely_polled(FlowKind::shuffle, 1));
    ASSERT_NO_FATAL_FAILURE(move_one(network));
    EXPECT_EQ(network.head_of(0), 1U);
    network.control().limit_rate(network.flow(), rate);
    expect_soon(network, [&] { return network.head_of(0) == 4; });
  }
}

// Its thread owes for what has moved, and moves nothing more.
TEST(FlowRates, AConsumerThatLeavesIsToldAtOnce) {
  FlowNetwork network(zero_sided_program(), rarely_polled(FlowKind::balance, 2));
  ASSERT_NO_FATAL_FAILURE(move_one(network));
  const std::size_t leaver = network.head_of(0) != 0 ? 0 : 1;
  network.control().leave_consumer(network.flow(), leaver);
  std::uint32_t popped = 0;
  expect_soon(network, [&] {
    popped += network.pop(leaver) ? 1U : 0U;
    return network.consumer(leaver).has_ended();
  });
  EXPECT_EQ(popped, 1U);
}

// No rate is limited here. Failed: the thread slept until its next poll, because nobody rings for who has left.
TEST(FlowRates, AConsumerOfAReplicatedFlowThatLeavesMakesRoomAtOnce) {
  FlowNetwork network(zero_sided_program(), rarely_polled(FlowKind::replicate, 2));
  std::uint32_t popped = 0;
  const auto step = [&] {
    while (network.push(0)) {
    }
    while (network.pop(0)) {
      ++popped;
    }
  };
  // Until the ring of the other one is full, and so is the producer's: nobody rings any more.
  network.run([&] {
    step();
    return (popped == 4 && network.producer(0).room() == 0) || network.now() > kRarePoll / 2;
  });
  network.run([&] { return network.travelling() == 0; });
  ASSERT_LT(network.now(), kRarePoll / 2);
  network.control().leave_consumer(network.flow(), 1);
  expect_soon(network, [&] {
    step();
    return popped >= 20;
  });
}

}  // namespace rates
}  // namespace
}  // namespace sidelatch::flows
