// Reactor: running, spawning, sleeping, and the error when nothing can happen any more.
#include "two_nodes.h"

#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Task<> note_after(Reactor& reactor, double ns, int number, std::vector<int>* order) {
  co_await reactor.sleep(from_ns(ns));
  order->push_back(number);
}

// Waits in a list that nobody serves.
struct Forever : Waiter {
  explicit Forever(WaitList& waiters) : list(&waiters) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle = awaiter;
    list->push_back(*this);
  }
  void await_resume() const noexcept {}
  WaitList* list;
};

Task<> wait_in(WaitList& list) { co_await Forever(list); }

TEST(Reactors, SleepersWakeByTheirTimesAndInTurnWhereTheTimesAreEqual) {
  TwoNodes world;
  std::vector<int> order;
  Reactor& reactor = world.reactor();
  reactor.spawn(note_after(reactor, 30, 3, &order));
  reactor.spawn(note_after(reactor, 10, 1, &order));
  reactor.spawn(note_after(reactor, 20, 20, &order));
  reactor.spawn(note_after(reactor, 20, 21, &order));
  EXPECT_EQ(reactor.spawned(), 4U);
  reactor.run();
  EXPECT_THAT(order, ElementsAre(1, 20, 21, 3));
  EXPECT_EQ(reactor.now(), from_ns(30));
  EXPECT_EQ(reactor.spawned(), 0U);
}

