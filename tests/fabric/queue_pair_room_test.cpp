// Full queues: a task waits, in turn, and every request is executed exactly once.
#include "queue_pair_tasks.h"
#include "two_nodes.h"

#include <algorithm>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::ElementsAre;

Task<> add(QueuePair& qp, RemoteSpan word, int count, std::vector<std::uint64_t>* olds) {
  for (int i = 0; i < count; ++i) {
    const std::uint64_t old = co_await qp.fetch_add(word, 1);
    olds->push_back(old);
  }
}

Task<> enqueue_chain(QueuePair& qp, std::span<const WorkRequest> chain) {
  while (!qp.post(chain)) {
    co_await qp.drain();
  }
}

Task<> submit_chain(QueuePair& qp, std::span<const WorkRequest> chain, int number, std::vector<int>* order) {
  co_await qp.submit(chain);
  order->push_back(number);
}

// Every value below `n` exactly once: nothing was lost, nothing done twice, nothing answered twice.
void expect_each_once(std::vector<std::uint64_t> olds, std::uint64_t n) {
  std::ranges::sort(olds);
  ASSERT_EQ(olds.size(), n);
  for (std::uint64_t i = 0; i < n; ++i) {
    ASSERT_EQ(olds[i], i);
  }
}

TEST(QueuePairRoom, AFullSendQueueMakesTheNextChainWaitAndLosesNothing) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 2}});
  std::vector<std::uint64_t> olds;
  for (int task = 0; task < 10; ++task) {
    world.reactor().spawn(add(*world.qp, world.word(0), 300, &olds));
  }
  EXPECT_EQ(world.qp->outstanding(), 2U);
  world.reactor().run();
  expect_each_once(olds, 3000);
  EXPECT_EQ(world.value(0), 3000U);
  EXPECT_EQ(world.qp->outstanding(), 0U);
}

TEST(QueuePairRoom, AFullCompletionQueueMakesQueuePairsWaitAndLosesNothing) {
  // Four entries for three queue pairs of depth 16, with four tasks each.
  TwoNodes world({.queue_pair = {.send_queue_depth = 16}, .completion_queue_depth = 4});
  const auto second = world.client.connect(world.storage);
  const auto third = world.client.connect(world.storage);
  std::vector<std::uint64_t> olds;
  for (QueuePair* qp : {world.qp.get(), second.get(), third.get()}) {
    for (int task = 0; task < 4; ++task) {
      world.reactor().spawn(add(*qp, world.word(0), 200, &olds));
    }
  }
  EXPECT_EQ(world.reactor().completion_queue_free(), 0U);
  EXPECT_EQ(world.qp->outstanding() + second->outstanding() + third->outstanding(), 4U);
  world.reactor().run();
  expect_each_once(olds, 2400);
  EXPECT_EQ(world.value(0), 2400U);
  EXPECT_EQ(world.reactor().completion_queue_free(), 4U);
}

TEST(QueuePairRoom, WaitersOfOneQueuePairAreServedInTurnWhateverTheLengthOfTheirChains) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 4}});
  std::vector<std::vector<WorkRequest>> chains;
  std::vector<int> order;
  for (const std::size_t length : {4UL, 1UL, 4UL, 2UL, 1UL, 1UL, 3UL}) {
    chains.emplace_back(length, fetch_add(world.word(0), 1));
  }
  for (std::size_t i = 0; i < chains.size(); ++i) {
    world.reactor().spawn(submit_chain(*world.qp, chains[i], static_cast<int>(i), &order));
  }
  world.reactor().run();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(world.value(0), 16U);
}

