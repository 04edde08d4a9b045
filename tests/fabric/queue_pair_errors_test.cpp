// Completions with an error: who is told, what is flushed, and the way back.
#include "queue_pair_tasks.h"
#include "two_nodes.h"

#include <optional>
#include <span>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A request that the target refuses: its key belongs to no live region.
WorkRequest refused(const TwoNodes& world) {
  WorkRequest request = fetch_add(world.word(0), 1000);
  request.rkey.value ^= 1;
  return request;
}

Task<> enqueue(QueuePair& qp, WorkRequest request) { co_await qp.enqueue(request); }

Task<> submit_and_note(QueuePair& qp, WorkRequest request, std::optional<Status>* status) {
  try {
    co_await qp.submit(request);
  } catch (const FabricError& error) {
    *status = error.status();
  }
}

Task<> drain_and_note(QueuePair& qp, std::optional<Status>* status) {
  try {
    co_await qp.drain();
  } catch (const FabricError& error) {
    *status = error.status();
  }
}

TEST(QueuePairErrors, TheFailedChainGetsTheCauseAndTheQueuePairGoesToTheErrorState) {
  TwoNodes world;
  EXPECT_EQ(world.qp->state(), QueuePair::State::ready);
  EXPECT_EQ(world.qp->error(), nullptr);
  const FabricError error = world.error_of(submit(*world.qp, refused(world)));
  EXPECT_EQ(error.status(), Status::remote_access);
  EXPECT_EQ(error.request().opcode, Opcode::fetch_add);
  EXPECT_EQ(error.request().remote, world.word(0).address);
  EXPECT_EQ(error.request().rkey, refused(world).rkey);
  EXPECT_EQ(world.qp->state(), QueuePair::State::error);
  ASSERT_NE(world.qp->error(), nullptr);
  EXPECT_EQ(world.qp->error()->status(), Status::remote_access);
}

TEST(QueuePairErrors, WhatWasPostedBeforeIsDoneAndWhatWasPostedAfterIsFlushed) {
  TwoNodes world;
  std::optional<Status> before;
  std::optional<Status> cause;
  std::optional<Status> after;
  std::optional<Status> drained;
  world.reactor().spawn(submit_and_note(*world.qp, fetch_add(world.word(1), 1), &before));
  world.reactor().spawn(submit_and_note(*world.qp, refused(world), &cause));
  world.reactor().spawn(submit_and_note(*world.qp, fetch_add(world.word(2), 1), &after));
  world.reactor().spawn(drain_and_note(*world.qp, &drained));
  world.reactor().run();
  world.settle();
  EXPECT_EQ(before, std::nullopt);
  EXPECT_EQ(cause, Status::remote_access);
  EXPECT_EQ(after, Status::flushed);
  EXPECT_EQ(drained, Status::flushed);
  EXPECT_EQ(world.value(0), 0U);
  EXPECT_EQ(world.value(1), 1U);
  EXPECT_EQ(world.value(2), 0U);
  EXPECT_EQ(world.qp->outstanding(), 0U);
}

TEST(QueuePairErrors, WhatIsPostedWhileTheErrorIsOnItsWayBackIsNotExecutedEither) {
  // The target has refused a request and ignores the rest of this queue pair; the client does not know yet.
  TwoNodes world;
  std::optional<Status> cause;
  std::optional<Status> after;
  world.reactor().spawn(submit_and_note(*world.qp, refused(world), &cause));
  const auto later = [](QueuePair& qp, WorkRequest request, double ns, std::optional<Status>* status) -> Task<> {
    co_await qp.reactor().sleep(from_ns(ns));
    co_await submit_and_note(qp, request, status);
  };
  // The request reaches the target after about 700 ns, and the answer is back after about 1450 ns.
  world.reactor().spawn(later(*world.qp, fetch_add(world.word(2), 1), 1000, &after));
  world.reactor().run();
  world.settle();
  EXPECT_EQ(cause, Status::remote_access);
  EXPECT_EQ(after, Status::flushed);
  EXPECT_EQ(world.value(2), 0U);
}

TEST(QueuePairErrors, AFlushedErrorTellsItsCause) {
  TwoNodes world;
  std::optional<Status> cause;
  world.reactor().spawn(submit_and_note(*world.qp, refused(world), &cause));
  const FabricError error = world.error_of(submit(*world.qp, fetch_add(world.word(2), 1)));
  EXPECT_EQ(error.status(), Status::flushed);
  EXPECT_THAT(error.what(), HasSubstr("names no live region of node storage"));
}