TEST(Reactors, ATaskThatWasMovedFromIsRefused) {
  TwoNodes world;
  std::vector<int> order;
  Task<> task = note_after(world.reactor(), 10, 1, &order);
  world.reactor().spawn(std::move(task));
  EXPECT_THAT([&] { world.reactor().spawn(std::move(task)); },  // NOLINT(bugprone-use-after-move): the mistake
              ThrowsMessage<std::invalid_argument>(HasSubstr("the task is empty")));
  world.reactor().run();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(Reactors, ASleepOfZeroOrLessDoesNotWait) {
  TwoNodes world;
  std::vector<int> order;
  Reactor& reactor = world.reactor();
  reactor.spawn(note_after(reactor, 0, 0, &order));
  EXPECT_THAT(order, ElementsAre(0));  // spawn() ran it to its end
  reactor.spawn(note_after(reactor, -5, 1, &order));
  EXPECT_THAT(order, ElementsAre(0, 1));
  EXPECT_EQ(reactor.now(), Time::zero());
}

TEST(Reactors, RunReturnsAsSoonAsItsTaskHasEndedAndOthersGoOnLater) {
  TwoNodes world;
  std::vector<int> order;
  Reactor& reactor = world.reactor();
  reactor.spawn(note_after(reactor, 100, 100, &order));
  reactor.run(note_after(reactor, 50, 50, &order));
  EXPECT_THAT(order, ElementsAre(50));
  reactor.run();
  EXPECT_THAT(order, ElementsAre(50, 100));
}

TEST(Reactors, RunMayBeCalledInsideATask) {
  TwoNodes world;
  std::vector<int> order;
  Reactor& reactor = world.reactor();
  const auto outer = [](Reactor& r, std::vector<int>* o) -> Task<> {
    r.run(note_after(r, 10, 1, o));
    co_await r.sleep(from_ns(10));
    o->push_back(2);
  };
  reactor.run(outer(reactor, &order));
  EXPECT_THAT(order, ElementsAre(1, 2));
  EXPECT_EQ(reactor.now(), from_ns(20));
}

TEST(Reactors, AnExceptionOfASpawnedTaskLeavesTheRunThatIsInProgress) {
  TwoNodes world;
  std::vector<int> order;
  Reactor& reactor = world.reactor();
  const auto fails = [](Reactor& r) -> Task<> {
    co_await r.sleep(from_ns(10));
    throw std::runtime_error("worker failed");
  };
  reactor.spawn(fails(reactor));
  reactor.spawn(note_after(reactor, 20, 1, &order));
  EXPECT_THAT([&] { reactor.run(); }, ThrowsMessage<std::runtime_error>("worker failed"));
  EXPECT_EQ(reactor.spawned(), 1U);
  reactor.run();  // the other one is unharmed
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(Reactors, OfSeveralExceptionsOfOneMomentTheFirstIsThrown) {
  TwoNodes world;
  Reactor& reactor = world.reactor();
  const auto fails = [](QueuePair& qp, const char* message) -> Task<> {
    co_await qp.drain();
    throw std::runtime_error(message);
  };
  const WorkRequest add = fetch_add(world.word(0), 1).with_signal();
  ASSERT_TRUE(world.qp->post({&add, 1}));
  reactor.spawn(fails(*world.qp, "first"));
  reactor.spawn(fails(*world.qp, "second"));
  EXPECT_THAT([&] { reactor.run(); }, ThrowsMessage<std::runtime_error>("first"));
  EXPECT_EQ(reactor.spawned(), 0U);
  reactor.run();
}

TEST(Reactors, AnExceptionOfATaskThatFailedInSpawnIsThrownByTheNextRun) {
  TwoNodes world;
  Reactor& reactor = world.reactor();
  reactor.spawn([]() -> Task<> {
    throw std::runtime_error("at once");
    co_return;
  }());
  EXPECT_EQ(reactor.spawned(), 0U);
  EXPECT_THAT([&] { reactor.run(); }, ThrowsMessage<std::runtime_error>("at once"));
  reactor.run();  // thrown once
}

TEST(Reactors, ATaskThatAnotherTasksExceptionInterruptsIsDestroyedWithItsRun) {
  TwoNodes world;
  Reactor& reactor = world.reactor();
  const auto token = std::make_shared<int>(0);
  const auto fails = [](Reactor& r) -> Task<> {
    co_await r.sleep(from_ns(10));
    throw std::runtime_error("other");
  };
  const auto sleeps = [](Reactor& r, std::shared_ptr<int> /*held*/) -> Task<int> {
    co_await r.sleep(from_ns(1000));
    co_return 1;
  };
  reactor.spawn(fails(reactor));
  EXPECT_THROW(reactor.run(sleeps(reactor, token)), std::runtime_error);
  EXPECT_EQ(token.use_count(), 1);
  world.settle();
}

TEST(Reactors, ATaskThatWaitsForeverIsReportedAsStuck) {
  TwoNodes world;
  WaitList nobody;
  const FabricError error = world.error_of(wait_in(nobody));
  EXPECT_EQ(error.status(), Status::stuck);
  EXPECT_THAT(error.what(), HasSubstr("1 task(s)"));
  EXPECT_TRUE(nobody.empty());
}

TEST(Reactors, SpawnedTasksThatWaitForeverAreReportedAsStuckWithTheirNumber) {
  TwoNodes world;
  WaitList nobody;
  world.reactor().spawn(wait_in(nobody));
  world.reactor().spawn(wait_in(nobody));
  EXPECT_THAT([&] { world.reactor().run(); },
              ThrowsMessage<FabricError>(AllOf(HasSubstr("stuck"), HasSubstr("2 task(s)"))));
  EXPECT_EQ(world.reactor().spawned(), 2U);
}

TEST(Reactors, TasksThatHaveNotEndedAreDestroyedWithTheReactor) {
  const auto token = std::make_shared<int>(0);
  {
    TwoNodes world;
    const auto waits = [](QueuePair& qp, RemoteSpan word, std::shared_ptr<int> /*held*/) -> Task<> {
      co_await qp.fetch_add(word, 1);
    };
    const auto sleeps = [](Reactor& reactor, std::shared_ptr<int> /*held*/) -> Task<> {
      co_await reactor.sleep(from_ns(100));
    };
    world.reactor().spawn(waits(*world.qp, world.word(0), token));
    world.reactor().spawn(sleeps(world.reactor(), token));
    EXPECT_GE(token.use_count(), 3);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Reactors, RunForGoesOnForThatTimeAndNoLonger) {
  TwoNodes world;
  std::vector<int> order;
  Reactor& reactor = world.reactor();
  reactor.spawn(note_after(reactor, 10, 10, &order));
  reactor.spawn(note_after(reactor, 20, 20, &order));
  reactor.spawn(note_after(reactor, 21, 21, &order));
  reactor.run_for(from_ns(20));
  EXPECT_THAT(order, ElementsAre(10, 20));
  EXPECT_EQ(reactor.now(), from_ns(20));
  reactor.run_for(from_ns(5));
  EXPECT_THAT(order, ElementsAre(10, 20, 21));
}

TEST(Reactors, ASleeperThatIsDestroyedIsNotWoken) {
  TwoNodes world;
  std::vector<int> order;
  {
    Task<> task = note_after(world.reactor(), 10, 1, &order);
    start(task);
  }
  Task<> other = note_after(world.reactor(), 10, 2, &order);  // may take the timer that was freed
  start(other);
  world.settle();
  EXPECT_THAT(order, ElementsAre(2));
}

TEST(Reactors, ATaskInTheReadyListMayBeDestroyedByTheOneBeforeIt) {
  TwoNodes world;
  std::vector<int> order;
  Reactor& reactor = world.reactor();
  // Both wait for the same completion, so both become ready at the same moment.
  const auto waits = [](QueuePair& qp, std::vector<int>* o) -> Task<> {
    co_await qp.drain();
    o->push_back(2);
  };
  const auto kills = [](QueuePair& qp, Task<>* victim, std::vector<int>* o) -> Task<> {
    co_await qp.drain();
    *victim = Task<>{};
    o->push_back(1);
  };
  const WorkRequest add = fetch_add(world.word(0), 1).with_signal();
  ASSERT_TRUE(world.qp->post({&add, 1}));
  Task<> victim;
  reactor.spawn(kills(*world.qp, &victim, &order));
  victim = waits(*world.qp, &order);
  start(victim);
  reactor.run();
  world.settle();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(Reactors, ACompletionQueueOfLessThanTwoEntriesIsRefused) {
  EXPECT_THAT([] { sim::Simulation({.profile = {}, .completion_queue_depth = 1}); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("is 1"), HasSubstr("at least 2"))));
}

struct Outcome {
  Time end;
  std::uint64_t events;
  std::vector<std::uint64_t> olds;
  bool operator==(const Outcome&) const = default;
};

Outcome contend(std::uint64_t seed) {
  sim::Profile profile;
  profile.link.jitter_ns = 100;
  profile.pcie.reorder_probability = 0.2;
  TwoNodes world({.seed = seed, .profile = profile});
  const auto second = world.client.connect(world.storage);
  std::vector<std::uint64_t> olds;
  const auto worker = [](QueuePair& qp, LocalSpan into, RemoteSpan table, std::vector<std::uint64_t>* out) -> Task<> {
    for (int i = 0; i < 50; ++i) {
      const auto old = co_await qp.submit(fetch_add(table.subspan(0, 8), 1), fabric::read(into, table));
      out->push_back(old[0]);
    }
  };
  world.reactor().spawn(worker(*world.qp, world.buffer.local(0, 1000), world.table.remote(), &olds));
  world.reactor().spawn(worker(*second, world.buffer.local(1000, 1000), world.table.remote(), &olds));
  world.reactor().run();
  return {world.reactor().now(), world.simulation.events(), olds};
}

TEST(Reactors, EqualSeedsGiveEqualRunsAndOthersDiffer) {
  EXPECT_EQ(contend(7), contend(7));
  EXPECT_NE(contend(7).end, contend(8).end);
}

Task<int> await_empty() {
  const Task<int> none;
  const int value = co_await none;
  co_return value;
}

TEST(Reactor, AnEmptyTaskIsRefusedByName) {
  TwoNodes world;
  const auto refusal = [&](auto&& start) -> std::string {
    try {
      start();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "none";
  };
  constexpr const char* kEmpty = "the task is empty: none was made, or it was moved from";
  EXPECT_EQ(refusal([&] { world.reactor().run(Task<>()); }), std::string("run: ") + kEmpty);
  EXPECT_EQ(refusal([&] { static_cast<void>(world.reactor().run(Task<int>())); }), std::string("run: ") + kEmpty);
  EXPECT_EQ(refusal([&] { world.reactor().spawn(Task<>()); }), std::string("spawn: ") + kEmpty);
  EXPECT_EQ(refusal([&] { static_cast<void>(world.reactor().run(await_empty())); }),
            std::string("co_await: ") + kEmpty);
}

}  // namespace
}  // namespace sidelatch::fabric
