// Latches are given back however an operation ends: by an exception, by a lost connection, by the end of its session.
#include "store.h"
#include "tests/message_of.h"
#include "victim.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/rw_latch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace sidelatch::sync {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

// A request with a key that the memory node does not know ends the connection; QueuePair::reconnect() brings it back.
void lose_connection(QueuePair& qp) {
  const MemoryRegion nothing = qp.node().allocate(8, Access::local_write);
  const WorkRequest bad = write(nothing.local(), RemoteSpan{{64}, 8, {0xdead}});
  ASSERT_TRUE(qp.post(std::span(&bad, 1)));
}

Task<void> latch_and_throw(const Scheme& scheme, Session& session, Object object) {
  const ExclusiveGuard guard = co_await scheme.latch(session, object);
  throw std::runtime_error("the user's own");
}

Task<void> read_and_throw(const Scheme& scheme, Session& session, Object object) {
  const ReadGuard guard = co_await scheme.begin_read(session, object);
  throw std::runtime_error("the user's own");
}

class Owing : public ::testing::TestWithParam<checker::SchemeEntry> {};

TEST_P(Owing, GivesBackWhatAnExceptionDrops) {
  const auto selected = checker::select_scheme(GetParam().name);
  Store store(*selected.scheme);
  Session& session = store.add_session();
  EXPECT_THROW(store.run(latch_and_throw(store.scheme, session, store.objects.at(0))), std::runtime_error);
  EXPECT_THROW(store.run(read_and_throw(store.scheme, session, store.objects.at(1))), std::runtime_error);
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
  EXPECT_EQ(store.latch_word(1), kFree);
  EXPECT_EQ(session.owed(), 0U);
}

std::vector<checker::SchemeEntry> all_safe() {
  std::vector<checker::SchemeEntry> chosen;
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    if (!entry.known_broken() && entry.kind != checker::Kind::model_only && entry.kind != checker::Kind::queue) {
      chosen.push_back(entry);
    }
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Registry, Owing, ::testing::ValuesIn(all_safe()), [](const auto& scheme) {
  std::string text(scheme.param.name);
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
});

Task<bool> reconnect(Session& session) {
  co_await session.qp().reconnect();
  co_await session.settle();
  co_return session.owed() == 0;
}

// Loses the connection at a moment of an update, and brings it back.
struct Lost {
  bool failed = false;
  bool latched = false;  // after all
  std::size_t in_doubt = 0;
  std::uint64_t value = 0;
  bool whole = false;
};

Task<void> update_to(const Scheme& scheme, Session& session, Object object, std::uint64_t number, bool& failed) {
  try {
    ExclusiveGuard guard = co_await scheme.latch(session, object);
    fill(guard.payload(), number);
    co_await guard.commit();
    co_await session.qp().drain();
  } catch (const FabricError&) {
    failed = true;
  }
}

Lost lose_at(const checker::SchemeEntry& entry, std::uint16_t owner, double moment_ns) {
  const auto selected = checker::select_scheme(entry.name);
  Store store(*selected.scheme);
  SessionOptions options{.lost_work = ignore_lost_work};
  if (owner != 0) {
    options.owner = owner;
    options.lease = Lease{from_ns(1e6), from_ns(1e5)};
  }
  Session& session = store.add_session(options);
  bool failed = false;
  store.run(update_to(store.scheme, session, store.objects.at(0), 1, failed));
  store.world.reactor().spawn(update_to(store.scheme, session, store.objects.at(0), 2, failed));
  store.world.reactor().run_for(from_ns(moment_ns));
  lose_connection(session.qp());
  store.world.reactor().run();
  store.world.reactor().run_for(from_ns(1e5));
  Lost seen{.failed = failed};
  if (session.qp().state() == QueuePair::State::error) {
    EXPECT_TRUE(store.run(reconnect(session)));
  }
  store.settle();
  seen.in_doubt = session.in_doubt().size();
  seen.latched = store.latch_word(0) != kFree;
  if (!seen.latched) {
    std::vector<std::byte> payload(200);
    EXPECT_TRUE(store.run(store.scheme.read(store.add_session(), store.objects.at(0), payload)).accepted);
    seen.value = first_word(payload);
    seen.whole = uniform(payload);
  }
  return seen;
}

TEST_P(Owing, WithAnOwnerEveryLatchComesBackAfterALostConnection) {
  int failures = 0;
  for (double moment = 0; moment < 15'000; moment += 250) {
    const Lost seen = lose_at(GetParam(), 3, moment);
    ASSERT_FALSE(seen.latched) << moment;
    ASSERT_TRUE(seen.whole) << moment;
    ASSERT_TRUE(seen.value == 1 || seen.value == 2) << moment;
    ASSERT_TRUE(seen.failed || seen.value == 2) << moment;
    ASSERT_EQ(seen.in_doubt, 0U) << moment;
    failures += seen.failed ? 1 : 0;
  }
  EXPECT_GT(failures, 5);
}