TEST(QueuePairRoom, AQueuePairIsServedInTurnThoughAnotherIsAlwaysBusy) {
  TwoNodes world({.completion_queue_depth = 4});
  const auto busy = world.client.connect(world.storage);
  std::vector<std::uint64_t> olds;
  for (int task = 0; task < 8; ++task) {
    world.reactor().spawn(add(*busy, world.word(0), 100, &olds));
  }
  const std::vector<WorkRequest> chain(2, fetch_add(world.word(1), 1));
  std::vector<int> order;
  std::uint64_t before = 0;
  world.reactor().spawn([](QueuePair& qp, std::span<const WorkRequest> requests, std::vector<std::uint64_t>* done,
                           std::uint64_t* out) -> Task<> {
    co_await qp.submit(requests);
    *out = done->size();
  }(*world.qp, chain, &olds, &before));
  world.reactor().run();
  // Four in flight, one turn of the busy queue pair, and the requests beside the chain: far fewer than all 800.
  EXPECT_LT(before, 20U);
  expect_each_once(olds, 800);
  EXPECT_EQ(world.value(1), 2U);
}

TEST(QueuePairRoom, PostSaysThatThereIsNoRoomAndPostsNothing) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 4}});
  const std::vector<WorkRequest> chain(3, fetch_add(world.word(0), 1).with_signal());
  ASSERT_TRUE(world.qp->post(chain));
  EXPECT_FALSE(world.qp->post(chain));
  world.run(drain(*world.qp));
  EXPECT_TRUE(world.qp->post(chain));
  world.run(drain(*world.qp));
  EXPECT_EQ(world.value(0), 6U);
}

TEST(QueuePairRoom, PostAndDrainMixWithWaitingTasks) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 4}});
  const std::vector<WorkRequest> chain(3, fetch_add(world.word(0), 1));
  std::vector<std::uint64_t> olds;
  const auto poster = [](QueuePair& qp, std::span<const WorkRequest> requests) -> Task<> {
    for (int i = 0; i < 200; ++i) {
      co_await enqueue_chain(qp, requests);
    }
  };
  world.reactor().spawn(poster(*world.qp, chain));
  world.reactor().spawn(add(*world.qp, world.word(0), 200, &olds));
  world.reactor().spawn(poster(*world.qp, chain));
  world.reactor().run();
  world.run(drain(*world.qp));
  EXPECT_EQ(world.value(0), 200U * (3 + 1 + 3));
  EXPECT_EQ(olds.size(), 200U);
}

TEST(QueuePairRoom, PostThatIsTriedAgainNowAndThenFindsRoomInTheEnd) {
  // No in-flight request is signalled, and nobody waits for a completion.
  TwoNodes world({.queue_pair = {.send_queue_depth = 8, .signal_interval = 8}});
  const std::vector<WorkRequest> chain(5, fetch_add(world.word(0), 1));
  ASSERT_TRUE(world.qp->post(chain));
  bool posted = false;
  for (int attempt = 0; attempt < 10 && !posted; ++attempt) {
    posted = world.qp->post(chain);
    world.settle();
  }
  EXPECT_TRUE(posted);
  EXPECT_EQ(world.value(0), 10U);
}

TEST(QueuePairRoom, RequestsThatNobodyWaitsForNeverJamTheQueue) {
  for (const std::uint32_t interval : {0U, 1U, 3U, 4U}) {
    TwoNodes world({.queue_pair = {.send_queue_depth = 4, .signal_interval = interval}});
    world.run(enqueue_adds(*world.qp, world.word(0), 5000));
    world.run(drain(*world.qp));
    EXPECT_EQ(world.value(0), 5000U);
    EXPECT_EQ(world.qp->outstanding(), 0U);
  }
}

TEST(QueuePairRoom, ChainsAsLongAsTheQueueNeverJamBehindShorterOnes) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 8, .signal_interval = 8}});
  const std::vector<WorkRequest> longest(8, fetch_add(world.word(0), 1));
  const std::vector<WorkRequest> pair(2, fetch_add(world.word(0), 1));
  const auto poster = [](QueuePair& qp, std::span<const WorkRequest> requests) -> Task<> {
    for (int i = 0; i < 50; ++i) {
      co_await enqueue_chain(qp, requests);
    }
  };
  world.reactor().spawn(poster(*world.qp, longest));
  world.reactor().spawn(poster(*world.qp, pair));
  world.reactor().spawn(enqueue_adds(*world.qp, world.word(0), 50));
  world.reactor().run();
  world.run(drain(*world.qp));
  EXPECT_EQ(world.value(0), 50U * (8 + 2 + 1));
}

