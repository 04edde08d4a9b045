// What a user may ask for and is seldom tried: nothing to move, rings of one slot, rings of unequal size, items of odd
// sizes, a consumer that never pops, rates that change while items move.
#include "flow_network.h"

#include "tests/switchsync/changed_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace inputs {

constexpr softnic::nic::Time kLongest = 500'000'000;  // virtual
constexpr std::uint32_t kItems = 20;
constexpr std::uint32_t kMany = 600;
constexpr std::uint64_t kRounds = 40;  // with each rate

void expect_all(FlowNetwork& network, std::uint32_t items) {
  const auto arrived = network.move(items);
  if (network.options().kind != FlowKind::replicate) {
    EXPECT_EQ(judge(arrived, network.rings(), items), "");
    return;
  }
  for (const auto& one : arrived) {
    EXPECT_EQ(judge({one}, network.rings(), items), "");
  }
}

class FlowInputs : public testing::TestWithParam<FlowKind> {};

TEST_P(FlowInputs, NothingIsMovedAndTheEndComes) {
  FlowNetwork network(zero_sided_program(), {.producers = 2, .consumers = 2, .kind = GetParam()});
  expect_all(network, 0);
}

TEST_P(FlowInputs, RingsOfUnequalSizeAndItemsOfOddSizes) {
  for (const auto& [from, to] : {std::tuple{1U, 1U}, std::tuple{1U, 8U}, std::tuple{8U, 1U}, std::tuple{2U, 16U}}) {
    for (const std::uint32_t bytes : {7U, 255U, 257U, 1023U}) {
      FlowNetwork network(zero_sided_program(), {.producers = 2,
                                                 .consumers = 2,
                                                 .kind = GetParam(),
                                                 .producer_shape = {.slots = from, .item_bytes = bytes},
                                                 .consumer_shape = {.slots = to, .item_bytes = bytes}});
      expect_all(network, kItems);
    }
  }
}

TEST_P(FlowInputs, RatesThatChangeWhileItemsMove) {
  FlowNetwork network(zero_sided_program(), {.producers = 2, .consumers = 2, .kind = GetParam()});
  const std::vector<std::uint64_t> rates{10'000'000, 0, 1'000'000, 1'000'000'000'000, 50'000'000, 0};
  std::vector<std::uint32_t> pushed(network.rings());
  std::vector<std::vector<ItemName>> arrived(network.consumers());
  std::uint64_t rounds = 0;
  network.run([&] {
    if (rounds % kRounds == 0 && rounds / kRounds < rates.size()) {
      network.control().limit_rate(network.flow(), rates[rounds / kRounds]);
    }
    ++rounds;
    for (std::size_t i = 0; i < network.rings(); ++i) {
      while (pushed[i] < kMany && network.push(i)) {
        ++pushed[i];
      }
      if (pushed[i] == kMany) {
        network.producer(i).end();
      }
    }
    bool is_over = true;
    for (std::size_t c = 0; c < network.consumers(); ++c) {
      while (const auto name = network.pop(c)) {
        arrived[c].push_back(*name);
      }
      is_over = is_over && network.consumer(c).has_ended();
    }
    return is_over || network.now() > kLongest;
  });
  EXPECT_LT(network.now(), kLongest);
  EXPECT_GT(rounds, kRounds * (rates.size() - 1));  // all were set while items moved
  if (GetParam() == FlowKind::replicate) {
    EXPECT_EQ(judge({arrived[0]}, network.rings(), kMany), "");
    EXPECT_EQ(arrived[0], arrived[1]);
  } else {
    EXPECT_EQ(judge(arrived, network.rings(), kMany), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FlowInputs, testing::Values(FlowKind::shuffle, FlowKind::balance, FlowKind::replicate));

// Its ring fills up; of a balanced flow the others get what comes, and of a shuffle what is theirs.
TEST(FlowInput, AConsumerThatNeverPopsHoldsNobodyElse) {
  for (const FlowKind kind : {FlowKind::shuffle, FlowKind::balance}) {
    FlowNetwork network(zero_sided_program(), {.consumers = 2, .kind = kind});
    std::uint32_t popped = 0;
    network.run([&] {
      for (std::size_t i = 0; i < network.rings(); ++i) {
        while (network.push(i)) {
        }
      }
      while (network.pop(1)) {
        ++popped;
      }
      return popped >= 100 || network.now() > kLongest;
    });
    EXPECT_GE(popped, 100U);
    EXPECT_LE(network.head_of(0), network.options().consumer_shape.slots);
    EXPECT_FALSE(network.state().is_broken);
  }
}

// The switch counts microseconds in 32 bits: after 36 minutes an old time would seem to be to come.
std::uint32_t popped_after_an_hour(const std::shared_ptr<const p4::Program>& program) {
  constexpr std::chrono::nanoseconds kPoll = std::chrono::seconds(20);
  constexpr softnic::nic::Time kIdle = 50ULL * 60 * 1'000'000'000;
  FlowNetwork network(program, {.idle_interval = kPoll, .poll_interval = kPoll});
  network.run([&] { return network.now() > kIdle; });
  while (network.push(0)) {
  }
  std::uint32_t popped = 0;
  network.run([&] {
    while (network.pop(0)) {
      ++popped;
    }
    return popped == network.options().producer_shape.slots || network.now() > kIdle + 3 * kPoll.count();
  });
  return popped;
}

TEST(FlowInput, AFlowThatWasIdleForAnHourMovesAtOnce) {
  EXPECT_EQ(popped_after_an_hour(zero_sided_program()), 8U);
  EXPECT_EQ(
      popped_after_an_hour(switchsync::changed_program(
          "zero_sided.p4", "began = now;  // nothing holds the next one back, however long this thread is idle", "")),
      0U);
}

// A switch serves for months, and flows begin at any time.
TEST(FlowInput, AFlowBeginsAtAnyTimeOfTheSwitchsClock) {
  constexpr softnic::nic::Time kMinute = 60ULL * 1'000'000'000;
  for (const softnic::nic::Time begins_at : {35 * kMinute, 40 * kMinute, 68 * kMinute, 71 * kMinute, 110 * kMinute}) {
    for (const FlowKind kind : {FlowKind::shuffle, FlowKind::balance, FlowKind::replicate}) {
      FlowNetwork network(zero_sided_program(), {.producers = 2, .consumers = 2, .kind = kind, .begins_at = begins_at});
      std::uint32_t popped = 0;
      for (std::size_t i = 0; i < network.rings(); ++i) {
        network.push(i);
      }
      const std::uint32_t wanted = kind == FlowKind::balance ? 2 : 4;
      const softnic::nic::Time until = network.now() + 100'000'000;
      network.run([&] {
        for (std::size_t i = 0; i < network.consumers(); ++i) {
          while (network.pop(i)) {
            ++popped;
          }
        }
        return popped == wanted || network.now() > until;
      });
      EXPECT_EQ(popped, wanted) << begins_at / kMinute << " minutes, kind " << static_cast<int>(kind);
    }
  }
}

TEST(FlowInput, ATimerThatTheClockCannotMeasureIsRefused) {
  EXPECT_THROW(FlowNetwork(zero_sided_program(), {.poll_interval = std::chrono::minutes(11)}), std::invalid_argument);
  EXPECT_THROW(FlowNetwork(zero_sided_program(), {.idle_interval = std::chrono::minutes(11)}), std::invalid_argument);
}

}  // namespace inputs
}  // namespace
}  // namespace sidelatch::flows
