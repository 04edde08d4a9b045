#include <sidelatch/sync/mcs_latch.h>

#include "store.h"
#include "tests/message_of.h"

#include <sidelatch/fabric/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::sync {
namespace {

using namespace fabric;

Task<void> stand_in_line(const Scheme& scheme, Session& session, Object object, int who, std::vector<int>* order) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  order->push_back(who);
  fill(guard.payload(), first_word(guard.payload()) + 1);
  co_await session.qp().reactor().sleep(from_ns(20'000));
  co_await guard.commit();
}

TEST(McsLatch, ServesThoseWhoWaitInTheOrderOfTheirSwaps) {
  for (const LatchLevel level : {LatchLevel::basic, LatchLevel::speculative, LatchLevel::combined}) {
    const McsLatch scheme(level);
    Store store(scheme);
    std::vector<int> order;
    for (int who = 0; who < 5; ++who) {
      store.world.reactor().spawn(stand_in_line(scheme, store.add_session(), store.objects.at(0), who, &order));
      store.world.reactor().run_for(from_ns(5'000));
    }
    store.world.reactor().run();
    EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3, 4));
    store.settle();
    EXPECT_EQ(store.latch_word(0), 0U);
  }
}

// Who waits sends nothing to the memory node: no message, and no event of the simulator.
TEST(McsLatch, WaitingCostsTheMemoryNodeNothing) {
  const McsLatch scheme;
  Store store(scheme);
  std::vector<int> order;
  for (int who = 0; who < 2; ++who) {
    store.world.reactor().spawn(stand_in_line(scheme, store.add_session(), store.objects.at(0), who, &order));
    store.world.reactor().run_for(from_ns(5'000));
  }
  store.world.reactor().run_for(from_ns(5'000));
  const std::uint64_t sent = store.queue_pairs[1]->posted();
  const std::uint64_t before = store.world.events();
  store.world.reactor().run_for(from_ns(4'000));
  ASSERT_EQ(order.size(), 1U);
  EXPECT_EQ(store.queue_pairs[1]->posted(), sent);
  EXPECT_EQ(store.world.events(), before);
  store.world.reactor().run();
}

// Two sessions of one client use its places, and hand over to each other within its memory.
TEST(McsLatch, SessionsOfOneClientShareItsPlaces) {
  const McsLatch scheme;
  Store store(scheme);
  Session& first = store.add_session();
  Session second(first.qp(), buffer_bytes(store.layout.shape()), {.peers = first.options().peers});
  std::vector<int> order;
  store.world.reactor().spawn(stand_in_line(scheme, first, store.objects.at(0), 0, &order));
  store.world.reactor().spawn(stand_in_line(scheme, second, store.objects.at(0), 1, &order));
  store.world.reactor().spawn(stand_in_line(scheme, second, store.objects.at(1), 2, &order));
  store.world.reactor().run();
  EXPECT_EQ(order.size(), 3U);
  store.settle();
  EXPECT_EQ(store.latch_word(0), 0U);
  EXPECT_EQ(store.latch_word(1), 0U);
}

Task<bool> try_latch(const Scheme& scheme, Session& session, Object object) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  const bool held = static_cast<bool>(guard);
  if (held) {
    co_await guard.abort();
  }
  co_return held;
}
Task<void> keep_for(const Scheme& scheme, Session& session, Object object, Duration time) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  co_await session.qp().reactor().sleep(time);
  co_await guard.abort();
}

TEST(McsLatch, AClientWithADeadlineStandsInNoQueue) {
  const McsLatch scheme;
  Store store(scheme);
  Session& holder = store.add_session();
  Session& hasty = store.add_session({.retry = Retry::backoff().within(from_ns(50'000))});
  store.world.reactor().spawn(keep_for(scheme, holder, store.objects.at(0), from_ns(1e6)));
  store.world.reactor().run_for(from_ns(10'000));
  EXPECT_FALSE(store.run(try_latch(scheme, hasty, store.objects.at(0))));
  store.world.reactor().run();
  EXPECT_TRUE(store.run(try_latch(scheme, hasty, store.objects.at(0))));
  store.settle();
  EXPECT_EQ(store.latch_word(0), 0U);
}

Task<void> fail_inside(const Scheme& scheme, Session& session, Object object) {
  const ExclusiveGuard guard = co_await scheme.latch(session, object);
  throw std::runtime_error("inside");
}
Task<void> settle_now(Session& session) { co_await session.settle(); }

// A destructor cannot hand over, because that may take a wait: the session's next operation does.
TEST(McsLatch, AnExceptionHandsTheLatchOnAtTheNextOperation) {
  const McsLatch scheme;
  Store store(scheme);
  Session& session = store.add_session();
  std::vector<int> order;
  EXPECT_THROW(store.run(fail_inside(scheme, session, store.objects.at(0))), std::runtime_error);
  EXPECT_EQ(session.owed(), 1U);
  store.world.reactor().spawn(stand_in_line(scheme, store.add_session(), store.objects.at(0), 1, &order));
  store.world.reactor().run_for(from_ns(100'000));
  EXPECT_TRUE(order.empty());
  store.run(settle_now(session));
  store.world.reactor().run();
  EXPECT_THAT(order, ::testing::ElementsAre(1));
  store.settle();
  EXPECT_EQ(store.latch_word(0), 0U);
}

TEST(McsLatch, WhatASessionLacksIsNamed) {
  EXPECT_THAT(message_of([] { const McsLatch async(LatchLevel::async); }), ::testing::HasSubstr("use combined"));
  const McsLatch scheme;
  Store store(scheme);
  Session& session = store.add_session();
  Session alone(session.qp(), buffer_bytes(store.layout.shape()));
  EXPECT_THAT(message_of([&] { store.run(try_latch(scheme, alone, store.objects.at(0))); }),
              ::testing::HasSubstr("SessionOptions::peers"));
  SessionOptions leased{.owner = 3, .lease = Lease{from_ns(1e6), from_ns(1e5)}};
  leased.peers = session.options().peers;
  Session with_lease(session.qp(), buffer_bytes(store.layout.shape()), leased);
  EXPECT_THAT(message_of([&] { store.run(try_latch(scheme, with_lease, store.objects.at(0))); }),
              ::testing::HasSubstr("a session with a lease (owner 3)"));
  EXPECT_THAT(message_of([&] { LatchPeers(session.qp().node(), 0); }), ::testing::HasSubstr("1 to 65535"));
  EXPECT_THAT(message_of([&] { LatchPeers(session.qp().node(), 1, 0); }), ::testing::HasSubstr("0 places"));
  LatchPeers one(session.qp().node(), 1);
  LatchPeers same(session.qp().node(), 1);
  EXPECT_THAT(message_of([&] { LatchPeers::connect(one, same); }), ::testing::HasSubstr("is there already"));
}

// Two clients that nobody has connected: the second, which meets the first, says so, and owes its place.
TEST(McsLatch, AClientThatIsNotConnectedIsNamed) {
  const McsLatch scheme;
  Store store(scheme);
  Session& holder = store.add_session();
  Node& node = store.world.add_node("stranger");
  const auto qp = node.connect(store.storage);
  LatchPeers stranger(node, 77);
  Session session(*qp, buffer_bytes(store.layout.shape()), {.peers = &stranger, .lost_work = [](const LostWork&) {}});
  store.world.reactor().spawn(keep_for(scheme, holder, store.objects.at(0), from_ns(1e6)));
  store.world.reactor().run_for(from_ns(10'000));
  EXPECT_THAT(message_of([&] { store.run(try_latch(scheme, session, store.objects.at(0))); }),
              ::testing::HasSubstr("client 77 of a queue latch meets client 1, to which it is not connected"));
  EXPECT_EQ(session.owed(), 1U);
  // Connected later, it takes its place and passes the latch on.
  LatchPeers::connect(*store.peers[0], stranger);
  store.world.reactor().spawn(settle_now(session));
  store.world.reactor().run();
  EXPECT_EQ(session.owed(), 0U);
  store.settle();
  EXPECT_EQ(store.latch_word(0), 0U);
}

Task<void> pass_a_place_on(LatchPeers& first, LatchPeers& second, std::uint64_t place, std::uint64_t next) {
  co_await second.follow(place, next);
  const std::uint64_t successor = co_await first.wait_for_successor(place);
  EXPECT_EQ(successor, next);
  co_await first.give_turn(place, successor);
  first.give_back(place);
}
Task<void> follow_once(LatchPeers& peers, std::uint64_t predecessor, std::uint64_t place) {
  co_await peers.follow(predecessor, place);
}
Task<void> follow_again(LatchPeers& peers, std::uint64_t predecessor, std::uint64_t place) {
  co_await peers.follow_again(predecessor, place);
}
Task<void> give_turn_again(LatchPeers& peers, std::uint64_t place, std::uint64_t successor) {
  co_await peers.give_turn_again(place, successor);
}
Task<void> see_successor(LatchPeers& peers, std::uint64_t place, bool* is_followed) {
  *is_followed = co_await peers.has_successor(place);
}
Task<std::uint64_t> next_after(LatchPeers& peers, std::uint64_t place) { return peers.wait_for_successor(place); }
Task<void> turn_of(LatchPeers& peers, std::uint64_t place) { return peers.wait_for_turn(place); }

// Connected with each other.
struct Clients {
  LatchPeers& add() {
    store.add_session();
    return *store.peers.back();
  }
  McsLatch scheme;
  Store store{scheme};
};

// B does not know whether it has told A. But A has passed the latch on since, and C follows the same place of A.
TEST(LatchPeers, WhatIsSaidAgainTakesNothingAwayThatCameLater) {
  Clients clients;
  Store& store = clients.store;
  LatchPeers& a = clients.add();
  LatchPeers& b = clients.add();
  LatchPeers& c = clients.add();
  const std::uint64_t first = a.take_place();
  const std::uint64_t b_place = b.take_place();
  store.run(pass_a_place_on(a, b, first, b_place));
  const std::uint64_t second = a.take_place();
  ASSERT_NE(second, first);
  ASSERT_EQ(second & 0xffff, first & 0xffff);  // the same place
  const std::uint64_t c_place = c.take_place();
  store.run(follow_once(c, second, c_place));
  store.run(follow_again(b, first, b_place));
  EXPECT_EQ(store.run(next_after(a, second)), c_place);
  // Nor does A give the first turn of B's place again, when it has had another.
  store.run(turn_of(b, b_place));
  b.give_back(b_place);
  const std::uint64_t b_again = b.take_place();
  store.run(pass_a_place_on(a, b, second, b_again));
  store.run(give_turn_again(a, first, b_place));
  store.run(turn_of(b, b_again));
}

TEST(LatchPeers, WhatWasNotSaidIsSaidByTheRepetition) {
  Clients clients;
  Store& store = clients.store;
  LatchPeers& a = clients.add();
  LatchPeers& b = clients.add();
  const std::uint64_t a_place = a.take_place();
  const std::uint64_t b_place = b.take_place();
  store.run(follow_again(b, a_place, b_place));
  EXPECT_EQ(store.run(next_after(a, a_place)), b_place);
  store.run(give_turn_again(a, a_place, b_place));
  store.run(turn_of(b, b_place));
}

// Between two contentions a place may be taken very often, and its words say nothing of that.
TEST(LatchPeers, WhatWasSaidLongAgoIsNotTakenForWhatIsToBeSaid) {
  for (const int times : {1, 8'000, 30'000, 40'000, 60'000, 65'534, 65'535, 70'000}) {
    SCOPED_TRACE(times);
    Clients clients;
    Store& store = clients.store;
    LatchPeers& a = clients.add();
    LatchPeers& b = clients.add();
    const std::uint64_t a_first = a.take_place();
    const std::uint64_t b_first = b.take_place();
    store.run(pass_a_place_on(a, b, a_first, b_first));
    b.give_back(b_first);
    for (int i = 0; i < times; ++i) {
      a.give_back(a.take_place());
      b.give_back(b.take_place());
    }
    const std::uint64_t a_place = a.take_place();
    const std::uint64_t b_place = b.take_place();
    bool is_followed = true;
    store.run(see_successor(a, a_place, &is_followed));
    EXPECT_FALSE(is_followed);
    store.run(follow_again(b, a_place, b_place));
    store.run(see_successor(a, a_place, &is_followed));
    ASSERT_TRUE(is_followed);
    store.run(give_turn_again(a, a_place, b_place));
    store.run(turn_of(b, b_place));
  }
}

// The counts of a place have 16 bits.
TEST(LatchPeers, ACountThatBeginsAnewMeetsNoWordOfItsFirstRound) {
  Clients clients;
  Store& store = clients.store;
  LatchPeers& a = clients.add();
  LatchPeers& b = clients.add();
  const std::uint64_t b_place = b.take_place();
  const std::uint64_t first = a.take_place();
  store.run(pass_a_place_on(a, b, first, b_place));
  std::uint64_t same = a.take_place();
  for (; same != first; same = a.take_place()) {
    a.give_back(same);
  }
  bool is_followed = true;
  store.run(see_successor(a, same, &is_followed));
  EXPECT_FALSE(is_followed);
}

}  // namespace
}  // namespace sidelatch::sync