TEST(QueuePairErrors, AChainWithARefusedRequestInItsMiddleExecutesItsBeginningOnly) {
  TwoNodes world;
  const FabricError error = world.error_of([](QueuePair& qp, RemoteSpan t, WorkRequest bad) -> Task<> {
    co_await qp.submit(fetch_add(t.subspan(8, 8), 1), bad, fetch_add(t.subspan(16, 8), 1));
  }(*world.qp, world.table.remote(), refused(world)));
  world.settle();
  EXPECT_EQ(error.status(), Status::remote_access);
  EXPECT_EQ(world.value(1), 1U);
  EXPECT_EQ(world.value(2), 0U);
}

TEST(QueuePairErrors, TasksThatWaitForRoomAreFlushedAndTheirRequestsNeverPosted) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 2}});
  std::vector<std::optional<Status>> statuses(6);
  const WorkRequest good = fetch_add(world.word(1), 1);
  world.reactor().spawn(submit_and_note(*world.qp, good, &statuses[0]));
  world.reactor().spawn(submit_and_note(*world.qp, refused(world), &statuses[1]));
  for (std::size_t i = 2; i < 6; ++i) {
    world.reactor().spawn(submit_and_note(*world.qp, good, &statuses[i]));
  }
  world.reactor().run();
  world.settle();
  EXPECT_EQ(statuses[0], std::nullopt);
  EXPECT_EQ(statuses[1], Status::remote_access);
  EXPECT_THAT(std::span(statuses).subspan(2),
              ElementsAre(Status::flushed, Status::flushed, Status::flushed, Status::flushed));
  EXPECT_EQ(world.value(1), 1U);
}

TEST(QueuePairErrors, NothingIsPostedBehindAFailureThatIsReportedTogetherWithEarlierCompletions) {
  // The answer to the second request overtakes the first one's, so both are reported at the same moment. The room left
  // by the first request, signalled (interval 1) or not, must then not be given away.
  for (const std::uint32_t interval : {1U, 2U}) {
    TwoNodes world({.queue_pair = {.send_queue_depth = 2, .signal_interval = interval}});
    world.run(enqueue(*world.qp, fetch_add(world.word(1), 1)));
    world.run(enqueue(*world.qp, refused(world)));
    std::optional<Status> status;
    world.reactor().spawn(submit_and_note(*world.qp, fetch_add(world.word(2), 1), &status));
    world.reactor().run();
    world.settle();
    EXPECT_EQ(status, Status::flushed);
    EXPECT_EQ(world.qp->posted(), 2U);
    EXPECT_EQ(world.value(1), 1U);
    EXPECT_EQ(world.value(2), 0U);
  }
}

TEST(QueuePairErrors, TheFailureOfARequestThatNobodyWaitsForIsReportedAtTheNextUse) {
  TwoNodes world;
  const std::vector<WorkRequest> good(1, fetch_add(world.word(1), 1));
  world.run(enqueue(*world.qp, refused(world)));
  world.settle();
  EXPECT_EQ(world.qp->state(), QueuePair::State::error);
  EXPECT_EQ(world.error_of(submit(*world.qp, good[0])).status(), Status::remote_access);
  EXPECT_EQ(world.error_of(enqueue(*world.qp, good[0])).status(), Status::remote_access);
  EXPECT_EQ(world.error_of(drain(*world.qp)).status(), Status::remote_access);
  try {
    (void)world.qp->post(good);
    ADD_FAILURE() << "post() did not throw";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::remote_access);
  }
  EXPECT_EQ(world.value(1), 0U);
}

TEST(QueuePairErrors, ReconnectMakesTheQueuePairUsableAndValuesAreRightAfterwards) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 4}});
  const std::uint64_t last = world.run([](QueuePair& qp, WorkRequest bad, RemoteSpan word) -> Task<std::uint64_t> {
    std::uint64_t old = 0;
    for (int round = 0; round < 20; ++round) {
      bool failed = false;
      try {
        co_await qp.submit(fetch_add(word, 1), bad, fetch_add(word, 1));
      } catch (const FabricError&) {
        failed = true;
      }
      EXPECT_TRUE(failed);
      co_await qp.reconnect();
      EXPECT_EQ(qp.state(), QueuePair::State::ready);
      EXPECT_EQ(qp.error(), nullptr);
      old = co_await qp.fetch_add(word, 1);
    }
    co_return old;
  }(*world.qp, refused(world), world.word(1)));
  EXPECT_EQ(last, 39U);  // two of each round
  EXPECT_EQ(world.value(1), 40U);
  EXPECT_EQ(world.qp->counters().errors, 20U);
}

