// What a completion promises: later READs see a WRITE that has completed (rule 2), and a READ's bytes are there.
#include "../two_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sidelatch::fabric {
namespace {
namespace completed {

Task<void> submit_one(QueuePair& qp, WorkRequest request) { co_await qp.submit(request); }

// WRITEs are placed 1.5 us after service, so they complete first.
sim::Profile late_places() {
  sim::Profile profile;
  profile.pcie.write_ns = 1500;
  return profile;
}

TEST(CompletedRequests, AWriteThatHasCompletedIsPlacedThoughItsConnectionIsLost) {
  TwoNodes world({.profile = late_places()});
  TwoNodes::store(world.buffer, 0, 7);
  world.run(submit_one(*world.qp, write(world.buffer.local(0, 8), world.word(0))));
  ASSERT_EQ(world.value(0), 0U) << "the WRITE is placed already, so it cannot be lost";
  ASSERT_TRUE(world.qp->post(std::array{read(world.buffer.local(8, 8), world.word(1))}));
  ASSERT_TRUE(world.simulation.lose_connection(*world.qp));
  const auto other = world.client.connect(world.storage);
  world.run(submit_one(*other, read(world.buffer.local(16, 8), world.word(0))));
  EXPECT_EQ(TwoNodes::load(world.buffer, 2), 7U);
}

TEST(CompletedRequests, ASendThatHasCompletedIsReceivedThoughItsConnectionIsLost) {
  TwoNodes world({.profile = late_places()});
  const auto [here, there] = world.client.connect_pair(world.storage);
  const MemoryRegion message = world.storage.allocate(8, Access::local_write);
  ASSERT_TRUE(there->post_receive(message.local()));
  TwoNodes::store(world.buffer, 0, 7);
  world.run(submit_one(*here, send(world.buffer.local(0, 8))));
  ASSERT_EQ(TwoNodes::load(message, 0), 0U) << "the SEND is placed already, so it cannot be lost";
  ASSERT_TRUE(here->post(std::array{read(world.buffer.local(8, 8), world.word(1))}));
  ASSERT_TRUE(world.simulation.lose_connection(*here));
  world.settle();
  EXPECT_EQ(TwoNodes::load(message, 0), 7U);
}

TEST(CompletedRequests, AnUnplacedWriteThatHasNotCompletedIsDroppedWithItsConnection) {
  TwoNodes world({.profile = late_places()});
  TwoNodes::store(world.buffer, 0, 7);
  ASSERT_TRUE(world.qp->post(std::array{write(world.buffer.local(0, 8), world.word(0))}));
  ASSERT_TRUE(world.simulation.lose_connection(*world.qp));
  world.settle();
  EXPECT_EQ(world.value(0), 0U);
}

// Without latencies a response arrives in the moment of the last micro-step.
sim::Profile without_latencies(double pcie_gbps) {
  sim::Profile profile;
  profile.link.propagation_ns = 0;
  profile.nic.latency_ns = profile.nic.completion_ns = 0;
  profile.pcie.read_ns = profile.pcie.write_ns = 0;
  profile.pcie.gbps = pcie_gbps;
  return profile;
}

// With an observer a READ proceeds line by line.
struct IgnoreSteps final : sim::StepObserver {
  void on_step(const sim::SimStep& /*step*/) override {}
};

TEST(CompletedRequests, AReadHasAllItsBytesThoughNothingTakesTimeAfterItsLastSample) {
  IgnoreSteps observer;
  for (const double pcie_gbps : {1.0, 10.0, 10000.0}) {
    for (const double late : {0.0, 0.5}) {
      for (const std::uint64_t bytes : {8U, 64U, 128U, 4096U, 16384U}) {
        for (const bool observed : {false, true}) {
          sim::Profile profile = without_latencies(pcie_gbps);
          profile.pcie.reorder_probability = late;
          TwoNodes world({.profile = profile, .observer = observed ? &observer : nullptr});
          std::ranges::fill(world.table.bytes().first(bytes), std::byte{1});
          world.run(submit_one(*world.qp, read(world.buffer.local(0, bytes), world.table.remote(0, bytes))));
          EXPECT_EQ(std::ranges::count(world.buffer.bytes(), std::byte{1}), static_cast<std::ptrdiff_t>(bytes))
              << pcie_gbps << " Gbit/s, late lines: " << late << ", observed: " << observed;
        }
      }
    }
  }
}

TEST(CompletedRequests, WithoutLatenciesAnAtomicHasItsOldValueAndAWriteIsSeen) {
  for (const model::Preset preset : {model::Preset::observed, model::Preset::strict}) {
    sim::Profile profile = without_latencies(10000);
    profile.nic.doorbell_ns = profile.nic.request_ns = profile.nic.respond_ns = 0;
    profile.lock_table.load_ns = 0;
    profile.lock_table.service_ns = 0.001;
    sim::Simulation world({.profile = profile, .rules = model::rules_of(preset)});
    Node& storage = world.add_node("storage");
    Node& client = world.add_node("client");
    const MemoryRegion table = storage.allocate(4096, Access::remote_all);
    const MemoryRegion buffer = client.allocate(8192, Access::local_write);
    const auto writer = client.connect(storage);
    const auto reader = client.connect(storage);
    for (std::uint64_t round = 1; round < 100; ++round) {
      std::ranges::fill(buffer.bytes().first(4096), static_cast<std::byte>(round));
      world.reactor().run(submit_one(*writer, write(buffer.local(0, 4096), table.remote())));
      world.reactor().run(submit_one(*reader, read(buffer.local(4096, 4096), table.remote())));
      ASSERT_EQ(std::ranges::count(buffer.bytes(), static_cast<std::byte>(round)), 8192);
      const std::uint64_t value = TwoNodes::load(table, 0);
      world.reactor().run([](QueuePair& qp, RemoteSpan word, std::uint64_t expected) -> Task<void> {
        const std::uint64_t old_value = co_await qp.fetch_add(word, 1);
        EXPECT_EQ(old_value, expected);
      }(*reader, table.remote(0, 8), value));
      ASSERT_EQ(TwoNodes::load(table, 0), value + 1);
    }
  }
}

// As simulation.h says: rule 2 is about READs. run() ends with the last task, and places nothing early.
TEST(CompletedRequests, ADirectLookSeesAWriteWhenItsTimeHasPassed) {
  TwoNodes world({.profile = late_places()});
  std::ranges::fill(world.buffer.bytes(), std::byte{7});
  world.run(submit_one(*world.qp, write(world.buffer.local(0, 4096), world.table.remote(0, 4096))));
  const auto placed = [&] { return std::ranges::count(world.table.bytes().first(4096), std::byte{7}); };
  EXPECT_EQ(placed(), 0);
  world.reactor().run_for(from_ns(10000));
  EXPECT_EQ(placed(), 4096);
}

}  // namespace completed
}  // namespace
}  // namespace sidelatch::fabric
