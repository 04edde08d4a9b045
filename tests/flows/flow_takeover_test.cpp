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
             std::uint64_t again, std::uint64_t seed) {
  FlowNetworkOptions options{.producers = shape.producers,
                             .consumers = shape.consumers,
                             .kind = shape.kind,
                             .producer_shape = {.slots = 4, .item_bytes = 600},
                             .consumer_shape = {.slots = 4, .item_bytes = 600},
                             .time_out = std::chrono::microseconds(20),
                             .seed = seed};
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
    return (is_drained && std::ranges::all_of(at_end, [](bool end) { return end; })) || network.now() > kLongest;
  });
  if (network.now() > kLongest) {
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

TEST(FlowTakeover, CountersThatCannotBeAreRefused) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}});
  const auto ring = [&] {
    return FlowRing{.queue_pair = 1, .end = control.new_end(), .address = 4096, .shape = {.slots = 4, .item_bytes = 8}};
  };
  const Flow flow{.producers = {ring()}, .consumers = {ring()}};
  EXPECT_THROW(control.take_over(flow, {}, {{}}), std::invalid_argument);
  EXPECT_THROW(control.take_over(flow, {{.head = 9, .tail = 2}}, {{}}), std::invalid_argument);
  EXPECT_THROW(control.take_over(flow, {{}}, {{.head = 1, .tail = 2}}), std::invalid_argument);
  EXPECT_NO_THROW(control.take_over(flow, {{.head = 5, .tail = 2}}, {{.head = 2, .tail = 2}}));
}

}  // namespace takeovers
}  // namespace
}  // namespace sidelatch::flows
