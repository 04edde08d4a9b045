// A second switch takes over, whenever the first one stops.
#include "flow_network.h"

#include "tests/sampled.h"
#include "tests/switchsync/changed_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace takeovers {

constexpr std::uint32_t kItems = 9;  // of each ring: three batches at least
constexpr softnic::nic::Time kLongest = 50'000'000;

struct Shape {
  FlowKind kind;
  std::size_t producers;
  std::size_t consumers;
};
constexpr std::array kShapes{Shape{FlowKind::shuffle, 1, 1},   Shape{FlowKind::shuffle, 3, 2},
                             Shape{FlowKind::balance, 2, 2},   Shape{FlowKind::balance, 3, 2},
                             Shape{FlowKind::replicate, 1, 2}, Shape{FlowKind::replicate, 2, 3}};

struct Outcome {
  std::string wrong{};
  std::uint64_t frames = 0;  // without a fail-over
};

// The switch stops when `after` frames have been sent; `again`: and the next one so many later.
Outcome move(const std::shared_ptr<const p4::Program>& program, const Shape& shape, std::uint64_t after,
             std::uint64_t again, std::uint64_t seed, softnic::nic::Time begins_at = 0) {
  FlowNetworkOptions options{.producers = shape.producers,
                             .consumers = shape.consumers,
                             .kind = shape.kind,
                             .producer_shape = {.slots = 4, .item_bytes = 600},
                             .consumer_shape = {.slots = 4, .item_bytes = 600},
                             .time_out = std::chrono::microseconds(20),
                             .seed = seed,
                             .begins_at = begins_at};
  if (seed % 2 == 0) {
    options.producer_shape.order = ByteOrder::big;
    options.consumer_shape.order = ByteOrder::big;
    options.first_count = kCount - 5;
  }
  FlowNetwork network(program, options);
  Outcome outcome;
  std::uint64_t next = after;
  network.on_send = [&](std::size_t, std::size_t, std::span<const std::byte>) {
    ++outcome.frames;
    return -1;
  };
  std::vector<std::vector<ItemName>> arrived(network.consumers());
  std::vector<bool> at_end(network.consumers());
  std::vector<std::uint32_t> pushed(network.rings());
  std::uint64_t number = 0;
  network.run([&] {
    if (outcome.frames >= next) {
      network.fail_over();
      next = again == 0 ? ~std::uint64_t{0} : outcome.frames + again;
      again = 0;
    }
    ++number;
    for (std::size_t i = 0; i < network.rings(); ++i) {
      while (pushed[i] < kItems && network.push(i)) {
        ++pushed[i];
      }
      if (pushed[i] == kItems) {
        network.producer(i).end();
      }
    }
    for (std::size_t i = 0; i < network.consumers(); ++i) {
      if (number % (i + 2) != 0) {
        continue;  // they are not equally far
      }
      while (const auto name = network.pop(i)) {
        arrived[i].push_back(*name);
      }
      at_end[i] = at_end[i] || network.consumer(i).has_ended();
    }
    bool is_drained = true;
    for (std::size_t i = 0; i < network.rings(); ++i) {
      is_drained = is_drained && network.producer(i).is_drained();
    }
    return (is_drained && std::ranges::all_of(at_end, [](bool end) { return end; })) ||
           network.now() > begins_at + kLongest;
  });
  if (network.now() > begins_at + kLongest) {
    outcome.wrong = "the flow has come to a halt";
  } else if (shape.kind != FlowKind::replicate) {
    outcome.wrong = judge(arrived, network.rings(), kItems);
  } else {
    for (const auto& items : arrived) {
      outcome.wrong = outcome.wrong.empty() ? judge({items}, network.rings(), kItems) : outcome.wrong;
      if (items != arrived[0]) {
        outcome.wrong = "two consumers differ";
      }
    }
  }
  return outcome;
}

