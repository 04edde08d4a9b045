#include <sidelatch/sync/ticket_latch.h>

#include "store.h"
#include "tests/message_of.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/sync/latch_word.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::sync {
namespace {

using namespace fabric;

constexpr std::uint64_t word_of(std::uint32_t next, std::uint32_t served) { return std::uint64_t{next} << 32 | served; }

Task<void> queue_up(const Scheme& scheme, Session& session, Object object, int who, std::vector<int>* order) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  order->push_back(who);
  fill(guard.payload(), first_word(guard.payload()) + 1);
  co_await session.qp().reactor().sleep(from_ns(20'000));
  co_await guard.commit();
}

TEST(TicketLatch, ServesThoseWhoWaitInTheOrderOfAsking) {
  for (const LatchLevel level : {LatchLevel::basic, LatchLevel::speculative, LatchLevel::combined, LatchLevel::async}) {
    const TicketLatch scheme(level);
    Store store(scheme);
    std::vector<int> order;
    for (int who = 0; who < 5; ++who) {
      store.world.reactor().spawn(queue_up(scheme, store.add_session(), store.objects.at(0), who, &order));
      store.world.reactor().run_for(from_ns(5'000));
    }
    store.world.reactor().run();
    EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3, 4));
    store.settle();
    EXPECT_EQ(store.latch_word(0), word_of(5, 5));
    EXPECT_TRUE(scheme.is_free(store.latch_word(0)));
    EXPECT_FALSE(scheme.is_free(word_of(5, 4)));
  }
}

// The counters have 32 bits, and the lower one must not carry into the upper one.
TEST(TicketLatch, ItsCountersGoRound) {
  const TicketLatch scheme;
  Store store(scheme);
  store.set_word(store.layout.latch(0), word_of(0xffff'fffd, 0xffff'fffd));
  std::vector<int> order;
  for (int who = 0; who < 6; ++who) {
    store.world.reactor().spawn(queue_up(scheme, store.add_session(), store.objects.at(0), who, &order));
    store.world.reactor().run_for(from_ns(5'000));
  }
  store.world.reactor().run();
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
  store.settle();
  EXPECT_EQ(store.latch_word(0), word_of(3, 3));
}

Task<void> hold_for(const Scheme& scheme, Session& session, Object object, Duration time) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  co_await session.qp().reactor().sleep(time);
  co_await guard.abort();
}
Task<bool> try_once(const Scheme& scheme, Session& session, Object object) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  const bool held = static_cast<bool>(guard);
  if (held) {
    co_await guard.abort();
  }
  co_return held;
}

TEST(TicketLatch, AClientWithADeadlineTakesNoTicketAndLeavesNothing) {
  const TicketLatch scheme;
  Store store(scheme);
  Session& holder = store.add_session();
  Session& hasty = store.add_session({.retry = Retry::backoff().within(from_ns(50'000))});
  EXPECT_TRUE(store.run(try_once(scheme, hasty, store.objects.at(0))));
  store.world.reactor().spawn(hold_for(scheme, holder, store.objects.at(0), from_ns(1e6)));
  store.world.reactor().run_for(from_ns(10'000));
  EXPECT_FALSE(store.run(try_once(scheme, hasty, store.objects.at(0))));
  EXPECT_EQ(hasty.counters().deadlines, 1U);
  store.world.reactor().run();
  store.settle();
  EXPECT_EQ(store.latch_word(0), word_of(2, 2));
  EXPECT_TRUE(store.run(try_once(scheme, hasty, store.objects.at(0))));
}

TEST(TicketLatch, ALeaseIsRefused) {
  const TicketLatch scheme;
  Store store(scheme);
  Session& session = store.add_session({.owner = 3, .lease = Lease{from_ns(1e6), from_ns(1e5)}});
  EXPECT_THAT(message_of([&] { store.run(try_once(scheme, session, store.objects.at(0))); }),
              ::testing::HasSubstr("latch-ticket/async: a session with a lease (owner 3)"));
  store.settle();
  EXPECT_EQ(store.latch_word(0), 0U);
}

Task<void> throw_inside(const Scheme& scheme, Session& session, Object object) {
  const ExclusiveGuard guard = co_await scheme.latch(session, object);
  throw std::runtime_error("inside");
}

TEST(TicketLatch, AnExceptionServesTheNextTicket) {
  const TicketLatch scheme;
  Store store(scheme);
  Session& session = store.add_session();
  EXPECT_THROW(store.run(throw_inside(scheme, session, store.objects.at(0))), std::runtime_error);
  EXPECT_TRUE(store.run(try_once(scheme, store.add_session(), store.objects.at(0))));
}

Task<void> latch_until_lost(const Scheme& scheme, Session& session, Object object, bool* lost) {
  try {
    ExclusiveGuard guard = co_await scheme.latch(session, object);
    co_await guard.abort();
  } catch (const FabricError&) {
    *lost = true;
  }
}
Task<void> reconnect_and_settle(Session& session) {
  co_await session.qp().reconnect();
  co_await session.settle();
}

// A client that has lost its connection while it waited passes the latch on when its turn comes.
TEST(TicketLatch, APlaceInTheQueueIsPassedOnAfterALostConnection) {
  const TicketLatch scheme;
  Store store(scheme);
  Session& holder = store.add_session();
  Session& lost = store.add_session();
  Session& last = store.add_session();
  bool failed = false;
  store.world.reactor().spawn(hold_for(scheme, holder, store.objects.at(0), from_ns(200'000)));
  store.world.reactor().run_for(from_ns(10'000));
  store.world.reactor().spawn(latch_until_lost(scheme, lost, store.objects.at(0), &failed));
  store.world.reactor().run_for(from_ns(10'000));
  // It polls with pauses, so the connection is lost when a READ is under way.
  for (int i = 0; i < 1000 && !failed; ++i) {
    static_cast<void>(store.world.lose_connection(lost.qp()));
    store.world.reactor().run_for(from_ns(100));
  }
  ASSERT_TRUE(failed);
  EXPECT_EQ(lost.owed(), 1U);
  store.world.reactor().spawn(hold_for(scheme, last, store.objects.at(0), from_ns(1'000)));
  store.world.reactor().spawn(reconnect_and_settle(lost));
  store.world.reactor().run();
  EXPECT_EQ(lost.owed(), 0U);
  EXPECT_TRUE(lost.in_doubt().empty());
  store.settle();
  EXPECT_EQ(store.latch_word(0), word_of(3, 3));
}

}  // namespace
}  // namespace sidelatch::sync
