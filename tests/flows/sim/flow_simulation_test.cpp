// Zero-sided flows in virtual time: what arrives is what was pushed, and times follow from the profile.
#include <sidelatch/flows/sim/flow_simulation.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

namespace sidelatch::flows {
namespace {

constexpr FlowSimulationTiming kSlowSwitch{.cable_ns = 15, .switch_ns = 400};

// A producer that pushes numbers as fast as there is room, and a consumer that pops them at once.
struct FullFlow {
  RingShape shape{.slots = 256, .item_bytes = 4096};
  std::uint32_t pushed = 0;
  std::uint32_t popped = 0;
  bool is_in_order = true;
  std::uint64_t first_ns = 0;  // when the first item came

  FullFlow(FlowSimulation& world, std::uint32_t items, std::uint64_t end) {
    const FlowRing from = world.add_ring(0, shape, world.control().new_end());
    const FlowRing to = world.add_ring(1, shape, world.control().new_end());
    Producer producer(FlowSimulation::memory(from), shape);
    Consumer consumer(FlowSimulation::memory(to), shape);
    std::vector<std::byte> item(shape.item_bytes);
    std::vector<std::byte> got(shape.item_bytes);
    world.set_unit(0, [&](std::uint64_t) {
      while (pushed < items && producer.room() > 0) {
        std::memcpy(item.data(), &pushed, sizeof pushed);
        pushed += producer.try_push(item) ? 1U : 0U;
      }
    });
    world.set_unit(1, [&](std::uint64_t now) {
      while (consumer.try_pop(got) == Consumer::Popped::item) {
        std::uint32_t number = 0;
        std::memcpy(&number, got.data(), sizeof number);
        is_in_order = is_in_order && number == popped++;
        first_ns = first_ns == 0 ? now : first_ns;
      }
    });
    world.control().start({.producers = {from}, .consumers = {to}, .path_mtu = 4096});
    world.run_until(end, [&] { return popped == items; });
    world.set_unit(0, {});
    world.set_unit(1, {});
  }
};

TEST(FlowSimulation, BringsWhatWasPushedInItsOrder) {
  FlowSimulation world(fabric::sim::load_profile("connectx5"), kSlowSwitch, 2);
  const FullFlow flow(world, 1000, 10'000'000);
  EXPECT_EQ(flow.popped, 1000U);
  EXPECT_TRUE(flow.is_in_order);
}

TEST(FlowSimulation, NothingIsFasterThanTheLink) {
  fabric::sim::Profile profile = fabric::sim::load_profile("connectx5");
  std::vector<std::uint64_t> times;
  for (const double gbps : {100.0, 10.0}) {
    profile.link.gbps = gbps;
    FlowSimulation world(profile, kSlowSwitch, 2);
    const FullFlow flow(world, 1000, 100'000'000);
    ASSERT_EQ(flow.popped, 1000U);
    const double least_ns = 1000 * 4096 * 8 / gbps;
    EXPECT_GT(static_cast<double>(world.now()), least_ns);
    times.push_back(world.now());
  }
  EXPECT_GT(times[1], 5 * times[0]);
}

TEST(FlowSimulation, ASlowerSwitchDelaysTheFirstItemByItsPasses) {
  const fabric::sim::Profile profile = fabric::sim::load_profile("connectx5");
  std::vector<std::uint64_t> first;
  for (const double switch_ns : {400.0, 500.0}) {
    FlowSimulation world(profile, {.cable_ns = 15, .switch_ns = switch_ns}, 2);
    const FullFlow flow(world, 1, 10'000'000);
    ASSERT_EQ(flow.popped, 1U);
    first.push_back(flow.first_ns);
  }
  // READ of head, its answer, READ of items, WRITE, ACK, WRITE of head: at least four packets pass the switch in turn.
  EXPECT_GE(first[1] - first[0], 400U);
  EXPECT_LE(first[1] - first[0], 1500U);
}

TEST(FlowSimulation, TheSameCallsGiveTheSameTimes) {
  std::optional<std::uint64_t> seen;
  for (int i = 0; i < 2; ++i) {
    FlowSimulation world(fabric::sim::load_profile("connectx5"), kSlowSwitch, 2);
    const FullFlow flow(world, 300, 10'000'000);
    EXPECT_EQ(seen.value_or(world.now()), world.now());
    seen = world.now();
  }
}

// A full flow of 1 KiB items, whose rate is measured over 8 ms.
class LimitedFlow {
 public:
  explicit LimitedFlow(std::chrono::nanoseconds poll_interval = std::chrono::microseconds(2)) {
    const FlowRing from = world_.add_ring(0, shape_, world_.control().new_end());
    const FlowRing to = world_.add_ring(1, shape_, world_.control().new_end());
    producer_.emplace(FlowSimulation::memory(from), shape_);
    consumer_.emplace(FlowSimulation::memory(to), shape_);
    world_.set_unit(0, [this](std::uint64_t) {
      while (producer_->room() > 0) {
        producer_->try_push(item_);
      }
    });
    world_.set_unit(1, [this](std::uint64_t) {
      while (consumer_->try_pop(item_) == Consumer::Popped::item) {
        ++popped_;
      }
    });
    id_ = world_.control().start({.producers = {from},
                                  .consumers = {to},
                                  .path_mtu = 4096,
                                  .batch_bytes = 65'536,
                                  .poll_interval = poll_interval});
  }
  void limit(std::uint64_t bytes_per_second) { world_.control().limit_rate(id_, bytes_per_second); }
  double gbytes_per_second() {
    const std::uint64_t before = popped_;
    world_.run_until(world_.now() + 8'000'000);
    return static_cast<double>(popped_ - before) * shape_.item_bytes / 8e6;
  }
  [[nodiscard]] FlowSimulation& world() { return world_; }

