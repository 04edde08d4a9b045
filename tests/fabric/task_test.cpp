// Task<T>: values, exceptions, frames, and stack depth.
#include "two_nodes.h"

#include "common/sanitizers.h"

#include <sidelatch/fabric/task.h>

#include <stdexcept>
#include <string>

namespace sidelatch::fabric {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Task<int> value(int v) { co_return v; }
Task<> nothing() { co_return; }
Task<std::unique_ptr<int>> boxed(int v) { co_return std::make_unique<int>(v); }

Task<int> fails(const char* message) {
  throw std::runtime_error(message);
  co_return 0;
}

Task<int> fails_after(Reactor& reactor, const char* message) {
  co_await reactor.sleep(from_ns(10));
  throw std::runtime_error(message);
}

TEST(Tasks, GiveTheirValueToTheirAwaiter) {
  TwoNodes world;
  EXPECT_EQ(world.run([]() -> Task<int> {
    const int a = co_await value(2);
    const int b = co_await value(3);
    co_return a * 10 + b;
  }()),
            23);
}

TEST(Tasks, MayReturnNothingOrWhatCanOnlyBeMoved) {
  TwoNodes world;
  world.run(nothing());
  const std::unique_ptr<int> box = world.run([]() -> Task<std::unique_ptr<int>> {
    co_await nothing();
    std::unique_ptr<int> inner = co_await boxed(5);
    co_return std::move(inner);
  }());
  EXPECT_EQ(*box, 5);
}

TEST(Tasks, DoNotStartBeforeTheyAreAwaited) {
  TwoNodes world;
  int runs = 0;
  const auto body = [](int* count) -> Task<> {
    ++*count;
    co_return;
  };
  {
    const Task<> never = body(&runs);
    EXPECT_TRUE(never.valid());
    EXPECT_FALSE(never.done());
  }
  EXPECT_EQ(runs, 0);
  world.run(body(&runs));
  EXPECT_EQ(runs, 1);
}

TEST(Tasks, AMovedTaskLeavesAnEmptyOneBehind) {
  TwoNodes world;
  Task<int> first = value(4);
  Task<int> second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is the question
  first = std::move(second);
  EXPECT_EQ(world.run(std::move(first)), 4);
}

TEST(Tasks, AnExceptionPassesThroughEveryLevel) {
  TwoNodes world;
  const auto outer = [](Reactor& reactor, bool suspend) -> Task<int> {
    const auto middle = [](Reactor& r, bool s) -> Task<int> {
      const int v = s ? co_await fails_after(r, "from below") : co_await fails("from below");
      co_return v + 1;
    };
    const int v = co_await middle(reactor, suspend);
    co_return v + 1;
  };
  EXPECT_THAT([&] { world.run(outer(world.reactor(), false)); },
              ThrowsMessage<std::runtime_error>(HasSubstr("from below")));
  EXPECT_THAT([&] { world.run(outer(world.reactor(), true)); },
              ThrowsMessage<std::runtime_error>(HasSubstr("from below")));
}

TEST(Tasks, AnExceptionThatWasCaughtLeavesTheTaskRunning) {
  TwoNodes world;
  EXPECT_EQ(world.run([](Reactor& reactor) -> Task<int> {
    int caught = 0;
    for (int i = 0; i < 3; ++i) {
      try {
        co_await fails_after(reactor, "again");
      } catch (const std::runtime_error&) {
        ++caught;
      }
      co_await reactor.sleep(from_ns(1));
    }
    co_return caught;
  }(world.reactor())),
            3);
}

TEST(Tasks, AMillionTasksThatNeverWaitUseNoStack) {
  TwoNodes world;
  EXPECT_EQ(world.run([]() -> Task<std::int64_t> {
    std::int64_t sum = 0;
    for (int i = 0; i < 1'000'000; ++i) {
      const int one = co_await value(1);
      sum += one;
    }
    co_return sum;
  }()),
            1'000'000);
}

TEST(Tasks, ALongLoopOfTasksThatAllWaitUsesNoStackEither) {
  TwoNodes world;
  EXPECT_EQ(world.run([](Reactor& reactor) -> Task<int> {
    const auto step = [](Reactor& r) -> Task<int> {
      co_await r.sleep(Duration{1});
      co_return 1;
    };
    int sum = 0;
    for (int i = 0; i < 100'000; ++i) {
      const int one = co_await step(reactor);
      const int none = co_await value(0);
      sum += one + none;
    }
    co_return sum;
  }(world.reactor())),
            100'000);
}

TEST(Tasks, TakeTheirFramesFromThePoolAndAllocateNothingOnceWarm) {
  TwoNodes world;
  const auto operations = [](QueuePair& qp, RemoteSpan word, int count) -> Task<> {
    const auto one = [](QueuePair& q, RemoteSpan w) -> Task<std::uint64_t> {
      const std::uint64_t old = co_await q.fetch_add(w, 1);
      co_return old;
    };
    for (int i = 0; i < count; ++i) {
      co_await one(qp, word);
    }
  };
  world.run(operations(*world.qp, world.word(0), 10));
  const FramePoolStats before = FramePool::stats();
  world.run(operations(*world.qp, world.word(0), 1000));
  const FramePoolStats after = FramePool::stats();
  EXPECT_EQ(after.taken - before.taken, 1002U);  // one for each operation, the loop, and the one that run() adds
#if !SIDELATCH_HAS_ASAN
  EXPECT_EQ(after.allocated, before.allocated);
#endif
  EXPECT_EQ(world.value(0), 1010U);
}

TEST(Tasks, LocalsOfADestroyedTaskAreDestroyedWithThoseOfItsCallees) {
  TwoNodes world;
  const auto token = std::make_shared<int>(0);
  const auto outer = [](Reactor& reactor, std::shared_ptr<int> mine) -> Task<> {
    const auto inner = [](Reactor& r, std::shared_ptr<int> /*its*/) -> Task<> { co_await r.sleep(from_ns(100)); };
    co_await inner(reactor, mine);
  };
  {
    Task<> task = outer(world.reactor(), token);
    start(task);
    EXPECT_EQ(token.use_count(), 3);  // here, and a parameter in each of the two frames
  }
  EXPECT_EQ(token.use_count(), 1);
  world.settle();
}

}  // namespace
}  // namespace sidelatch::fabric