// What went wrong first, and after how many frames.
std::string at_each_frame(const std::shared_ptr<const p4::Program>& program, const Shape& shape, std::uint64_t step) {
  const std::uint64_t never = ~std::uint64_t{0};
  const std::uint64_t frames = move(program, shape, never, 0, 1).frames;
  EXPECT_GT(frames, 30U);
  for (std::uint64_t after = 1; after <= frames; after += step) {
    for (const std::uint64_t again : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{31}}) {
      const Outcome outcome = move(program, shape, after, again, after);
      if (!outcome.wrong.empty()) {
        return std::to_string(after) + ": " + outcome.wrong;
      }
    }
  }
  return {};
}

TEST(FlowTakeover, EachItemComesOnceWheneverTheFirstSwitchStops) {
  for (const Shape& shape : kShapes) {
    EXPECT_EQ(at_each_frame(zero_sided_program(), shape,
                            takes_long()   ? 1
                            : is_sampled() ? 97
                                           : 13),
              "")
        << static_cast<int>(shape.kind) << ' ' << shape.producers << ':' << shape.consumers;
  }
}

// Counters alone do not say whose items the latest ones are.
TEST(FlowTakeover, WithoutTheJournalItemsComeTwice) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut;
  }
  const auto forgetful =
      switchsync::changed_program("zero_sided.p4", "h.journal.producer = p_name;", "h.journal.producer = 0;");
  for (const Shape& shape : kShapes) {
    EXPECT_NE(at_each_frame(forgetful, shape, 3), "")
        << static_cast<int>(shape.kind) << ' ' << shape.producers << ':' << shape.consumers;
  }
}

// It counted as one that lives, so nobody told the producers when the last one died.
TEST(FlowTakeover, AConsumerThatHasLeftIsNotCounted) {
  FlowNetworkOptions options{.producers = 1,
                             .consumers = 2,
                             .kind = FlowKind::balance,
                             .producer_shape = {.slots = 4, .item_bytes = 600},
                             .consumer_shape = {.slots = 4, .item_bytes = 600},
                             .time_out = std::chrono::microseconds(20),
                             .most_retries = 3};
  FlowNetwork network(zero_sided_program(), options);
  network.control().leave_consumer(network.flow(), 0);
  network.run([&] { return network.consumer(0).has_ended() || network.now() > kLongest; });
  network.fail_over();
  EXPECT_THROW(network.control().leave_consumer(network.flow(), 1), std::invalid_argument) << "it is the last one";
  network.kill_consumer(1);
  network.push(0);
  bool is_told = false;
  network.run([&] {
    try {
      static_cast<void>(network.producer(0).room());
    } catch (const FlowBroken&) {
      is_told = true;
    }
    return is_told || network.now() > 2 * kLongest;
  });
  EXPECT_TRUE(is_told);
  EXPECT_FALSE(network.state().has_ended);
}

// An open flow does not end because its consumers have left.
TEST(FlowTakeover, AnOpenFlowWhoseConsumersHaveLeftHasNotEnded) {
  FlowNetwork network(zero_sided_program(),
                      {.producers = 1, .consumers = 1, .kind = FlowKind::balance, .is_open = true});
  network.producer(0).end();
  network.run([&] { return network.producer(0).is_drained() || network.now() > kLongest; });
  network.control().leave_consumer(network.flow(), 0);
  network.run([&] { return network.consumer(0).has_ended() || network.now() > kLongest; });
  network.fail_over();
  EXPECT_FALSE(network.state().has_ended);
  network.control().close(network.flow());
  EXPECT_TRUE(network.state().has_ended);
}

