// The simulator draws from the memory model: random programs, every micro-step checked by the model's state machine.
#include "conformance.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

namespace sidelatch::fabric::sim {
namespace {

constexpr std::uint64_t kLines = 6;
constexpr std::uint64_t kTableBytes = kLines * kLineBytes;
constexpr std::uint32_t kClients = 3;
constexpr int kChains = 25;

// Long delays and short round trips, so that requests overlap in every way that the rules leave open.
Profile wild_profile() {
  Profile profile;
  profile.link.jitter_ns = 400;
  profile.pcie.reorder_probability = 0.3;
  profile.pcie.reorder_ns = 800;
  profile.pcie.write_stall_probability = 0.3;
  profile.pcie.write_stall_ns = 4000;
  return profile;
}

WorkRequest random_request(std::mt19937_64& random, const MemoryRegion& table, LocalSpan buffer) {
  const std::uint64_t words = kTableBytes / 8;
  const std::uint64_t offset = random() % words * 8;
  const std::uint64_t length = (random() % std::min<std::uint64_t>(words - offset / 8, 32) + 1) * 8;
  WorkRequest request;
  switch (random() % 4) {
    case 0:
      request = read(buffer.subspan(0, length), table.remote(offset, length));
      break;
    case 1:
      request = write(buffer.subspan(0, length), table.remote(offset, length));
      request.inlined = random() % 2 == 0 && length <= 220;
      break;
    case 2:
      request = compare_swap(table.remote(offset, 8), random() % 3, random() % 3);
      break;
    default:
      request = fetch_add(table.remote(offset, 8), 1);
      break;
  }
  request.fence = random() % 4 == 0;
  return request;
}

Task<void> client(QueuePair& qp, const MemoryRegion& table, const MemoryRegion& buffers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < kChains; ++i) {
    std::vector<WorkRequest> chain;
    const std::uint64_t n = random() % 4 + 1;
    for (std::uint64_t k = 0; k < n; ++k) {
      // A buffer for each request of a chain; the next chain is posted when this one has completed.
      const LocalSpan buffer = buffers.local(k * 512, 512);
      const std::uint64_t word = random();
      std::memcpy(buffer.data, &word, 8);
      std::memset(buffer.data + 8, static_cast<int>(random() % 256), 504);
      chain.push_back(random_request(random, table, buffer));
    }
    co_await qp.submit(chain);
  }
}

struct Outcome {
  std::string complaint;
  std::uint64_t steps = 0;
};

// A simulation under `simulated` rules, judged by `judge`.
Outcome run(const model::Rules& simulated, const model::Rules& judge, std::uint64_t seed) {
  Simulation world({.profile = wild_profile(), .rules = simulated, .seed = seed});
  Conformance conformance(judge);
  world.observe(&conformance);
  Node& storage = world.add_node("storage");
  conformance.add_target(storage);
  const MemoryRegion table = storage.allocate(kTableBytes, Access::remote_all);
  conformance.add_region(storage, table);
  std::vector<MemoryRegion> buffers;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  for (std::uint32_t c = 0; c < kClients; ++c) {
    Node& node = world.add_node("client");
    buffers.push_back(node.allocate(4096, Access::local_write));
    conformance.add_region(node, buffers.back());
    queue_pairs.push_back(node.connect(storage));
    conformance.add_queue_pair(*queue_pairs.back(), storage);
  }
  for (std::uint32_t c = 0; c < kClients; ++c) {
    world.reactor().spawn(client(*queue_pairs[c], table, buffers[c], seed * 31 + c));
  }
  world.reactor().run();
  world.reactor().run_for(std::chrono::milliseconds(1));  // completions may come before the last places
  conformance.compare_memory();
  return {conformance.complaint(), conformance.steps()};
}

class EveryPreset : public ::testing::TestWithParam<model::Preset> {};

TEST_P(EveryPreset, TheSimulatorTakesOnlyStepsThatTheModelEnables) {
  std::uint64_t steps = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const model::Rules rules = model::rules_of(GetParam());
    const Outcome outcome = run(rules, rules, seed);
    ASSERT_EQ(outcome.complaint, "") << "seed " << seed;
    steps += outcome.steps;
  }
  EXPECT_GT(steps, 60U * kClients * kChains);
}

TEST_P(EveryPreset, SmallerAtomsToo) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    model::Rules rules = model::rules_of(GetParam());
    rules.atom = 8;
    const Outcome outcome = run(rules, rules, seed);
    ASSERT_EQ(outcome.complaint, "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Model, EveryPreset,
                         ::testing::Values(model::Preset::strict, model::Preset::observed, model::Preset::spec,
                                           model::Preset::relaxed),
                         [](const auto& preset) { return std::string(model::name(preset.param)); });

bool some_seed_is_refused(const model::Rules& simulated, const model::Rules& judge) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    if (!run(simulated, judge, seed).complaint.empty()) {
      return true;
    }
  }
  return false;
}

// The broken specimens: a simulator that follows weaker rules than it should is caught.
TEST(Conformance, ASimulatorThatPlacesInAnyOrderIsCaught) {
  EXPECT_TRUE(some_seed_is_refused(rules_of(model::Preset::spec), rules_of(model::Preset::observed)));
}

TEST(Conformance, ASimulatorThatReordersWritesIsCaught) {
  EXPECT_TRUE(some_seed_is_refused(rules_of(model::Preset::relaxed), rules_of(model::Preset::spec)));
}

TEST(Conformance, ASimulatorWhoseFencesDoNotWaitForReadsIsCaught) {
  model::Rules weak = rules_of(model::Preset::observed);
  weak.fence_orders_reads = false;
  EXPECT_TRUE(some_seed_is_refused(weak, rules_of(model::Preset::observed)));
}

TEST(Conformance, ASimulatorWhoseAtomicsPassCompletedWritesIsCaught) {
  model::Rules weak = rules_of(model::Preset::observed);
  weak.atomics_see_writes = false;
  EXPECT_TRUE(some_seed_is_refused(weak, rules_of(model::Preset::observed)));
}

}  // namespace
}  // namespace sidelatch::fabric::sim