TEST_P(Owing, WithoutOwnerWhatStaysLatchedIsReportedAsInDoubt) {
  int doubtful = 0;
  for (double moment = 0; moment < 15'000; moment += 250) {
    const Lost seen = lose_at(GetParam(), 0, moment);
    ASSERT_TRUE(!seen.latched || seen.in_doubt == 1) << moment;
    ASSERT_TRUE(seen.latched || seen.whole) << moment;
    ASSERT_TRUE(seen.failed || seen.value == 2) << moment;
    doubtful += seen.in_doubt > 0 ? 1 : 0;
  }
  EXPECT_GT(doubtful, 0);
}

Task<void> hold(const Scheme& scheme, Session& session, Object object, Duration time, bool& failed) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  fill(guard.payload(), 7);
  co_await session.qp().reactor().sleep(time);
  try {
    co_await guard.commit();
  } catch (const FabricError&) {
    failed = true;
  }
}

Task<std::string> text_of_commit(const Scheme& scheme, Session& session, Object object, Duration time) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  co_await session.qp().reactor().sleep(time);
  std::string text = "no error";
  try {
    co_await guard.commit();
  } catch (const FabricError& error) {
    text = error.what();
  }
  co_return text;
}

Task<void> keep_text(const Scheme& scheme, Session& session, Object object, Duration time, std::string& text) {
  text = co_await text_of_commit(scheme, session, object, time);
}

