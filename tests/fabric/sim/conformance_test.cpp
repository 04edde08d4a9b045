// The simulator implements the memory model: random programs, in which the model's state machine checks every
// micro-step.
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

// Long delays and short round trips, so that requests overlap in every way that the rules allow.
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
      // Each request of a chain has its own buffer; the next chain is posted after this one has completed.
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

// A table and clients with buffers, simulated under `simulated` rules, judged by the rules in `judge`.
struct Scene {
  Scene(const model::Rules& simulated, const model::Rules& judge, std::uint64_t seed, std::uint64_t buffer_bytes)
      : world({.profile = wild_profile(), .rules = simulated, .seed = seed}),
        conformance(judge),
        storage(world.add_node("storage")),
        table(storage.allocate(kTableBytes, Access::remote_all)) {
    world.observe(&conformance);
    conformance.add_target(storage);
    conformance.add_region(storage, table);
    for (std::uint32_t c = 0; c < kClients; ++c) {
      clients.push_back(&world.add_node("client"));
      buffers.push_back(clients.back()->allocate(buffer_bytes, Access::local_write));
      conformance.add_region(*clients.back(), buffers.back());
    }
  }
  std::unique_ptr<QueuePair> connect(std::uint32_t client) {
    std::unique_ptr<QueuePair> made = clients[client]->connect(storage);
    conformance.add_queue_pair(*made, storage);
    return made;
  }
  /// Completions may come before the last places.
  void end() {
    world.reactor().run_for(std::chrono::milliseconds(1));
    conformance.compare_memory();
  }

  Simulation world;
  Conformance conformance;
  Node& storage;
  MemoryRegion table;
  std::vector<Node*> clients;
  std::vector<MemoryRegion> buffers;
};

Outcome run(const model::Rules& simulated, const model::Rules& judge, std::uint64_t seed) {
  Scene scene(simulated, judge, seed, 4096);
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  for (std::uint32_t c = 0; c < kClients; ++c) {
    queue_pairs.push_back(scene.connect(c));
  }
  for (std::uint32_t c = 0; c < kClients; ++c) {
    scene.world.reactor().spawn(client(*queue_pairs[c], scene.table, scene.buffers[c], seed * 31 + c));
  }
  scene.world.reactor().run();
  scene.end();
  scene.conformance.expect_the_end();
  return {scene.conformance.complaint(), scene.conformance.steps()};
}

// Clients whose queue pairs end while their requests are on the way, at the target's NIC, or half placed. The requests
// go on, and the rules still bind them. `steps` are those of requests whose queue pair had ended.
Outcome run_and_crash(const model::Rules& simulated, const model::Rules& judge, std::uint64_t seed) {
  Scene scene(simulated, judge, seed, 4096 * kChains);
  std::mt19937_64 random(seed);
  for (std::uint64_t life = 0; life < kChains; ++life) {
    std::vector<std::unique_ptr<QueuePair>> queue_pairs;
    for (std::uint32_t c = 0; c < kClients; ++c) {
      queue_pairs.push_back(scene.connect(c));
      std::vector<WorkRequest> chain;
      for (std::uint64_t k = 0; k < 8; ++k) {
        // Of its own: a READ of the model delivers also when the queue pair has ended.
        const LocalSpan buffer = scene.buffers[c].local(life * 4096 + k * 512, 512);
        std::memset(buffer.data, static_cast<int>(random() % 256), 512);
        chain.push_back(random_request(random, scene.table, buffer));
      }
      EXPECT_TRUE(queue_pairs.back()->post(chain));
    }
    scene.world.reactor().run_for(from_ns(static_cast<double>(random() % 4000)));
  }
  scene.end();
  return {scene.conformance.complaint(), scene.conformance.steps_of_ended()};
}

// One end of a pair: chains of SENDs among one-sided requests to the other end's table.
Task<void> talk(QueuePair& qp, const MemoryRegion& table, const MemoryRegion& buffers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < kChains; ++i) {
    std::vector<WorkRequest> chain;
    const std::uint64_t n = random() % 4 + 1;
    for (std::uint64_t k = 0; k < n; ++k) {
      const LocalSpan buffer = buffers.local(k * 512, 512);
      std::memset(buffer.data, static_cast<int>(random() % 256), 512);
      if (random() % 2 == 0) {
        chain.push_back(random_request(random, table, buffer));
        continue;
      }
      WorkRequest message = send(buffer.subspan(random() % 60, random() % 256 + 1));
      message.inlined = random() % 2 == 0 && message.length() <= 220;
      message.fence = random() % 4 == 0;
      chain.push_back(message);
    }
    co_await qp.submit(chain);
  }
}

