// Signals, fences, max_rd_atomic and the counters.
#include "queue_pair_tasks.h"
#include "two_nodes.h"

#include <algorithm>
#include <vector>

namespace sidelatch::fabric {
namespace {

using sim::SimStep;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

// Records when each kind of step of each request happened.
struct Log : sim::StepObserver {
  struct Entry {
    SimStep::Kind kind;
    std::uint64_t sequence;
    bool signaled;
  };
  void on_step(const SimStep& step) override {
    entries.push_back({step.kind, step.sequence, step.request->signaled});
    if (step.kind == SimStep::Kind::post) {
      in_flight += 1;
      most_in_flight = std::max(most_in_flight, in_flight);
    } else if (step.kind == SimStep::Kind::complete) {
      in_flight -= 1;
    }
  }
  // Position of the step in the log, or its end.
  [[nodiscard]] std::size_t position(SimStep::Kind kind, std::uint64_t sequence) const {
    const auto found = std::ranges::find_if(
        entries, [&](const Entry& entry) { return entry.kind == kind && entry.sequence == sequence; });
    return static_cast<std::size_t>(found - entries.begin());
  }
  [[nodiscard]] std::vector<std::uint64_t> signaled_posts() const {
    std::vector<std::uint64_t> sequences;
    for (const Entry& entry : entries) {
      if (entry.kind == SimStep::Kind::post && entry.signaled) {
        sequences.push_back(entry.sequence);
      }
    }
    return sequences;
  }
  std::vector<Entry> entries;
  int in_flight = 0;
  int most_in_flight = 0;
};

TEST(QueuePairSignals, OnlyTheLastRequestOfAChainIsSignalled) {
  Log log;
  TwoNodes world({.observer = &log});
  world.run([](QueuePair& qp, RemoteSpan word) -> Task<> {
    co_await qp.submit(fetch_add(word, 1), fetch_add(word, 1), fetch_add(word, 1));
    co_await qp.submit(fetch_add(word, 1).with_signal(), fetch_add(word, 1));
  }(*world.qp, world.word(0)));
  EXPECT_EQ(log.signaled_posts(), (std::vector<std::uint64_t>{3, 4, 5}));
}

TEST(QueuePairSignals, RequestsThatNobodyWaitsForAreSignalledEachInterval) {
  Log log;
  TwoNodes world({.queue_pair = {.send_queue_depth = 64, .signal_interval = 10}, .observer = &log});
  world.run(enqueue_adds(*world.qp, world.word(0), 35));
  EXPECT_EQ(log.signaled_posts(), (std::vector<std::uint64_t>{10, 20, 30}));
}

TEST(QueuePairSignals, AChainLongerThanTheIntervalIsSignalledWithinAndASignalAskedForBeginsTheIntervalAnew) {
  Log log;
  TwoNodes world({.queue_pair = {.send_queue_depth = 64, .signal_interval = 2}, .observer = &log});
  std::vector<WorkRequest> chain(8, fetch_add(world.word(0), 1));
  chain[2].signaled = true;
  world.run([](QueuePair& qp, std::span<const WorkRequest> requests) -> Task<> { co_await qp.enqueue(requests); }(
                                                                         *world.qp, chain));
  EXPECT_EQ(log.signaled_posts(), (std::vector<std::uint64_t>{2, 3, 5, 7}));
}

TEST(QueuePairSignals, TheIntervalIsHalfTheDepthUnlessSaid) {
  Log log;
  TwoNodes world({.queue_pair = {.send_queue_depth = 16}, .observer = &log});
  world.run(enqueue_adds(*world.qp, world.word(0), 16));
  EXPECT_EQ(world.qp->options().signal_interval, 8U);
  EXPECT_EQ(log.signaled_posts(), (std::vector<std::uint64_t>{8, 16}));
}

TEST(QueuePairSignals, UnsignalledRequestsFreeTheirEntriesWithTheNextSignal) {
  TwoNodes world;
  world.run(enqueue_adds(*world.qp, world.word(0), 5));
  world.settle();
  EXPECT_EQ(world.value(0), 5U);         // executed
  EXPECT_EQ(world.qp->completed(), 0U);  // without a completion
  EXPECT_EQ(world.qp->outstanding(), 5U);
  world.run([](QueuePair& qp, RemoteSpan word) -> Task<> { co_await qp.fetch_add(word, 1); }(*world.qp, world.word(0)));
  EXPECT_EQ(world.qp->completed(), 6U);
}

TEST(QueuePairSignals, AFencedWriteIsFetchedAfterTheReadBeforeItHasCompleted) {
  for (const bool fence : {false, true}) {
    Log log;
    TwoNodes world({.observer = &log});
    WorkRequest out = write(world.buffer.local(8, 8), world.word(1));
    out.fence = fence;
    world.run([](QueuePair& qp, WorkRequest in, WorkRequest w) -> Task<> {
      co_await qp.submit(in, w);
    }(*world.qp, read(world.buffer.local(0, 8), world.word(0)), out));
    const bool after = log.position(SimStep::Kind::fetch, 2) > log.position(SimStep::Kind::complete, 1);
    EXPECT_EQ(after, fence);
  }
}

TEST(QueuePairSignals, AReadNeverSeesTheFencedWriteBehindIt) {
  // The WRITE changes the last word of a READ that is long enough for the WRITE to overtake the sample of that word.
  for (const bool fence : {false, true}) {
    TwoNodes world;
    world.set(7499, 1);
    TwoNodes::store(world.buffer, 8000, 2);
    WorkRequest change = write(world.buffer.local(64000, 8), world.word(7499));
    change.fence = fence;
    world.run([](QueuePair& qp, WorkRequest first, WorkRequest second) -> Task<> {
      co_await qp.submit(first, second);
    }(*world.qp, read(world.buffer.local(0, 60000), world.table.remote()), change));
    EXPECT_EQ(TwoNodes::load(world.buffer, 7499), fence ? 1U : 2U);
  }
}

Duration time_of_32_reads(std::uint32_t max_rd_atomic) {
  TwoNodes world({.queue_pair = {.max_rd_atomic = max_rd_atomic}});
  std::vector<WorkRequest> chain(32, read(world.buffer.local(0, 8), world.word(0)));
  world.run([](QueuePair& qp, std::span<const WorkRequest> requests) -> Task<> { co_await qp.submit(requests); }(
                                                                         *world.qp, chain));
  return world.reactor().now();
}

TEST(QueuePairSignals, MaxRdAtomicBoundsHowManyReadsOverlap) {
  TwoNodes world;
  world.run([](QueuePair& qp, LocalSpan into, RemoteSpan from) -> Task<> { co_await qp.read(into, from); }(
                                                                   *world.qp, world.buffer.local(0, 8), world.word(0)));
  const Duration one = world.reactor().now();
  const Duration doorbell = from_ns(world.simulation.options().profile.nic.doorbell_ns);
  // One at a time: each takes a round trip, all except the first without the doorbell.
  EXPECT_EQ(time_of_32_reads(1), one + (one - doorbell) * 31);
  // 16 at a time: two windows plus some service times.
  EXPECT_THAT(time_of_32_reads(16), AllOf(Ge(one * 3 / 2), Le(one * 3)));
  EXPECT_LT(time_of_32_reads(32), one * 2);
}

TEST(QueuePairSignals, MaxRdAtomicCountsAtomicsToo) {
  for (const std::uint32_t most : {1U, 3U, 8U}) {
    // With a READ sampled when it is served and no WRITEs, posts minus completions bound the target's view;
    // max_rd_atomic bounds loads minus completions.
    struct Outstanding : sim::StepObserver {
      void on_step(const SimStep& step) override {
        if (step.kind == SimStep::Kind::load || step.kind == SimStep::Kind::sample) {
          highest_begun = std::max(highest_begun, step.sequence);
        } else if (step.kind == SimStep::Kind::complete) {
          completed = step.sequence;
        }
        most_begun = std::max(most_begun, highest_begun - std::min(highest_begun, completed));
      }
      std::uint64_t highest_begun = 0;
      std::uint64_t completed = 0;
      std::uint64_t most_begun = 0;
    } outstanding;
    TwoNodes world({.queue_pair = {.max_rd_atomic = most}, .observer = &outstanding});
    std::vector<WorkRequest> chain;
    for (std::uint64_t i = 0; i < 20; ++i) {
      chain.push_back(fetch_add(world.word(i), 1));
      chain.push_back(read(world.buffer.local(0, 8), world.word(i)));
    }
    world.run([](QueuePair& qp, std::span<const WorkRequest> requests) -> Task<> { co_await qp.submit(requests); }(
                                                                           *world.qp, chain));
    EXPECT_EQ(outstanding.most_begun, most);
  }
}

TEST(QueuePairCounters, CountEveryRequestOfASmallProgramExactly) {
  TwoNodes world;
  QueuePair& qp = *world.qp;
  world.run([](QueuePair& q, LocalSpan b, RemoteSpan t) -> Task<> {
    co_await q.read(b.subspan(0, 100), t);                                                      // 1 request
    co_await q.submit(fabric::write(b.subspan(0, 30), t), fetch_add(t.subspan(0, 8), 1));       // 2
    co_await q.enqueue(compare_swap(t.subspan(0, 8), 0, 1), fabric::read(b.subspan(0, 7), t));  // 2, nobody waits
    co_await q.compare_swap(t.subspan(0, 8), 0, 1);                                             // 1
    q.count_retry();
    q.count_retry();
  }(qp, world.buffer.local(), world.table.remote()));
  const WorkRequest inlined = write(world.buffer.local(0, 5), world.table.remote()).with_inline();
  ASSERT_TRUE(qp.post({&inlined, 1}));  // 1, nobody waits
  const Counters& counters = qp.counters();
  EXPECT_EQ(counters.round_trips, 3U);
  EXPECT_EQ(counters.doorbells, 5U);
  EXPECT_EQ(counters.requests, 7U);
  EXPECT_EQ(counters.retries, 2U);
  EXPECT_EQ(counters.bytes_read, 100U + 8 + 8 + 7 + 8);
  EXPECT_EQ(counters.bytes_written, 30U + 8 + 8 + 8 + 5);
  EXPECT_EQ(counters.waits, 0U);
  EXPECT_EQ(counters.errors, 0U);
  EXPECT_EQ(qp.posted(), 7U);
  EXPECT_EQ(qp.completed(), 6U);
}

TEST(QueuePairCounters, CountChainsThatWaitedForRoom) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 2}});
  const auto add = [](QueuePair& qp, RemoteSpan word) -> Task<> { co_await qp.fetch_add(word, 1); };
  for (int i = 0; i < 5; ++i) {
    world.reactor().spawn(add(*world.qp, world.word(0)));
  }
  world.reactor().run();
  EXPECT_EQ(world.qp->counters().waits, 3U);
  EXPECT_EQ(world.qp->counters().round_trips, 5U);
  EXPECT_EQ(world.qp->counters().requests, 5U);
}

