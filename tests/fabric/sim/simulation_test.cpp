#include <sidelatch/fabric/sim/simulation.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

namespace sidelatch::fabric::sim {
namespace {

// All delays except those set by a test are zero, so that times can be added up by hand.
Profile quiet_profile() {
  Profile p;
  p.link.gbps = 10000;
  p.link.propagation_ns = p.link.jitter_ns = 0;
  p.link.header_bytes = 0;
  p.nic = {.doorbell_ns = 0, .request_ns = 0, .respond_ns = 0, .packet_ns = 0, .latency_ns = 0, .completion_ns = 0};
  p.lock_table.service_ns = 0.001;
  p.lock_table.load_ns = 0;
  p.pcie.gbps = 10000;
  p.pcie.read_ns = p.pcie.write_ns = 0;
  return p;
}

struct Pair {
  explicit Pair(const Profile& profile, std::uint64_t seed = 1) : world({.profile = profile, .seed = seed}) {
    table = storage.allocate(1 << 20, Access::remote_all);
    buffer = client.allocate(1 << 20, Access::local_write);
    qp = client.connect(storage);
  }
  Time duration_of(Task<void> task) {
    const Time before = world.reactor().now();
    world.reactor().run(std::move(task));
    return world.reactor().now() - before;
  }
  Simulation world;
  Node& storage = world.add_node("storage");
  Node& client = world.add_node("client");
  MemoryRegion table;
  MemoryRegion buffer;
  std::unique_ptr<QueuePair> qp;
};

Task<void> one_read(QueuePair& qp, LocalSpan into, RemoteSpan from) { co_await qp.read(into, from); }
Task<void> one_write(QueuePair& qp, LocalSpan from, RemoteSpan to) { co_await qp.write(from, to); }

TEST(Simulation, AWriteIsAcknowledgedBeforeItIsPlaced) {
  Profile p = quiet_profile();
  p.pcie.write_ns = 5000;
  Pair pair(p);
  const std::uint64_t value = 7;
  std::memcpy(pair.buffer.bytes().data(), &value, 8);
  const Time took = pair.duration_of(one_write(*pair.qp, pair.buffer.local(0, 8), pair.table.remote(0, 8)));
  EXPECT_LT(to_ns(took), 1);
  std::uint64_t seen = 0;
  std::memcpy(&seen, pair.table.bytes().data(), 8);
  EXPECT_EQ(seen, 0U);
  pair.world.reactor().run_for(from_ns(5001));
  std::memcpy(&seen, pair.table.bytes().data(), 8);
  EXPECT_EQ(seen, value);
}

TEST(Simulation, AReadAfterAWritesCompletionSeesIt) {
  Profile p = quiet_profile();
  p.pcie.write_ns = 5000;  // placed long after the completion: the READ has to wait (rule 2)
  Pair pair(p);
  auto other = pair.client.connect(pair.storage);
  const std::uint64_t value = 7;
  std::memcpy(pair.buffer.bytes().data(), &value, 8);
  pair.world.reactor().run(one_write(*pair.qp, pair.buffer.local(0, 8), pair.table.remote(0, 8)));
  pair.world.reactor().run(one_read(*other, pair.buffer.local(64, 8), pair.table.remote(0, 8)));
  std::uint64_t seen = 0;
  std::memcpy(&seen, pair.buffer.bytes().data() + 64, 8);
  EXPECT_EQ(seen, value);
}

Task<void> ten_chains(QueuePair& qp, LocalSpan from, RemoteSpan to, std::size_t length) {
  const std::vector<WorkRequest> chain(length, write(from, to));
  for (int i = 0; i < 10; ++i) {
    co_await qp.submit(chain);
  }
}

// Nothing else takes time. A completion delays the next request, so nine of ten count; the last one delays nobody. Only
// a chain's last request is signaled, so its length does not matter.
TEST(Simulation, ASignaledCompletionKeepsTheNextRequestWaiting) {
  Profile p = quiet_profile();
  p.nic.cqe_ns = 1000;
  for (const std::size_t length : {1U, 8U}) {
    Pair pair(p);
    EXPECT_NEAR(to_ns(pair.duration_of(ten_chains(*pair.qp, pair.buffer.local(0, 8), pair.table.remote(0, 8), length))),
                9000, 10)
        << length;
  }
}

TEST(Simulation, ADoorbellForEachRequestCostsItsTimeForEach) {
  Profile profile = quiet_profile();
  profile.nic.chain_ns = 100;
  const auto wait_for_three = [&](bool one_doorbell_each) {
    Pair pair(profile);
    pair.qp = pair.client.connect(pair.storage, {.one_doorbell_each = one_doorbell_each});
    const Time took = pair.duration_of([](QueuePair& qp, RemoteSpan from, LocalSpan into) -> Task<void> {
      co_await qp.submit(read(into, from), read(into, from), read(into, from));
    }(*pair.qp, pair.table.remote(0, 8), pair.buffer.local(0, 8)));
    EXPECT_EQ(pair.qp->counters().requests, 3U);
    EXPECT_EQ(pair.qp->counters().doorbells, one_doorbell_each ? 3U : 1U);
    return took;
  };
  EXPECT_NEAR(to_ns(wait_for_three(true) - wait_for_three(false)), 200, 1);
}

// The initiator's part of the NIC has work for 100 us; its link is idle meanwhile.
TEST(Simulation, ANodesResponsesDoNotWaitForItsOwnRequestsThatAreNotReady) {
  Profile slow_requests = quiet_profile();
  slow_requests.nic.request_ns = 1000;
  const auto read_takes = [&](std::size_t own_requests) {
    Pair pair(quiet_profile());
    Node& both = pair.world.add_node("client and memory", slow_requests);
    const MemoryRegion memory = both.allocate(4096, Access::remote_all);
    const auto out = both.connect(pair.storage, {.send_queue_depth = 128});
    const auto in = pair.client.connect(both);
    for (std::size_t i = 0; i < own_requests; ++i) {
      EXPECT_TRUE(out->post(std::array{write(memory.local(0, 8), pair.table.remote(0, 8))}));
    }
    return pair.duration_of([](QueuePair& qp, RemoteSpan from, LocalSpan into) -> Task<void> {
      co_await qp.read(into, from);
    }(*in, memory.remote(8, 8), pair.buffer.local(0, 8)));
  };
  EXPECT_LT(read_takes(100), read_takes(0) + from_ns(100));
}

TEST(Simulation, ALargeReadIsBoundByTheLink) {
  Profile p = quiet_profile();
  p.link.gbps = 8;  // one byte per nanosecond
  p.link.mtu = 1024;
  p.link.header_bytes = 24;
  Pair pair(p);
  const std::uint64_t bytes = 1 << 20;
  // The request's header, then 1024 packets with 24 bytes of headers each.
  const double expected = 24 + 1048576 + 1024 * 24;
  EXPECT_NEAR(to_ns(pair.duration_of(one_read(*pair.qp, pair.buffer.local(), pair.table.remote(0, bytes)))), expected,
              expected * 0.01);
}

Task<void> hammer(QueuePair& qp, RemoteSpan word, int times) {
  for (int i = 0; i < times; ++i) {
    co_await qp.fetch_add(word, 1);
  }
}

Time time_of_two(std::uint64_t first, std::uint64_t second) {
  Profile p = quiet_profile();
  p.lock_table = {.address_bits = 10, .slot_bytes = 16, .load_ns = 50, .service_ns = 100};
  Pair pair(p);
  auto other = pair.client.connect(pair.storage);
  pair.world.reactor().spawn(hammer(*pair.qp, pair.table.remote(first, 8), 50));
  pair.world.reactor().spawn(hammer(*other, pair.table.remote(second, 8), 50));
  pair.world.reactor().run();
  return pair.world.reactor().now();
}

TEST(Simulation, AtomicsWhoseAddressesShareALockSlotExcludeEachOther) {
  EXPECT_NEAR(to_ns(time_of_two(0, 0)), 100 * 100, 20);          // one word
  EXPECT_NEAR(to_ns(time_of_two(0, 8)), 100 * 100, 20);          // one slot of 16 bytes
  EXPECT_NEAR(to_ns(time_of_two(0, 1024)), 100 * 100, 20);       // equal in the low 10 bits
  EXPECT_NEAR(to_ns(time_of_two(0, 16)), 50 * 100, 20);          // neighbouring slots
  EXPECT_NEAR(to_ns(time_of_two(0, 1024 + 512)), 50 * 100, 20);  // differ in bit 9
}

Time time_with_queue_pairs(std::uint32_t n, bool at_once) {
  Profile p = quiet_profile();
  p.qp_cache = {.requester_entries = 8, .miss_ns = 1000};
  Pair pair(p);
  std::vector<std::unique_ptr<QueuePair>> all;
  for (std::uint32_t i = 0; i < n; ++i) {
    all.push_back(pair.client.connect(pair.storage));
  }
  for (auto& qp : all) {
    if (at_once) {
      pair.world.reactor().spawn(hammer(*qp, pair.table.remote(0, 8), 10));
    } else {
      pair.world.reactor().run(hammer(*qp, pair.table.remote(0, 8), 10));
    }
  }
  pair.world.reactor().run();
  return pair.world.reactor().now();
}

TEST(Simulation, MoreQueuePairsInUseThanTheNicHoldsCostMisses) {
  EXPECT_LT(to_ns(time_with_queue_pairs(8, /*at_once=*/true)), 1000);
  // 16 queue pairs in use share 8 entries: each time at least 8 of them miss.
  EXPECT_GE(to_ns(time_with_queue_pairs(16, /*at_once=*/true)), 8 * 10 * 1000);
}

TEST(Simulation, IdleQueuePairsNeedNoRoomInTheNic) {
  EXPECT_LT(to_ns(time_with_queue_pairs(16, /*at_once=*/false)), 1000);
}

Task<void> repeat(QueuePair& qp, WorkRequest request, int times) {
  for (int i = 0; i < times; ++i) {
    co_await qp.submit(request);
  }
}

TEST(Simulation, AnAtomicThatChangesItsWordKeepsItsSlotForLonger) {
  Profile p = quiet_profile();
  p.lock_table.load_ns = 50;
  p.lock_table.service_ns = 100;
  p.lock_table.changed_ns = 300;
  const auto time_of = [&](auto request) {
    Pair pair(p);
    auto other = pair.client.connect(pair.storage);
    const RemoteSpan word = pair.table.remote(0, 8);
    pair.world.reactor().spawn(repeat(*pair.qp, request(word), 50));
    pair.world.reactor().spawn(repeat(*other, request(word), 50));
    pair.world.reactor().run();
    return to_ns(pair.world.reactor().now());
  };
  EXPECT_NEAR(time_of([](RemoteSpan word) { return compare_swap(word, 0, 0); }), 100 * 100, 20);  // finds what it puts
  EXPECT_NEAR(time_of([](RemoteSpan word) { return compare_swap(word, 1, 2); }), 100 * 100, 20);  // fails
  EXPECT_NEAR(time_of([](RemoteSpan word) { return fetch_add(word, 0); }), 100 * 100, 20);
  EXPECT_NEAR(time_of([](RemoteSpan word) { return fetch_add(word, 1); }), 100 * 400, 620);
}

// When all of `queue_pairs` have done 40 CAS of 100 ns, each on the word that `offset` gives.
double time_of_atomics(std::uint64_t units, std::uint32_t queue_pairs, const std::function<int(std::uint32_t)>& offset,
                       double changed_ns = 0) {
  Profile p = quiet_profile();
  p.lock_table = {.load_ns = 50, .service_ns = 100, .changed_ns = changed_ns, .units = units};
  Pair pair(p);
  std::vector<std::unique_ptr<QueuePair>> all;
  for (std::uint32_t i = 0; i < queue_pairs; ++i) {
    all.push_back(pair.client.connect(pair.storage));
    const RemoteSpan word = pair.table.remote(static_cast<std::uint64_t>(offset(i)), 8);
    const WorkRequest request = changed_ns > 0 ? fetch_add(word, 1) : compare_swap(word, 0, 0);
    pair.world.reactor().spawn(repeat(*all.back(), request, 40));
  }
  pair.world.reactor().run();
  return to_ns(pair.world.reactor().now());
}

TEST(Simulation, TheNicExecutesAsManyAtomicsAtATimeAsItHasUnits) {
  const auto apart = [](std::uint32_t i) { return static_cast<int>(8 * i); };
  EXPECT_NEAR(time_of_atomics(0, 12, apart), 40 * 100, 20);
  EXPECT_NEAR(time_of_atomics(12, 12, apart), 40 * 100, 20);
  EXPECT_NEAR(time_of_atomics(4, 12, apart), 12 * 40 * 100 / 4, 120);
  EXPECT_NEAR(time_of_atomics(1, 12, apart), 12 * 40 * 100, 120);
  // One that changes its word keeps its unit for longer, as it does its slot.
  EXPECT_NEAR(time_of_atomics(4, 12, apart, /*changed_ns=*/300), 12 * 40 * 400 / 4, 1300);
}

TEST(Simulation, AtomicsThatWaitForOneSlotOccupyOneUnit) {
  // Eleven want one word, and a twelfth another: with two units it is not kept waiting.
  Profile p = quiet_profile();
  p.lock_table = {.load_ns = 50, .service_ns = 100, .units = 2};
  Pair pair(p);
  std::vector<std::unique_ptr<QueuePair>> all;
  for (int i = 0; i < 11; ++i) {
    all.push_back(pair.client.connect(pair.storage));
    pair.world.reactor().spawn(repeat(*all.back(), compare_swap(pair.table.remote(0, 8), 0, 0), 40));
  }
  const Time alone = pair.duration_of(repeat(*pair.qp, compare_swap(pair.table.remote(8, 8), 0, 0), 40));
  EXPECT_NEAR(to_ns(alone), 40 * 100, 120);
  pair.world.reactor().run();
  EXPECT_NEAR(to_ns(pair.world.reactor().now()), 11 * 40 * 100, 120);
}

Task<void> overwrite(QueuePair& qp, MemoryRegion& buffer, RemoteSpan block, int times) {
  for (int i = 1; i <= times; ++i) {
    std::memset(buffer.bytes().data(), i % 256, block.length);
    co_await qp.write(buffer.local(0, block.length), block);
  }
}

struct Mixtures {
  int equal_ends = 0;
  int different_ends = 0;
  bool operator==(const Mixtures&) const = default;
};

Task<Mixtures> watch(QueuePair& qp, MemoryRegion& buffer, RemoteSpan block, int times) {
  Mixtures seen;
  for (int i = 0; i < times; ++i) {
    co_await qp.read(buffer.local(0, block.length), block);
    const std::byte* bytes = buffer.bytes().data();
    if (bytes[0] != bytes[block.length - 1]) {
      ++seen.different_ends;
    } else if (std::memcmp(bytes, bytes + 1, block.length - 1) != 0) {
      ++seen.equal_ends;
    }
  }
  co_return seen;
}

Mixtures mixtures(std::uint64_t bytes, double reorder_probability, std::uint64_t seed) {
  Profile p = load_profile("connectx5");
  p.pcie.reorder_probability = reorder_probability;
  // Lines arrive packet by packet over a slow link, so they are placed more slowly than sampled.
  p.link.mtu = 256;
  p.link.gbps = 20;
  p.link.jitter_ns = 400;  // otherwise reader and writer, each as regular as a clock, may never meet
  p.pcie.read_ns = 350;    // long enough for a WRITE that arrives after the READ to be placed while it is sampled
  Pair pair(p, seed);
  auto reader = pair.client.connect(pair.storage);
  MemoryRegion into = pair.client.allocate(bytes, Access::local_write);
  pair.world.reactor().spawn(overwrite(*pair.qp, pair.buffer, pair.table.remote(0, bytes), 20000));
  return pair.world.reactor().run(watch(*reader, into, pair.table.remote(0, bytes), 20000));
}

TEST(Simulation, LinesSampledLateMixBlocksInTheMiddle) { EXPECT_GT(mixtures(512, 0.05, 1).equal_ends, 0); }

TEST(Simulation, WithoutLateLinesAMixtureAlwaysShowsAtTheEnds) {
  // Both sides process the lines in ascending order, so a block is a prefix of one write and a suffix of another.
  const Mixtures seen = mixtures(512, 0, 1);
  EXPECT_EQ(seen.equal_ends, 0);
  EXPECT_GT(seen.different_ends, 0);
}

TEST(Simulation, ABlockOfOneLineIsNeverMixed) { EXPECT_EQ(mixtures(64, 0.2, 1), (Mixtures{0, 0})); }

TEST(Simulation, EqualSeedsGiveEqualRuns) {
  EXPECT_EQ(mixtures(1024, 0.05, 3), mixtures(1024, 0.05, 3));
  EXPECT_FALSE(mixtures(1024, 0.05, 3) == mixtures(1024, 0.05, 4));
}

Task<void> add_many(QueuePair& qp, RemoteSpan word, int times, Duration pause) {
  for (int i = 0; i < times; ++i) {
    co_await qp.fetch_add(word, 1);
    co_await qp.reactor().sleep(pause);
  }
}

TEST(Simulation, AWriteIntoTheMiddleOfAnAtomicIsLostUnderScopeNicOnly) {
  // An atomic holds the word for 400 ns between its load and its store; a WRITE of 1000000 arrives meanwhile.
  const auto lost = [](model::AtomicScope scope) {
    Profile p = quiet_profile();
    p.lock_table.service_ns = 500;
    p.lock_table.load_ns = 100;
    model::Rules rules;
    rules.atomic_scope = scope;
    Simulation world({.profile = p, .rules = rules});
    Node& storage = world.add_node("storage");
    Node& client = world.add_node("client");
    const MemoryRegion word = storage.allocate(8, Access::remote_all);
    const MemoryRegion buffer = client.allocate(8, Access::local_write);
    const std::uint64_t value = 1'000'000;
    std::memcpy(buffer.bytes().data(), &value, 8);
    auto adder = client.connect(storage);
    auto writer = client.connect(storage);
    world.reactor().spawn(add_many(*adder, word.remote(), 1, Duration::zero()));
    world.reactor().run_for(from_ns(300));
    world.reactor().run(one_write(*writer, buffer.local(), word.remote()));
    world.reactor().run();
    world.reactor().run_for(from_ns(1000));
    std::uint64_t seen = 0;
    std::memcpy(&seen, word.bytes().data(), 8);
    return seen;
  };
  EXPECT_EQ(lost(model::AtomicScope::nic), 1U);
  EXPECT_EQ(lost(model::AtomicScope::global), 1'000'000U);
}

TEST(Simulation, NodesOfAnotherSimulationAreRefused) {
  Simulation one({.profile = quiet_profile()});
  Simulation two({.profile = quiet_profile()});
  Node& here = one.add_node("here");
  Node& there = two.add_node("there");
  EXPECT_THROW((void)here.connect(there), std::invalid_argument);
}

TEST(Simulation, ABadProfileIsRefused) {
  Profile p = quiet_profile();
  p.link.gbps = 0;
  EXPECT_THROW(Simulation({.profile = p}), ProfileError);
}

// Requests of a queue pair that ends arrive in their order, or not at all.
TEST(Simulation, NothingHappensBehindAWriteThatIsLostWithItsQueuePair) {
  int both = 0;
  int neither = 0;
  for (const std::uint64_t bytes : {8U, 200U, 65536U}) {
    for (double moment = 0; moment < 6000; moment += 50) {
      Pair pair(load_profile("connectx5"));
      std::memset(pair.buffer.bytes().data(), 7, bytes);
      const std::array chain = {write(pair.buffer.local(0, bytes), pair.table.remote(64, bytes)),
                                fetch_add(pair.table.remote(0, 8), 1)};
      ASSERT_TRUE(pair.qp->post(chain));
      if (moment > 0) {
        pair.world.reactor().run_for(from_ns(moment));
      }
      pair.qp.reset();
      pair.world.reactor().run_for(from_ns(1e6));
      const bool counted = pair.table.bytes()[0] == std::byte{1};
      const bool written = std::ranges::all_of(pair.table.bytes().subspan(64, bytes),
                                               [](std::byte byte) { return byte == std::byte{7}; });
      ASSERT_TRUE(written || !counted) << bytes << " bytes, " << moment << " ns";
      both += written && counted ? 1 : 0;
      neither += !written && !counted ? 1 : 0;
    }
  }
  EXPECT_GT(both, 0);
  EXPECT_GT(neither, 0);
}

// Sees whether the second request of a queue pair took effect before the first one's last line was placed.
struct Overtaking final : StepObserver {
  void on_step(const SimStep& step) override {
    const bool first_placed = placed == kLines;
    if (step.kind == SimStep::Kind::place && step.sequence == 1) {
      ++placed;
    } else if (step.sequence == 2 && (step.kind == SimStep::Kind::place || step.kind == SimStep::Kind::load)) {
      took_effect = true;
      overtook = overtook || !first_placed;
    }
  }
  static constexpr std::uint64_t kLines = 64;
  std::uint64_t placed = 0;
  bool took_effect = false;
  bool overtook = false;
};

// Rule 5 binds requests on their way also when their queue pair has ended: the flag behind a record is not seen early.
TEST(Simulation, RequestsKeepTheirOrderWhenTheirQueuePairEnds) {
  int executed = 0;
  for (const bool is_write : {true, false}) {
    for (double moment = 0; moment < 6000; moment += 50) {
      Pair pair(load_profile("connectx5"));
      Overtaking seen;
      pair.world.observe(&seen);
      constexpr std::uint64_t kBytes = Overtaking::kLines * kLineBytes;
      const std::array chain = {write(pair.buffer.local(0, kBytes), pair.table.remote(64, kBytes)),
                                is_write ? write(pair.buffer.local(0, 8), pair.table.remote(0, 8)).with_inline()
                                         : fetch_add(pair.table.remote(0, 8), 1)};
      ASSERT_TRUE(pair.qp->post(chain));
      pair.world.reactor().run_for(from_ns(moment));
      pair.qp.reset();
      pair.world.reactor().run_for(from_ns(1e6));
      EXPECT_FALSE(seen.overtook) << moment << " ns, " << (is_write ? "WRITE" : "FETCH-ADD");
      executed += seen.took_effect ? 1 : 0;
    }
  }
  EXPECT_GT(executed, 0);
}

// The target refuses a request of a queue pair that has ended: none behind it is executed, as if it had not ended.
TEST(Simulation, NothingHappensBehindARefusedRequestOfAQueuePairThatHasEnded) {
  for (double moment = 0; moment < 3000; moment += 50) {
    Pair pair(load_profile("connectx5"));
    MemoryRegion ended = pair.storage.allocate(64, Access::remote_all);
    const std::array chain = {write(pair.buffer.local(0, 8), ended.remote(0, 8)).with_inline(),
                              fetch_add(pair.table.remote(0, 8), 1)};
    ASSERT_TRUE(pair.qp->post(chain));
    ended = MemoryRegion();
    pair.world.reactor().run_for(from_ns(moment));
    pair.qp.reset();
    pair.world.reactor().run_for(from_ns(1e6));
    EXPECT_EQ(pair.table.bytes()[0], std::byte{0}) << moment << " ns";
  }
}

}  // namespace
}  // namespace sidelatch::fabric::sim