// The other end: sometimes it is ahead of the SENDs, sometimes they wait for it.
Task<void> listen(QueuePair& qp, const MemoryRegion& inbox, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr std::uint64_t kBuffers = 4;
  for (std::uint64_t i = 0; i < kBuffers / 2; ++i) {
    (void)qp.post_receive(inbox.local(i * 320 + i, 300));
  }
  for (std::uint64_t i = kBuffers / 2;; ++i) {
    (void)co_await qp.receive();
    if (random() % 3 == 0) {
      co_await qp.reactor().sleep(from_ns(static_cast<double>(random() % 6000)));
    }
    (void)qp.post_receive(inbox.local(i % kBuffers * 320 + i % 7, 300));
  }
}

struct PairOutcome {
  std::string complaint;
  std::uint64_t received = 0;
};

// Two pairs between two nodes; all four ends send and listen.
PairOutcome run_pairs(const model::Rules& simulated, const model::Rules& judge, std::uint64_t seed) {
  Simulation world({.profile = wild_profile(), .rules = simulated, .seed = seed});
  Conformance conformance(judge);
  world.observe(&conformance);
  constexpr std::size_t kPairs = 2;
  std::array<Node*, 2> nodes = {&world.add_node("left"), &world.add_node("right")};
  std::vector<MemoryRegion> regions;  // table of each node; then buffers and inbox of each end
  for (const Node* node : nodes) {
    conformance.add_target(*node);
  }
  const auto add_region = [&](Node& node, std::uint64_t bytes, bool targeted) {
    regions.push_back(node.allocate(bytes, Access::remote_all));
    conformance.add_region(node, regions.back(), targeted);
  };
  add_region(*nodes[0], kTableBytes, true);
  add_region(*nodes[1], kTableBytes, true);
  std::vector<std::unique_ptr<QueuePair>> ends;
  for (std::size_t p = 0; p < kPairs; ++p) {
    auto [left, right] = nodes[0]->connect_pair(*nodes[1]);
    conformance.add_pair(*left, *nodes[1], *right, *nodes[0]);
    ends.push_back(std::move(left));
    ends.push_back(std::move(right));
    for (std::size_t i = 0; i < 4; ++i) {
      add_region(*nodes[i % 2], 4096, false);
    }
  }
  const Reactor::Scope tasks(world.reactor());
  for (std::size_t e = 0; e < ends.size(); ++e) {
    const std::size_t own = 2 + e / 2 * 4 + e % 2;
    world.reactor().spawn(talk(*ends[e], regions[1 - e % 2], regions[own], seed * 31 + e));
    world.reactor().spawn(listen(*ends[e], regions[own + 2], seed * 37 + e));
  }
  world.reactor().run_for(std::chrono::milliseconds(5));  // listeners never end
  if (conformance.complaint().empty()) {
    for (const auto& end : ends) {
      EXPECT_EQ(end->outstanding(), 0U) << "seed " << seed;
    }
  }
  conformance.compare_memory();
  conformance.expect_the_end();
  return {conformance.complaint(), conformance.received()};
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

TEST_P(EveryPreset, MessagesAndWhatIsBesideThemToo) {
  std::uint64_t received = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    model::Rules rules = model::rules_of(GetParam());
    rules.atom = seed % 3 == 0 ? 8 : 64;
    const PairOutcome outcome = run_pairs(rules, rules, seed);
    ASSERT_EQ(outcome.complaint, "") << "seed " << seed;
    received += outcome.received;
  }
  EXPECT_GT(received, 60U * 4 * kChains);
}

TEST_P(EveryPreset, RequestsOfQueuePairsThatHaveEndedToo) {
  std::uint64_t steps_after = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const model::Rules rules = model::rules_of(GetParam());
    const Outcome outcome = run_and_crash(rules, rules, seed);
    ASSERT_EQ(outcome.complaint, "") << "seed " << seed;
    steps_after += outcome.steps;
  }
  EXPECT_GT(steps_after, 60U * kClients);
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

// The broken specimens: a simulator that follows weaker rules is caught.
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

// A SEND is ordered like a WRITE, and its receive comes after it.
TEST(Conformance, ASimulatorWhoseSendsAreNotOrderedIsCaught) {
  bool caught = false;
  for (std::uint64_t seed = 1; seed <= 60 && !caught; ++seed) {
    caught = !run_pairs(rules_of(model::Preset::relaxed), rules_of(model::Preset::spec), seed).complaint.empty();
  }
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace sidelatch::fabric::sim
