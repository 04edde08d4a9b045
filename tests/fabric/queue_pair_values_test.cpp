// Effects and results of requests without errors.
#include "two_nodes.h"

#include <array>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::ElementsAre;

using Words = std::array<std::uint64_t, 3>;

TEST(QueuePairValues, AReadBringsTheBytesOfTheTarget) {
  TwoNodes world;
  world.set(2, 0x1122334455667788);
  world.run([](QueuePair& qp, LocalSpan into, RemoteSpan from) -> Task<> {
    co_await qp.read(into, from);
  }(*world.qp, world.buffer.local(8, 16), world.table.remote(16, 16)));
  EXPECT_EQ(TwoNodes::load(world.buffer, 1), 0x1122334455667788U);
  EXPECT_EQ(TwoNodes::load(world.buffer, 2), 0U);
}

TEST(QueuePairValues, AWriteChangesItsBytesAndNoOthers) {
  TwoNodes world;
  for (std::size_t i = 0; i < 400; ++i) {
    world.buffer.bytes()[i] = static_cast<std::byte>(i % 251 + 1);
  }
  world.run([](QueuePair& qp, LocalSpan from, RemoteSpan to) -> Task<> {
    co_await qp.write(from, to);
  }(*world.qp, world.buffer.local(0, 400), world.table.remote(101, 400)));
  world.settle();
  for (std::size_t i = 0; i < 700; ++i) {
    const auto expected = i >= 101 && i < 501 ? static_cast<std::byte>((i - 101) % 251 + 1) : std::byte{0};
    ASSERT_EQ(world.table.bytes()[i], expected) << i;
  }
}

TEST(QueuePairValues, ACompareSwapReturnsTheOldValueAndSwapsOnlyIfItWasExpected) {
  TwoNodes world;
  world.set(1, 10);
  const Words olds = world.run([](QueuePair& qp, RemoteSpan word) -> Task<Words> {
    const std::uint64_t hit = co_await qp.compare_swap(word, 10, 11);
    const std::uint64_t miss = co_await qp.compare_swap(word, 10, 12);
    const std::uint64_t again = co_await qp.compare_swap(word, 11, 13);
    co_return Words{hit, miss, again};
  }(*world.qp, world.word(1)));
  EXPECT_THAT(olds, ElementsAre(10, 11, 11));
  EXPECT_EQ(world.value(1), 13U);
}

TEST(QueuePairValues, AFetchAddReturnsTheOldValueAndWrapsAround) {
  TwoNodes world;
  const Words olds = world.run([](QueuePair& qp, RemoteSpan word) -> Task<Words> {
    const std::uint64_t first = co_await qp.fetch_add(word, 5);
    const std::uint64_t second = co_await qp.fetch_add(word, ~std::uint64_t{0});  // minus 1
    const std::uint64_t third = co_await qp.fetch_add(word, ~std::uint64_t{0} - 4);
    co_return Words{first, second, third};
  }(*world.qp, world.word(0)));
  EXPECT_THAT(olds, ElementsAre(0, 5, 4));
  EXPECT_EQ(world.value(0), ~std::uint64_t{0});  // 4 - 5
}

TEST(QueuePairValues, AChainReturnsOldValuesByPosition) {
  TwoNodes world;
  world.set(0, 100);
  world.set(1, 200);
  const Words olds = world.run([](QueuePair& qp, RemoteSpan table, LocalSpan into) -> Task<Words> {
    const auto result = co_await qp.submit(fetch_add(table.subspan(8, 8), 1), fabric::read(into, table),
                                           compare_swap(table.subspan(0, 8), 100, 1));
    co_return result;
  }(*world.qp, world.table.remote(), world.buffer.local(0, 64)));
  EXPECT_THAT(olds, ElementsAre(200, 0, 100));
  EXPECT_EQ(world.value(0), 1U);
  EXPECT_EQ(world.value(1), 201U);
}

TEST(QueuePairValues, AReadBehindAnAtomicSeesTheAtomicDone) {
  TwoNodes world;
  world.run([](QueuePair& qp, RemoteSpan word, LocalSpan into) -> Task<> {
    co_await qp.submit(fetch_add(word, 9), fabric::read(into, word));
  }(*world.qp, world.word(3), world.buffer.local(0, 8)));
  EXPECT_EQ(TwoNodes::load(world.buffer, 0), 9U);
}