TEST(QueuePairRoom, AChainThatWaitsBehindOneThatNobodySignalledIsNotForgotten) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 8}});
  const std::vector<WorkRequest> longest(8, fetch_add(world.word(0), 1));
  std::vector<int> order;
  ASSERT_TRUE(world.qp->post(longest));
  // Both wait. When the first eight complete, one request is posted without a signal, and there is still no room for
  // the chain.
  world.reactor().spawn(enqueue_adds(*world.qp, world.word(0), 1));
  world.reactor().spawn(submit_chain(*world.qp, longest, 1, &order));
  world.reactor().run();
  EXPECT_THAT(order, ElementsAre(1));
  EXPECT_EQ(world.value(0), 17U);
}

TEST(QueuePairRoom, RequestsThatNobodySignalledDoNotKeepTheCompletionQueueFromOthers) {
  // Eight queue pairs post one unsignalled request each and then nothing; another one needs half of the entries.
  TwoNodes world({.completion_queue_depth = 8});
  std::vector<std::unique_ptr<QueuePair>> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(world.client.connect(world.storage));
    world.run(enqueue_adds(*silent.back(), world.word(0), 1));
  }
  const std::vector<WorkRequest> chain(4, fetch_add(world.word(0), 1));
  std::vector<int> order;
  world.run(submit_chain(*world.qp, chain, 1, &order));
  world.settle();
  EXPECT_EQ(world.value(0), 12U);
}

TEST(QueuePairRoom, DrainAndReachWaitForWhatNobodySignalled) {
  TwoNodes world;
  world.run(enqueue_adds(*world.qp, world.word(0), 3));
  world.run([](QueuePair& qp) -> Task<> { co_await qp.reach(2); }(*world.qp));
  EXPECT_GE(world.qp->completed(), 2U);
  world.run(enqueue_adds(*world.qp, world.word(0), 3));
  world.run(drain(*world.qp));
  EXPECT_EQ(world.qp->outstanding(), 0U);
  const Time now = world.reactor().now();
  world.run(drain(*world.qp));
  EXPECT_EQ(world.reactor().now(), now);  // nothing is in flight: it does not wait
  EXPECT_EQ(world.qp->counters().round_trips, 0U);
}

TEST(QueuePairRoom, ReachGoesOnBeforeALaterRequestOfTheSameChainHasCompleted) {
  TwoNodes world({.queue_pair = {.max_rd_atomic = 1}});
  const std::vector<WorkRequest> chain{fetch_add(world.word(0), 1).with_signal(), fetch_add(world.word(1), 1)};
  std::vector<int> order;
  world.reactor().spawn(submit_chain(*world.qp, chain, 2, &order));
  world.reactor().spawn([](QueuePair& qp, std::vector<int>* out) -> Task<> {
    co_await qp.reach(1);
    EXPECT_EQ(qp.completed(), 1U);
    out->push_back(1);
  }(*world.qp, &order));
  world.reactor().run();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(QueuePairRoom, DrainWorksWhileTheCompletionQueueIsFull) {
  TwoNodes world({.completion_queue_depth = 4});
  const auto other = world.client.connect(world.storage);
  ASSERT_NO_THROW(world.run(enqueue_adds(*world.qp, world.word(0), 1)));
  std::vector<std::uint64_t> olds;
  for (int task = 0; task < 5; ++task) {
    world.reactor().spawn(add(*other, world.word(1), 20, &olds));
  }
  EXPECT_EQ(world.reactor().completion_queue_free(), 0U);
  world.reactor().spawn(drain(*world.qp));
  world.reactor().run();
  EXPECT_EQ(world.qp->outstanding(), 0U);
  expect_each_once(olds, 100);
}

}  // namespace
}  // namespace sidelatch::fabric
