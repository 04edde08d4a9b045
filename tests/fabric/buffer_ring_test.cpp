// BufferRing: buffers for requests that nobody waits for.
#include "two_nodes.h"

#include <sidelatch/fabric/buffer_ring.h>

#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void fill(LocalSpan span, std::uint64_t value) { std::memcpy(span.bytes().data(), &value, 8); }

// Sets word i of the table to i + 1 and never waits for a completion.
Task<> write_words(QueuePair& qp, BufferRing& ring, RemoteSpan table, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    RingBuffer buffer = co_await ring.acquire();
    fill(buffer.span(), i + 1);
    co_await qp.enqueue(write(buffer.span(), table.subspan(i * 8, 8)));
  }
}

TEST(BufferRings, HundredsOfAsynchronousWritesOverTwoBuffersAllSendTheirOwnBytes) {
  TwoNodes world;
  BufferRing ring(*world.qp, 2, 8);
  world.run(write_words(*world.qp, ring, world.table.remote(), 500));
  world.settle();
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(world.value(i), i + 1);
  }
}

TEST(BufferRings, WithoutOneABufferThatIsRefilledAfterThePostSendsTheWrongBytes) {
  // The broken specimen: the fault that the ring prevents.
  TwoNodes world;
  world.run([](QueuePair& qp, LocalSpan shared, RemoteSpan table) -> Task<> {
    for (std::uint64_t i = 0; i < 20; ++i) {
      fill(shared, i + 1);
      co_await qp.enqueue(write(shared, table.subspan(i * 8, 8)));
    }
  }(*world.qp, world.buffer.local(0, 8), world.table.remote()));
  world.settle();
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(world.value(i), 20U);  // all were posted before the NIC fetched the first payload
  }
}

TEST(BufferRings, SeveralTasksShareOne) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 4}});
  BufferRing ring(*world.qp, 3, 8);
  for (std::uint64_t task = 0; task < 6; ++task) {
    world.reactor().spawn(write_words(*world.qp, ring, world.table.remote(task * 800, 800), 100));
  }
  world.reactor().run();
  world.settle();
  for (std::uint64_t i = 0; i < 600; ++i) {
    ASSERT_EQ(world.value(i), i % 100 + 1);
  }
}

TEST(BufferRings, AnExhaustedRingWaitsUntilABufferIsDropped) {
  TwoNodes world;
  BufferRing ring(*world.qp, 1, 8);
  std::vector<int> order;
  RingBuffer held = world.run(ring.acquire());
  EXPECT_EQ(ring.available(), 0U);
  world.reactor().spawn([](BufferRing& r, std::vector<int>* out) -> Task<> {
    const RingBuffer mine = co_await r.acquire();
    out->push_back(1);
  }(ring, &order));
  world.settle();
  EXPECT_THAT(order, ElementsAre());
  held.drop();
  world.reactor().run();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(BufferRings, ADroppedBufferIsNotReusedBeforeItsRequestHasCompleted) {
  TwoNodes world;
  BufferRing ring(*world.qp, 1, 8);
  world.run([](QueuePair& qp, BufferRing& r, RemoteSpan word) -> Task<> {
    {
      RingBuffer first = co_await r.acquire();
      co_await qp.enqueue(write(first.span(), word));
    }
    EXPECT_EQ(r.available(), 0U);
    EXPECT_EQ(qp.completed(), 0U);
    const RingBuffer second = co_await r.acquire();
    EXPECT_GE(qp.completed(), 1U);
  }(*world.qp, ring, world.word(0)));
}

TEST(BufferRings, ABufferThatWasNeverPostedIsFreeAgainAtOnce) {
  TwoNodes world;
  BufferRing ring(*world.qp, 2, 8);
  {
    const RingBuffer a = world.run(ring.acquire());
    const RingBuffer b = world.run(ring.acquire());
    EXPECT_NE(a.span().data, b.span().data);
    EXPECT_EQ(ring.available(), 0U);
  }
  EXPECT_EQ(ring.available(), 2U);
  const Time now = world.reactor().now();
  const RingBuffer again = world.run(ring.acquire());
  EXPECT_EQ(world.reactor().now(), now);
}

TEST(BufferRings, TheBufferThatHasBeenFreeTheLongestComesFirst) {
  TwoNodes world;
  BufferRing ring(*world.qp, 2, 8);
  world.run([](QueuePair& qp, BufferRing& r, RemoteSpan word) -> Task<> {
    RingBuffer a = co_await r.acquire();
    RingBuffer b = co_await r.acquire();
    const std::byte* const second = b.span().data;
    co_await qp.enqueue(write(b.span(), word));
    b.drop();
    co_await qp.enqueue(write(a.span(), word));
    a.drop();
    co_await qp.drain();
    const RingBuffer next = co_await r.acquire();
    EXPECT_EQ(next.span().data, second);
  }(*world.qp, ring, world.word(0)));
}

TEST(BufferRings, BuffersAreLineAlignedAndAsLongAsAsked) {
  TwoNodes world;
  BufferRing ring(*world.qp, 3, 65);
  EXPECT_EQ(ring.count(), 3U);
  EXPECT_EQ(ring.buffer_bytes(), 65U);
  std::vector<RingBuffer> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(world.run(ring.acquire()));
    EXPECT_EQ(all.back().span().length, 65U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.back().span().data) % 64, 0U);
  }
  EXPECT_EQ(all[1].span().data - all[0].span().data, 128);
}