 private:
  RingShape shape_{.slots = 1024, .item_bytes = 1024};
  FlowSimulation world_{fabric::sim::load_profile("connectx5"), kSlowSwitch, 2};
  std::optional<Producer> producer_;
  std::optional<Consumer> consumer_;
  std::vector<std::byte> item_ = std::vector<std::byte>(1024);
  std::uint64_t popped_ = 0;
  FlowSwitch::FlowId id_ = 0;
};

TEST(LimitedRate, HoldsAndChangesWhileTheFlowRuns) {
  LimitedFlow flow;
  const double full = flow.gbytes_per_second();
  EXPECT_GT(full, 5);
  for (const double limit : {1.0, 4.0, 0.25, 2.0}) {
    flow.limit(static_cast<std::uint64_t>(limit * 1e9));
    EXPECT_NEAR(flow.gbytes_per_second(), limit, 0.1 * limit);
  }
  flow.limit(0);
  EXPECT_NEAR(flow.gbytes_per_second(), full, 0.05 * full);
}

TEST(LimitedRate, AboveTheNetworksChangesLittle) {
  for (const int microseconds : {2, 10, 25}) {
    LimitedFlow flow{std::chrono::microseconds(microseconds)};
    const double full = flow.gbytes_per_second();
    flow.limit(1'000'000'000'000);
    EXPECT_GT(flow.gbytes_per_second(), 0.85 * full) << microseconds << " us";
  }
}

// A batch takes 12 us here. One that is not done when it is paid for must not wait for a timer afterwards.
TEST(LimitedRate, HoldsNearTheNetworks) {
  for (const int microseconds : {2, 10, 25}) {
    LimitedFlow flow{std::chrono::microseconds(microseconds)};
    const double full = flow.gbytes_per_second();
    for (const double share : {0.5, 0.7, 0.8, 0.9}) {
      flow.limit(static_cast<std::uint64_t>(share * full * 1e9));
      EXPECT_NEAR(flow.gbytes_per_second(), share * full, 0.05 * full) << share << ", " << microseconds << " us";
    }
  }
}

TEST(LimitedRate, WantsAFlow) {
  LimitedFlow flow;
  EXPECT_THROW(flow.world().control().limit_rate(99, 1), std::invalid_argument);
}

TEST(FlowSimulation, RefusesNoUnitsAndTooMany) {
  const fabric::sim::Profile profile = fabric::sim::load_profile("connectx5");
  EXPECT_THROW(FlowSimulation(profile, kSlowSwitch, 0), std::invalid_argument);
  EXPECT_THROW(FlowSimulation(profile, kSlowSwitch, 255), std::invalid_argument);
}

TEST(FlowSimulation, RefusesUnitsAndConnectionsThatAreNotThere) {
  FlowSimulation world(fabric::sim::load_profile("connectx5"), kSlowSwitch, 2);
  const RingShape shape{.slots = 4, .item_bytes = 8};
  EXPECT_THROW(world.add_ring(2, shape, world.control().new_end()), std::out_of_range);
  EXPECT_THROW(world.set_unit(2, {}), std::out_of_range);
  EXPECT_THROW(world.call_unit(2, 100), std::out_of_range);
  FlowRing ring = world.add_ring(0, shape, world.control().new_end());
  ring.queue_pair += 77;
  EXPECT_THROW(world.ring(ring), std::invalid_argument);
  ring.port = 2;
  EXPECT_THROW(world.ring(ring), std::out_of_range);
}

}  // namespace
}  // namespace sidelatch::flows