TEST(QueuePairValues, AChainOfRunTimeLengthFillsTheSpanOfOldValues) {
  TwoNodes world;
  std::vector<WorkRequest> chain;
  for (std::uint64_t i = 0; i < 40; ++i) {
    chain.push_back(fetch_add(world.word(0), i));
  }
  std::vector<std::uint64_t> olds(chain.size());
  const auto submit = [](QueuePair& qp, std::span<const WorkRequest> requests, std::span<std::uint64_t> out) -> Task<> {
    co_await qp.submit(requests, out);
  };
  world.run(submit(*world.qp, chain, olds));
  for (std::uint64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(olds[i], i * (i - 1) / 2 * (i > 0 ? 1 : 0)) << i;  // 0 + 1 + ... + (i - 1)
  }
  world.run(submit(*world.qp, chain, {}));
  EXPECT_EQ(world.value(0), 2U * 780);
}

TEST(QueuePairValues, AnAtomicDeliversToItsOwnBufferWhereItHasOne) {
  TwoNodes world;
  world.set(0, 77);
  WorkRequest add = fetch_add(world.word(0), 1);
  add.local = world.buffer.local(24, 8);
  const auto olds = world.run([](QueuePair& qp, WorkRequest request) -> Task<std::array<std::uint64_t, 1>> {
    const auto result = co_await qp.submit(request);
    co_return result;
  }(*world.qp, add));
  EXPECT_EQ(olds[0], 77U);
  EXPECT_EQ(TwoNodes::load(world.buffer, 3), 77U);
}

TEST(QueuePairValues, ALongChainKeepsTheOldValuesThatASignalInItsMiddleDelivered) {
  // Depth 8, so one in four is signalled. The chain's first half completes on its own, and the second task reuses its
  // queue entries before the chain's last request completes.
  TwoNodes world({.queue_pair = {.send_queue_depth = 8, .max_rd_atomic = 1}});
  std::vector<std::uint64_t> olds(8);
  std::vector<WorkRequest> chain;
  for (std::uint64_t i = 0; i < 8; ++i) {
    world.set(i, 1000 + i);
    chain.push_back(fetch_add(world.word(i), 1));
  }
  const auto submit = [](QueuePair& qp, std::span<const WorkRequest> requests, std::span<std::uint64_t> out) -> Task<> {
    co_await qp.submit(requests, out);
  };
  const auto adds = [](QueuePair& qp, RemoteSpan word) -> Task<> {
    for (int i = 0; i < 8; ++i) {
      co_await qp.fetch_add(word, 1);
    }
  };
  world.set(100, 5555);
  world.reactor().spawn(submit(*world.qp, chain, olds));
  world.reactor().spawn(adds(*world.qp, world.word(100)));
  world.reactor().run();
  EXPECT_THAT(olds, ElementsAre(1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007));
}

TEST(QueuePairValues, ATaskThatWaitsForTheMiddleOfAChainTakesNoOldValueAway) {
  TwoNodes world({.queue_pair = {.max_rd_atomic = 1}});
  world.set(0, 11);
  world.set(1, 22);
  world.set(2, 33);
  Words olds{};
  bool reached = false;
  // The first request is signalled, so it is reported before the second one, which the other task waits for.
  world.reactor().spawn([](QueuePair& qp, RemoteSpan t, Words* out) -> Task<> {
    *out = co_await qp.submit(fetch_add(t.subspan(0, 8), 1).with_signal(), fetch_add(t.subspan(8, 8), 1),
                              fetch_add(t.subspan(16, 8), 1));
  }(*world.qp, world.table.remote(), &olds));
  world.reactor().spawn([](QueuePair& qp, bool* done) -> Task<> {
    co_await qp.reach(2);
    *done = qp.completed() >= 2;
  }(*world.qp, &reached));
  world.reactor().run();
  EXPECT_THAT(olds, ElementsAre(11, 22, 33));
  EXPECT_TRUE(reached);
}

TEST(QueuePairValues, AnInlinedPayloadIsTheOneAtThePostAndAnotherIsFetchedLater) {
  TwoNodes world;
  world.run([](QueuePair& qp, MemoryRegion& buffer, RemoteSpan to) -> Task<> {
    TwoNodes::store(buffer, 0, 1);
    co_await qp.enqueue(fabric::write(buffer.local(0, 8), to.subspan(0, 8)).with_inline());
    co_await qp.enqueue(fabric::write(buffer.local(0, 8), to.subspan(8, 8)));
    TwoNodes::store(buffer, 0, 2);  // before the NIC fetches either
    co_await qp.drain();
  }(*world.qp, world.buffer, world.table.remote()));
  world.settle();
  EXPECT_EQ(world.value(0), 1U);
  EXPECT_EQ(world.value(1), 2U);
}