TEST(QueuePairErrors, ReconnectOfAReadyQueuePairOnlyDrains) {
  TwoNodes world;
  world.run(enqueue(*world.qp, fetch_add(world.word(0), 1)));
  world.run(world.qp->reconnect());
  EXPECT_EQ(world.qp->outstanding(), 0U);
  EXPECT_EQ(world.value(0), 1U);
}

TEST(QueuePairErrors, ASecondReconnectDoesNotHideANewerFailure) {
  TwoNodes world;
  EXPECT_THROW(world.run(submit(*world.qp, refused(world))), FabricError);
  // The later reconnect() ends when the queue pair is ready again and a request of the first task has failed anew.
  std::optional<Status> second;
  const auto first = [](QueuePair& qp, WorkRequest bad) -> Task<> {
    co_await qp.reconnect();
    co_await qp.enqueue(bad);
  };
  const auto other = [](QueuePair& qp, std::optional<Status>* out) -> Task<> {
    try {
      co_await qp.reconnect();
    } catch (const FabricError& error) {
      *out = error.status();
    }
  };
  world.reactor().spawn(first(*world.qp, refused(world)));
  world.reactor().run_for(from_ns(1700));  // restoring takes 2000 ns, the failure another 1500
  world.reactor().spawn(other(*world.qp, &second));
  world.reactor().run();
  EXPECT_EQ(second, Status::remote_access);
  EXPECT_EQ(world.qp->state(), QueuePair::State::error);
}

TEST(QueuePairErrors, ErrorsReturnTheirCompletionEntries) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 8}, .completion_queue_depth = 8});
  const auto other = world.client.connect(world.storage);
  const auto good = [](QueuePair& qp, RemoteSpan word) -> Task<> {
    for (int i = 0; i < 100; ++i) {
      co_await qp.fetch_add(word, 1);
    }
  };
  const auto failing = [](QueuePair& qp, WorkRequest bad, RemoteSpan word) -> Task<> {
    for (int round = 0; round < 30; ++round) {
      try {
        co_await qp.enqueue(fetch_add(word, 1), fetch_add(word, 1));
        co_await qp.submit(fetch_add(word, 1), bad, fetch_add(word, 1));
      } catch (const FabricError&) {
      }
      try {
        co_await qp.reconnect();
      } catch (const FabricError&) {  // the other task has failed again already
      }
    }
  };
  world.reactor().spawn(good(*other, world.word(5)));
  world.reactor().spawn(failing(*world.qp, refused(world), world.word(6)));
  world.reactor().spawn(failing(*world.qp, refused(world), world.word(6)));
  world.reactor().spawn(good(*other, world.word(5)));
  world.reactor().run();
  EXPECT_EQ(world.value(5), 200U);
  EXPECT_EQ(world.reactor().completion_queue_free(), 8U);
}

// Its place holds the old value of an earlier atomic.
TEST(QueuePairErrors, AFlushedAtomicHasNoResult) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 4}});
  const auto add = [&] { world.run(submit(*world.qp, fetch_add(world.word(0), 1))); };
  for (int i = 0; i < 5; ++i) {
    add();
  }
  const std::uint64_t last = world.qp->posted();
  const std::array chain = {fetch_add(world.word(0), 1), fetch_add(world.word(0), 1)};
  ASSERT_TRUE(world.qp->post(chain));
  ASSERT_TRUE(world.simulation.lose_connection(*world.qp));
  EXPECT_EQ(world.qp->result_of(last), 4U) << "it had completed";
  EXPECT_EQ(world.qp->result_of(last + 1), std::nullopt);
  EXPECT_EQ(world.qp->result_of(last + 2), std::nullopt);
  world.run(world.qp->reconnect());
  add();
  EXPECT_EQ(world.qp->result_of(last + 2), std::nullopt) << "nor when others have completed behind it";
  EXPECT_NE(world.qp->result_of(last + 3), std::nullopt);
}

}  // namespace
}  // namespace sidelatch::fabric