// A consumer of a replicated flow that was given up, and lives, must not be told of items that it never got.
TEST(FlowTakeover, WhoWasGivenUpBeforeGetsNothingMore) {
  for (const std::size_t lost : {std::size_t{0}, std::size_t{1}}) {
    FlowNetworkOptions options{.producers = 1,
                               .consumers = 2,
                               .kind = FlowKind::replicate,
                               .producer_shape = {.slots = 4, .item_bytes = 600},
                               .consumer_shape = {.slots = 4, .item_bytes = 600},
                               .time_out = std::chrono::microseconds(20),
                               .most_retries = 3};
    FlowNetwork network(zero_sided_program(), options);
    const std::size_t other = 1 - lost;
    bool is_cut_off = true;  // the lost one's answers do not come
    network.on_send = [&](std::size_t from, std::size_t to, std::span<const std::byte>) {
      const std::size_t host = network.host_of_consumer(lost);
      return is_cut_off && (from == host || to == host) ? 0 : -1;
    };
    std::vector<std::uint32_t> popped(2);
    const auto step = [&] {
      network.push(0);
      while (network.pop(other)) {
        ++popped[other];
      }
      if (!is_cut_off) {
        while (network.pop(lost)) {
          ++popped[lost];
        }
      }
    };
    network.run([&] {
      step();
      return popped[other] >= 10 || network.now() > kLongest;
    });
    is_cut_off = false;
    const std::uint32_t head = network.head_of(lost);
    network.fail_over();
    network.run([&] {
      step();
      return popped[other] >= 30 || network.now() > 2 * kLongest;
    });
    EXPECT_GE(popped[other], 30U) << lost;
    EXPECT_EQ(network.head_of(lost), head) << lost;
    EXPECT_TRUE(network.state().lost_consumers[lost]);
    EXPECT_FALSE(network.state().lost_consumers[other]);
    // The others' end is no broken one.
    network.producer(0).end();
    network.run([&] {
      while (network.pop(other)) {
      }
      return network.consumer(other).has_ended() || network.now() > 3 * kLongest;
    });
    EXPECT_TRUE(network.consumer(other).has_ended());
  }
}

// A time-out in the wrong half of the clock would hold what is to be asked again.
TEST(FlowTakeover, ItGoesOnAtAnyTimeOfTheSwitchsClock) {
  constexpr softnic::nic::Time kMinute = 60ULL * 1'000'000'000;
  for (const softnic::nic::Time begins_at : {40 * kMinute, 68 * kMinute}) {
    for (const Shape& shape : kShapes) {
      for (std::uint64_t after = 5; after < 100; after += is_sampled() ? 19U : 3U) {
        EXPECT_EQ(move(zero_sided_program(), shape, after, 0, 1, begins_at).wrong, "")
            << begins_at / kMinute << " minutes, after " << after;
      }
    }
  }
}

// Each number has its own connection and memory.
FlowRing numbered_ring(const SwitchEnd& end, std::uint32_t number) {
  return {.queue_pair = number,
          .end = end,
          .address = std::uint64_t{4096} * number,
          .shape = {.slots = 4, .item_bytes = 8}};
}

TEST(FlowTakeover, CountersThatCannotBeAreRefused) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}});
  const Flow flow{.producers = {numbered_ring(control.new_end(), 1)},
                  .consumers = {numbered_ring(control.new_end(), 2)}};
  EXPECT_THROW(control.take_over(flow, {}, {{}}), std::invalid_argument);
  EXPECT_THROW(control.take_over(flow, {{.head = 9, .tail = 2}}, {{}}), std::invalid_argument);
  EXPECT_THROW(control.take_over(flow, {{}}, {{.head = 1, .tail = 2}}), std::invalid_argument);
  EXPECT_NO_THROW(control.take_over(flow, {{.head = 5, .tail = 2}}, {{.head = 2, .tail = 2}}));
}