TEST(BufferRings, OfNoBuffersOrNoBytesOrTooManyBytesAreRefused) {
  TwoNodes world;
  EXPECT_THAT([&] { BufferRing(*world.qp, 0, 8); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("0 buffers"), HasSubstr("at least 1"))));
  EXPECT_THAT([&] { BufferRing(*world.qp, 8, 0); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("0 bytes"), HasSubstr("at least 1"))));
  // Twice 2^63 + 64 bytes are 128 modulo 2^64.
  EXPECT_THAT([&] { BufferRing(*world.qp, 2, (1ULL << 63) + 64); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("9223372036854775872 bytes")));
  EXPECT_THROW(BufferRing(*world.qp, 1, std::numeric_limits<std::uint64_t>::max()), std::invalid_argument);
}

TEST(RingBuffers, MoveAndDropOnce) {
  TwoNodes world;
  BufferRing ring(*world.qp, 2, 8);
  RingBuffer a = world.run(ring.acquire());
  RingBuffer b = std::move(a);
  EXPECT_FALSE(a.valid());  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_TRUE(b.valid());
  EXPECT_EQ(ring.available(), 1U);
  b = world.run(ring.acquire());  // the first one is given back
  EXPECT_EQ(ring.available(), 1U);
  b.drop();
  b.drop();
  EXPECT_EQ(ring.available(), 2U);
}

TEST(BufferRings, AnAcquirerIsToldWhenTheQueuePairFails) {
  TwoNodes world;
  BufferRing ring(*world.qp, 1, 8);
  RemoteSpan bad = world.word(0);
  bad.rkey.value ^= 1;
  world.run([](QueuePair& qp, BufferRing& r, RemoteSpan to) -> Task<> {
    RingBuffer buffer = co_await r.acquire();
    co_await qp.enqueue(write(buffer.span(), to));
  }(*world.qp, ring, bad));
  EXPECT_EQ(world.error_of(ring.acquire()).status(), Status::flushed);
}

Task<> take(BufferRing& ring, bool* got) {
  const RingBuffer mine = co_await ring.acquire();
  *got = true;
}

TEST(BufferRings, ABufferThatIsDroppedGoesToTheNextAcquirerIfTheFirstHasGone) {
  TwoNodes world;
  BufferRing ring(*world.qp, 1, 8);
  bool got_first = false;
  bool got_second = false;
  RingBuffer held = world.run(ring.acquire());
  Task<> first = take(ring, &got_first);
  start(first);
  Task<> second = take(ring, &got_second);
  start(second);
  held.drop();       // wakes the first ...
  first = Task<>{};  // ... which is destroyed before it runs
  world.settle();
  EXPECT_FALSE(got_first);
  EXPECT_TRUE(got_second);
}

TEST(BufferRings, EveryAcquirerIsToldOrServedWhenTheQueuePairFailsUnderTheFirst) {
  TwoNodes world;
  BufferRing ring(*world.qp, 1, 8);
  RemoteSpan bad = world.word(0);
  bad.rkey.value ^= 1;
  std::optional<RingBuffer> held(world.run(ring.acquire()));
  const auto take_noted = [](BufferRing& r, int* ended) -> Task<> {
    try {
      const RingBuffer mine = co_await r.acquire();
    } catch (const FabricError&) {
    }
    ++*ended;
  };
  int ended = 0;
  world.reactor().spawn(take_noted(ring, &ended));
  world.reactor().spawn(take_noted(ring, &ended));
  world.run([](QueuePair& qp, std::optional<RingBuffer>* mine, RemoteSpan to) -> Task<> {
    co_await qp.enqueue(write((*mine)->span(), to));
    mine->reset();
  }(*world.qp, &held, bad));
  world.reactor().run();
  EXPECT_EQ(ended, 2);
}

TEST(BufferRings, MayGoWhileItsWritesAreInFlight) {
  TwoNodes world;
  world.run([](QueuePair& qp, RemoteSpan word) -> Task<> {
    BufferRing ring(qp, 1, 8);
    RingBuffer buffer = co_await ring.acquire();
    fill(buffer.span(), 6);
    co_await qp.enqueue(write(buffer.span(), word));
  }(*world.qp, world.word(0)));
  world.settle();
  EXPECT_EQ(world.value(0), 6U);
}

}  // namespace
}  // namespace sidelatch::fabric