TEST(QueuePairCounters, CountAnErrorOnceHoweverManyRequestsItFlushes) {
  TwoNodes world;
  RemoteSpan bad = world.word(0);
  bad.rkey.value ^= 1;
  const WorkRequest chain[] = {fetch_add(world.word(0), 1), fetch_add(bad, 1), fetch_add(world.word(0), 1)};
  EXPECT_THROW(world.run([](QueuePair& qp, std::span<const WorkRequest> requests) -> Task<> {
    co_await qp.submit(requests);
  }(*world.qp, chain)),
               FabricError);
  EXPECT_EQ(world.qp->counters().errors, 1U);
  EXPECT_EQ(world.qp->counters().requests, 3U);
  EXPECT_EQ(world.qp->counters().round_trips, 0U);
}

TEST(QueuePairCounters, AddUp) {
  Counters a{1, 2, 3, 4, 5, 6, 7, 8, 9};
  a += Counters{10, 20, 30, 40, 50, 60, 70, 80, 90};
  EXPECT_EQ(a.round_trips, 11U);
  EXPECT_EQ(a.doorbells, 22U);
  EXPECT_EQ(a.requests, 33U);
  EXPECT_EQ(a.retries, 44U);
  EXPECT_EQ(a.bytes_written, 55U);
  EXPECT_EQ(a.bytes_read, 66U);
  EXPECT_EQ(a.waits, 77U);
  EXPECT_EQ(a.errors, 88U);
  EXPECT_EQ(a.receives, 99U);
}

}  // namespace
}  // namespace sidelatch::fabric