// Those that have died may be left out at the end of the list; FlowState still names them.
TEST(FlowTakeover, WhoLivesIsFoundAmongThoseThatAreThere) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}});
  const auto flow_to = [&](std::size_t consumers) {
    Flow flow{.kind = FlowKind::replicate};
    std::uint32_t number = 1;
    flow.producers = {numbered_ring(control.new_end(), number)};
    for (const SwitchEnd& end : control.new_ends(consumers)) {
      flow.consumers.push_back(numbered_ring(end, ++number));
    }
    return flow;
  };
  const std::vector<RingState> producers{{.head = 22, .tail = 20}};
  const RingState has_most{.head = 20, .tail = 20};
  const RingState is_behind{.head = 3, .tail = 3};
  const FlowState second_is_lost{.lost_consumers = {false, true}};
  const auto flow = control.take_over(flow_to(1), producers, {has_most}, second_is_lost);
  EXPECT_EQ(control.state(flow).delivered, std::vector<std::uint32_t>{20});
  control.stop(flow);
  EXPECT_THROW(control.take_over(flow_to(2), producers, {is_behind, has_most}), std::invalid_argument);
  const auto left = control.take_over(flow_to(2), producers, {is_behind, has_most}, {.left_consumers = {true, false}});
  EXPECT_EQ(control.state(left).delivered, std::vector<std::uint32_t>{20});
  EXPECT_FALSE(control.state(left).is_broken);
  EXPECT_EQ(control.state(left).left_consumers, (std::vector<bool>{true, false}));
  control.stop(left);
  EXPECT_THROW(control.take_over(flow_to(1), producers, {has_most}, {.lost_consumers = {true}}), std::invalid_argument);
}

// Failed: the next switch refused what the first one had allowed.
TEST(FlowTakeover, OthersMayHaveTheMemoryOfWhoHasGone) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}});
  std::uint32_t queue_pairs = 1;
  const auto ring = [&](std::uint32_t number) {
    FlowRing one = numbered_ring(control.new_end(), number);
    one.queue_pair = queue_pairs++;
    return one;
  };
  Flow flow{
      .kind = FlowKind::balance, .producers = {ring(1)}, .consumers = {ring(2), ring(3), ring(4)}, .is_open = true};
  const auto first = control.start(flow);
  control.leave_consumer(first, 0);
  flow.producers.push_back(ring(2));
  EXPECT_EQ(control.join_producer(first, {flow.producers.back()}), 1U);
  control.leave_consumer(first, 1);
  flow.consumers.push_back(ring(3));
  EXPECT_EQ(control.join_consumer(first, flow.consumers.back()), 3U);
  const FlowState before = control.state(first);
  control.stop(first);
  const auto take_over = [&](const RingState& left) {
    for (std::vector<FlowRing>* const rings : {&flow.producers, &flow.consumers}) {
      for (FlowRing& one : *rings) {
        one.end = control.new_end();
      }
    }
    return control.take_over(flow, {{}, {}}, {left, left, {}, {}}, before);
  };
  EXPECT_EQ(control.state(take_over({.head = kEnded})).delivered.size(), 4U);
  EXPECT_THROW(static_cast<void>(take_over({})), std::invalid_argument);  // they were not told the end: they get items
}

// Who was left out of the list of a take-over is in none after it, and the next switch must know of it, too.
TEST(FlowTakeover, WhoWasLostAndLeftOutIsRememberedByTheNextSwitches) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}});
  const auto take_over = [&](const FlowState& before) {
    Flow flow{.kind = FlowKind::replicate};
    flow.producers = {numbered_ring(control.new_end(), 1)};
    flow.consumers = {numbered_ring(control.new_end(), 2)};
    const auto id = control.take_over(flow, {{.head = 5, .tail = 2}}, {{.head = 2, .tail = 2}}, before);
    const FlowState after = control.state(id);
    control.stop(id);
    return after;
  };
  for (const bool producer : {true, false}) {
    FlowState state{.is_broken = true};
    (producer ? state.lost_producers : state.lost_consumers) = {false, true};
    for (int i = 0; i < 3; ++i) {
      state = take_over(state);
      EXPECT_TRUE(state.is_broken) << i;
      EXPECT_EQ(state.has_lost_earlier_producer, producer) << i;
      EXPECT_EQ(state.has_lost_earlier_consumer, !producer) << i;
      EXPECT_EQ(state.lost_producers, std::vector<bool>{false});
      EXPECT_EQ(state.lost_consumers, std::vector<bool>{false});
    }
  }
}

}  // namespace takeovers
}  // namespace
}  // namespace sidelatch::flows