TEST(QueuePairValues, AnInlinedPayloadNeedsNoRegisteredMemory) {
  TwoNodes world;
  std::uint64_t word = 42;
  const LocalSpan local{reinterpret_cast<std::byte*>(&word), 8, {}};
  world.run([](QueuePair& qp, WorkRequest request) -> Task<> { co_await qp.submit(request); }(
                                                       *world.qp, fabric::write(local, world.word(0)).with_inline()));
  world.settle();
  EXPECT_EQ(world.value(0), 42U);
}

TEST(QueuePairValues, EmptyReadsAndWritesCompleteAndTouchNothing) {
  TwoNodes world;
  world.run([](QueuePair& qp) -> Task<> {
    co_await qp.read({}, {});
    co_await qp.write({}, {});
  }(*world.qp));
  EXPECT_EQ(world.qp->completed(), 2U);
}

TEST(QueuePairValues, SeveralChainsOfOneQueuePairAreOutstandingAtATime) {
  TwoNodes world;
  const auto add = [](QueuePair& qp, RemoteSpan word) -> Task<> { co_await qp.fetch_add(word, 1); };
  world.run(add(*world.qp, world.word(0)));
  const Time one = world.reactor().now();
  for (std::uint64_t i = 0; i < 10; ++i) {
    world.reactor().spawn(add(*world.qp, world.word(i)));
  }
  EXPECT_EQ(world.qp->outstanding(), 10U);
  world.reactor().run();
  EXPECT_LT(world.reactor().now() - one, one * 2);  // ten one after the other would take ten times as long
  EXPECT_EQ(world.value(0), 2U);
  EXPECT_EQ(world.value(9), 1U);
}

TEST(QueuePairValues, QueuePairsOfOneNodeWorkSideBySide) {
  TwoNodes world;
  const auto second = world.client.connect(world.storage);
  const auto add = [](QueuePair& qp, RemoteSpan word, std::uint64_t n) -> Task<> {
    for (int i = 0; i < 100; ++i) {
      co_await qp.fetch_add(word, n);
    }
  };
  world.reactor().spawn(add(*world.qp, world.word(0), 1));
  world.reactor().spawn(add(*second, world.word(0), 1000));
  world.reactor().run();
  EXPECT_EQ(world.value(0), 100'100U);
}

TEST(QueuePairValues, ANodeMayBeConnectedToItself) {
  TwoNodes world;
  const auto loop = world.storage.connect(world.storage);
  const MemoryRegion own = world.storage.allocate(64, Access::local_write);
  world.set(0, 8);
  const std::uint64_t old = world.run([](QueuePair& qp, RemoteSpan word, LocalSpan into) -> Task<std::uint64_t> {
    const auto olds = co_await qp.submit(fetch_add(word, 1), fabric::read(into, word));
    co_return olds[0];
  }(*loop, world.word(0), own.local(0, 8)));
  EXPECT_EQ(old, 8U);
  EXPECT_EQ(TwoNodes::load(own, 0), 9U);
}

TEST(QueuePairValues, ARegionMaySendToItself) {
  TwoNodes world;
  const auto loop = world.storage.connect(world.storage);
  world.set(0, 31);
  world.run([](QueuePair& qp, LocalSpan from, RemoteSpan to) -> Task<> { co_await qp.write(from, to); }(
                                                                 *loop, world.table.local(0, 8), world.word(1)));
  world.settle();
  EXPECT_EQ(world.value(1), 31U);
}

TEST(QueuePairValues, CompletionsComeInPostingOrder) {
  TwoNodes world;
  std::vector<int> order;
  const auto noted = [](QueuePair& qp, WorkRequest request, int number, std::vector<int>* out) -> Task<> {
    co_await qp.submit(request);
    out->push_back(number);
  };
  // A READ of 60000 bytes takes longer than the following requests.
  world.reactor().spawn(noted(*world.qp, fabric::read(world.buffer.local(0, 60000), world.table.remote()), 1, &order));
  world.reactor().spawn(noted(*world.qp, fabric::read(world.buffer.local(60000, 8), world.table.remote()), 2, &order));
  world.reactor().spawn(noted(*world.qp, fetch_add(world.word(0), 1), 3, &order));
  world.reactor().run();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace sidelatch::fabric