TEST(Owed, AFailedCommitSaysWhatIsLostAndWhatIsNot) {
  const ExclusiveLatch latch(LatchLevel::combined);
  for (const bool leased : {false, true}) {
    for (const bool sent : {false, true}) {
      Store store(latch);
      SessionOptions options{.lost_work = ignore_lost_work};
      if (leased) {
        options.owner = 3;
        options.lease = Lease{from_ns(1e6), from_ns(1e5)};
      }
      Session& session = store.add_session(options);
      std::string text;
      store.world.reactor().spawn(keep_text(latch, session, store.objects.at(0), from_ns(20'000), text));
      // The latch is held after some 3 us, and the commit is posted after some 23.
      store.world.reactor().run_for(from_ns(sent ? 0 : 10'000));
      while (sent && session.qp().counters().doorbells < 2) {
        store.world.reactor().run_for(from_ns(20));
      }
      lose_connection(session.qp());
      if (sent) {
        store.storage.revoke(session.qp());
      }
      store.world.reactor().run();
      EXPECT_THAT(text, HasSubstr(!sent    ? "was not sent; the object is as before and stays latched"
                                  : leased ? "after reconnect() the session finds out"
                                           : "without an owner id nobody can tell"));
    }
  }
}

TEST(Owed, ALatchThatWasHeldForCertainComesBackWithoutOwner) {
  const ExclusiveLatch latch;
  Store store(latch);
  Session& session = store.add_session();
  bool failed = false;
  store.world.reactor().spawn(hold(latch, session, store.objects.at(0), from_ns(50'000), failed));
  store.world.reactor().run_for(from_ns(20'000));
  lose_connection(session.qp());
  store.world.reactor().run();
  EXPECT_TRUE(failed);
  EXPECT_NE(store.latch_word(0), kFree);
  EXPECT_EQ(session.owed(), 1U);
  store.run([](Session& s) -> Task<void> { co_await s.qp().reconnect(); }(session));
  // The next operation of the session, on another object, brings it to its end.
  EXPECT_TRUE(store.run(put(latch, session, store.objects.at(1), pattern(200, 1))));
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
  EXPECT_EQ(first_word(store.memory.bytes().subspan(store.layout.payload(0))), 7U);
  EXPECT_EQ(session.owed(), 0U);
}

LostWork g_lost;
void remember_lost(const LostWork& lost) { g_lost = lost; }

TEST(Owed, ASessionThatEndsHasDrained) {
  const ExclusiveLatch latch(LatchLevel::async);
  for (std::uint64_t objects = 1; objects <= 8; ++objects) {
    Store store(latch, 200, 8);
    Node& node = store.world.add_node("client");
    g_lost = {};
    {
      const auto qp = node.connect(store.storage, {.max_rd_atomic = 1});
      Session session(*qp, buffer_bytes(store.layout.shape()), {.lost_work = remember_lost});
      for (std::uint64_t i = 0; i < objects; ++i) {
        EXPECT_TRUE(store.run(put(latch, session, store.objects.at(i), pattern(200, 9))));
      }
    }  // without drain()
    store.world.reactor().run_for(from_ns(1e5));
    for (std::uint64_t i = 0; i < objects; ++i) {
      EXPECT_EQ(store.latch_word(i), kFree) << i;
      EXPECT_EQ(store.memory.bytes()[store.layout.payload(i)], std::byte{9}) << i;
    }
    EXPECT_TRUE(g_lost.nothing());
  }
}

Task<void> update_and_fail(Store& store, Node& node) {
  const auto qp = node.connect(store.storage, {.max_rd_atomic = 1});
  Session session(*qp, buffer_bytes(store.layout.shape()), {.lost_work = remember_lost});
  for (std::uint64_t i = 0; i < 4; ++i) {
    const bool done = co_await put(store.scheme, session, store.objects.at(i), pattern(200, 9));
    EXPECT_TRUE(done);
  }
  throw std::runtime_error("the user's own");
}

TEST(Owed, ASessionThatAnExceptionEndsInsideATaskHasDrained) {
  const ExclusiveLatch latch(LatchLevel::async);
  Store store(latch);
  g_lost = {};
  EXPECT_THROW(store.run(update_and_fail(store, store.world.add_node("client"))), std::runtime_error);
  store.world.reactor().run_for(from_ns(1e5));
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(store.latch_word(i), kFree) << i;
    EXPECT_EQ(store.memory.bytes()[store.layout.payload(i)], std::byte{9}) << i;
  }
  EXPECT_TRUE(g_lost.nothing());
}

TEST(Owed, ASessionThatEndsAfterALostConnectionSaysWhatIsLost) {
  const ExclusiveLatch latch(LatchLevel::async);
  Store store(latch);
  g_lost = {};
  {
    const auto qp = store.world.add_node("client").connect(store.storage);
    Session session(*qp, buffer_bytes(store.layout.shape()), {.lost_work = remember_lost});
    EXPECT_TRUE(store.run(put(latch, session, store.objects.at(0), pattern(200, 9))));
    store.storage.revoke(*qp);
  }
  EXPECT_EQ(g_lost.unlatches, 1U);
  EXPECT_EQ(g_lost.latches, 0U);
}

TEST(LeaseWatch, CountsFromTheFirstSightToTheLastPost) {
  const ExclusiveLatch latch;
  Store store(latch);
  SessionOptions options{.owner = 1, .lease = Lease{from_ns(20'000), from_ns(2'000)}};
  Session& session = store.add_session(options);
  const RemoteAddress place = store.objects.at(0).latch().address;
  LeaseWatch watch(session);
  const std::uint64_t word = exclusive_word(7, 3);
  store.world.reactor().run_for(from_ns(5'000));
  EXPECT_FALSE(watch.expired(place, word, session.now()));
  const Time first = session.now();
  // The next request is posted soon; the client is then paused, and learns late that the holder had the latch then.
  store.world.reactor().run_for(from_ns(100'000));
  EXPECT_FALSE(watch.expired(place, word, first + from_ns(19'000)));
  EXPECT_TRUE(watch.expired(place, word, first + from_ns(20'000)));
  EXPECT_FALSE(watch.expired(place, exclusive_word(7, 4), session.now())) << "it has unlatched in between";
}

// The first operation has met the holder `before` and was ended by its deadline; the next one meets it at `later`.
bool next_operation_finds_it_dead(Duration later, std::uint64_t before, std::uint64_t now, std::uint64_t object) {
  const ExclusiveLatch latch;
  Store store(latch);
  SessionOptions options{.owner = 1, .lease = Lease{from_ns(20'000), from_ns(2'000)}};
  Session& session = store.add_session(options);
  store.world.reactor().run_for(from_ns(5'000));
  LeaseWatch(session).keep(store.objects.at(0).latch().address, before, session.now());
  store.world.reactor().run_for(later);
  return LeaseWatch(session).expired(store.objects.at(object).latch().address, now, session.now());
}

TEST(LeaseWatch, GoesOnInTheNextOperationOnThatLatch) {
  const std::uint64_t word = exclusive_word(7, 3);
  EXPECT_FALSE(next_operation_finds_it_dead(from_ns(19'000), word, word, 0));
  EXPECT_TRUE(next_operation_finds_it_dead(from_ns(20'000), word, word, 0));
  EXPECT_FALSE(next_operation_finds_it_dead(from_ns(20'000), word, word, 1)) << "another latch";
  EXPECT_FALSE(next_operation_finds_it_dead(from_ns(20'000), word, exclusive_word(7, 4), 0)) << "it was free meanwhile";
  EXPECT_FALSE(next_operation_finds_it_dead(from_ns(2.1e7), word, word, 0)) << "its epoch may have come round";
}

TEST(LeaseWatch, RemembersAFewLatchesOnly) {
  const ExclusiveLatch latch;
  Store store(latch, 200, 64);
  SessionOptions options{.owner = 1, .lease = Lease{from_ns(20'000), from_ns(2'000)}};
  Session& session = store.add_session(options);
  const std::uint64_t word = exclusive_word(7, 3);
  for (std::uint64_t i = 0; i < 64; ++i) {
    LeaseWatch(session).keep(store.objects.at(i).latch().address, word, session.now());
  }
  store.world.reactor().run_for(from_ns(20'000));
  std::uint64_t remembered = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const RemoteAddress place = store.objects.at(i).latch().address;
    LeaseWatch watch(session);
    remembered += watch.expired(place, word, session.now()) ? 1U : 0U;
  }
  EXPECT_GE(remembered, 2U);
  EXPECT_LE(remembered, 16U);
}

}  // namespace
}  // namespace sidelatch::sync
