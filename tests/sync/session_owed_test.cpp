// What a session gives back: latches inherited from the dead, requests whose acknowledgement was lost, tasks that end.
#include "behaviour.h"
#include "store.h"
#include "tests/message_of.h"
#include "victim.h"

#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/lease.h>
#include <sidelatch/sync/rw_latch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

namespace sidelatch::sync {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

constexpr std::uint64_t kDeadWord = exclusive_word(1, 1);

// Object 0 is half written by the dead client 1, which holds its latch. Clients 2 and 3 live.
class Orphaned {
 public:
  explicit Orphaned(const Scheme& scheme) : store(scheme), service(store.storage) {
    add(1);
    store.set_word(store.layout.latch(0), kDeadWord);
    fill(store.memory.bytes().subspan(store.layout.payload(0), 96), 7);
  }
  Session& heir() { return heir_; }
  Session& other() { return other_; }
  [[nodiscard]] Object object() const { return store.objects.at(0); }

  Store store;
  RevocationService service;

 private:
  Session& add(std::uint16_t owner) {
    SessionOptions options{.owner = owner,
                           .lease = Lease{from_ns(100'000), from_ns(10'000)},
                           .revoker = &service,
                           .lost_work = ignore_lost_work};
    Session& session = store.add_session(options);
    service.enlist(owner, session.qp());
    return session;
  }
  Session& heir_ = add(2);
  Session& other_ = add(3);
};

Task<void> take_over_and_throw(const Scheme& scheme, Session& session, Object object, bool& inherited) {
  const ExclusiveGuard guard = co_await scheme.latch(session, object);
  inherited = guard.inherited();
  throw std::runtime_error("cannot repair");
}

std::optional<LatchError::Kind> kind_of_read(Store& store, Session& session) {
  std::vector<std::byte> payload(200);
  try {
    const ReadResult result = store.run(store.scheme.read(session, store.objects.at(0), payload));
    EXPECT_TRUE(!result.accepted || uniform(payload)) << "a torn payload was accepted";
  } catch (const LatchError& error) {
    return error.kind();
  }
  return std::nullopt;
}

Task<void> take_over_and_repair(const Scheme& scheme, Session& session, Object object, bool& inherited) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  inherited = guard.inherited();
  fill(guard.payload(), 8);
  co_await guard.commit();
  co_await session.qp().drain();
}

TEST(InheritedLatch, WhatIsNotRepairedGoesBackToTheDead) {
  const ExclusiveLatch latch(LatchLevel::combined);
  const Crc64 crc;
  for (const Scheme* scheme : {static_cast<const Scheme*>(&latch), static_cast<const Scheme*>(&crc)}) {
    Orphaned scene(*scheme);
    Store& store = scene.store;
    bool inherited = false;
    EXPECT_THROW(store.run(take_over_and_throw(*scheme, scene.heir(), scene.object(), inherited)), std::runtime_error);
    EXPECT_TRUE(inherited);
    EXPECT_EQ(kind_of_read(store, scene.heir()), LatchError::Kind::holder_lost) << scheme->name();
    EXPECT_EQ(kind_of_read(store, scene.other()), LatchError::Kind::holder_lost) << scheme->name();
    EXPECT_EQ(store.latch_word(0), kDeadWord) << scheme->name();
    EXPECT_EQ(scene.heir().owed(), 0U);
    store.run(take_over_and_repair(*scheme, scene.other(), scene.object(), inherited));
    EXPECT_TRUE(inherited);
    EXPECT_FALSE(scene.service.revoked(2));
    EXPECT_EQ(kind_of_read(store, scene.heir()), std::nullopt);
    store.settle_survivors();
    EXPECT_EQ(store.latch_word(0), kFree);
  }
}

Task<void> commit_too_late(const Scheme& scheme, Session& session, Object object,
                           std::optional<LatchError::Kind>& kind) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  co_await session.qp().reactor().sleep(from_ns(300'000));
  try {
    co_await guard.commit();
  } catch (const LatchError& error) {
    kind = error.kind();
  }
}

TEST(InheritedLatch, ARepairThatTakesTooLongLeavesTheLatchToTheOthers) {
  for (const LatchLevel level : {LatchLevel::basic, LatchLevel::combined, LatchLevel::async}) {
    const ExclusiveLatch latch(level);
    Orphaned scene(latch);
    std::optional<LatchError::Kind> kind;
    scene.store.run(commit_too_late(latch, scene.heir(), scene.object(), kind));
    EXPECT_EQ(kind, LatchError::Kind::lease_expired);
    scene.store.settle_survivors();
    EXPECT_EQ(scene.store.latch_word(0), kDeadWord);
    bool inherited = false;
    scene.store.run(take_over_and_repair(latch, scene.other(), scene.object(), inherited));
    EXPECT_TRUE(inherited);
    EXPECT_FALSE(scene.service.revoked(2)) << "the heir lives";
  }
}

Task<void> take_over_despite_errors(const Scheme& scheme, Session& session, Object object, bool& failed) {
  try {
    ExclusiveGuard guard = co_await scheme.latch(session, object);
    fill(guard.payload(), 8);
    co_await session.qp().reactor().sleep(from_ns(2'000));
    co_await guard.commit();
    co_await session.qp().drain();
  } catch (const FabricError&) {
    failed = true;
  }
}

Task<void> bring_back(Session& session) {
  co_await session.qp().reconnect();
  co_await session.settle();
}

TEST(InheritedLatch, AfterALostConnectionTheHeirHoldsNothing) {
  for (const LatchLevel level : {LatchLevel::basic, LatchLevel::combined, LatchLevel::async}) {
    const ExclusiveLatch latch(level);
    int failures = 0;
    int given_back = 0;
    for (double moment = 100; moment < 12'000; moment += 250) {
      Orphaned scene(latch);
      Store& store = scene.store;
      bool failed = false;
      store.world.reactor().spawn(take_over_despite_errors(latch, scene.heir(), scene.object(), failed));
      while (!scene.service.revoked(1)) {
        store.world.reactor().run_for(from_ns(500));
      }
      while (scene.heir().counters().takeovers == 0 && store.latch_word(0) == kDeadWord) {
        store.world.reactor().run_for(from_ns(50));
      }
      store.world.reactor().run_for(from_ns(moment));
      (void)store.world.lose_connection(scene.heir().qp());
      store.world.reactor().run();
      if (!failed) {
        continue;
      }
      ++failures;
      store.run(bring_back(scene.heir()));
      EXPECT_EQ(scene.heir().owed(), 0U) << moment;
      store.settle_survivors();
      const std::uint64_t word = store.latch_word(0);
      EXPECT_TRUE(word == kFree || word == kDeadWord) << std::hex << word << " after " << moment;
      given_back += word == kDeadWord ? 1 : 0;
      bool inherited = false;
      store.run(take_over_and_repair(latch, scene.other(), scene.object(), inherited));
      EXPECT_EQ(inherited, word == kDeadWord);
      EXPECT_FALSE(scene.service.revoked(2));
    }
    EXPECT_GT(failures, 3) << latch.name();
    EXPECT_GT(given_back, 0) << latch.name();
  }
}

Task<void> change_object(const Scheme& scheme, Session& session, Object object, std::uint64_t number, bool& failed) {
  try {
    ExclusiveGuard guard = co_await scheme.latch(session, object);
    fill(guard.payload(), number);
    co_await guard.commit();
    co_await session.qp().drain();
  } catch (const FabricError&) {
    failed = true;
  }
}

Task<void> bring_back_despite_errors(Session& session, bool& failed) {
  try {
    co_await bring_back(session);
  } catch (const FabricError&) {
    failed = true;
  }
}

// The connection is lost twice: in an update, and while the session gives back what it owes. Between the second loss
// and the next try another client changes the object, if it finds the latch free.
TEST(LostTwice, GivesBackNothingThatIsSomebodyElses) {
  const ExclusiveLatch plain(LatchLevel::combined);
  const ExclusiveLatch async(LatchLevel::async);
  const ExclusiveLatch by_write(Acquire::speculative, WriteUnlatch::async);
  const Crc64 crc;
  for (const Scheme* scheme : {static_cast<const Scheme*>(&plain), static_cast<const Scheme*>(&async),
                               static_cast<const Scheme*>(&by_write), static_cast<const Scheme*>(&crc)}) {
    int failed_twice = 0;
    int others = 0;
    for (double first = 3'000; first < 9'000; first += 500) {
      for (double second = 1'000; second < 25'000; second += 500) {
        Store store(*scheme);
        const auto add = [&](std::uint16_t owner) -> Session& {
          return store.add_session(
              {.owner = owner, .lease = Lease{from_ns(1e7), from_ns(1e5)}, .lost_work = ignore_lost_work});
        };
        Session& session = add(3);
        Session& other = add(4);
        bool failed = false;
        store.run(change_object(*scheme, session, store.objects.at(0), 1, failed));
        store.world.reactor().spawn(change_object(*scheme, session, store.objects.at(0), 2, failed));
        store.world.reactor().run_for(from_ns(first));
        (void)store.world.lose_connection(session.qp());
        store.world.reactor().run();
        if (!failed) {
          continue;
        }
        bool failed_again = false;
        store.world.reactor().spawn(bring_back_despite_errors(session, failed_again));
        store.world.reactor().run_for(from_ns(second));
        (void)store.world.lose_connection(session.qp());
        store.world.reactor().run();
        store.world.reactor().run_for(from_ns(1e5));
        failed_twice += failed_again ? 1 : 0;
        const bool free = store.latch_word(0) == kFree;
        if (free) {
          bool other_failed = false;
          store.run(change_object(*scheme, other, store.objects.at(0), 9, other_failed));
          ASSERT_FALSE(other_failed);
          others += failed_again ? 1 : 0;
        }
        if (failed_again) {
          store.run(bring_back(session));
        }
        store.settle();
        ASSERT_EQ(store.latch_word(0), kFree) << scheme->name() << ' ' << first << ' ' << second;
        std::vector<std::byte> payload(200);
        ASSERT_TRUE(store.run(scheme->read(other, store.objects.at(0), payload)).accepted);
        ASSERT_TRUE(uniform(payload));
        if (free) {
          ASSERT_EQ(first_word(payload), 9U) << scheme->name() << ' ' << first << ' ' << second;
        }
      }
    }
    EXPECT_GT(failed_twice, 10) << scheme->name();
    EXPECT_GT(others, 0) << scheme->name();
  }
}

Task<void> close_session(Session& session) { co_await session.close(); }

Task<void> change_without_wait(const Scheme& scheme, Session& session, Object object, bool& failed) {
  try {
    ExclusiveGuard guard = co_await scheme.latch(session, object);
    fill(guard.payload(), 5);
    co_await guard.commit();
  } catch (const FabricError&) {
    failed = true;
  }
}

// Without owner id, asynchronous: commit() has returned, and the connection is lost then.
TEST(WithoutOwner, CloseSaysThatAnUpdateMayBeLost) {
  const ExclusiveLatch latch(LatchLevel::async);
  int doubtful = 0;
  int done = 0;
  for (double moment = 0; moment < 4'000; moment += 100) {
    Store store(latch);
    Session& session = store.add_session({.lost_work = ignore_lost_work});
    bool failed = false;
    store.run(change_without_wait(latch, session, store.objects.at(0), failed));
    ASSERT_FALSE(failed);
    store.world.reactor().run_for(from_ns(moment));
    const bool lost = store.world.lose_connection(session.qp());
    store.world.reactor().run_for(from_ns(1e5));
    if (lost) {
      store.run([](Session& s) -> Task<void> { co_await s.qp().reconnect(); }(session));
    }
    const std::string text = message_of([&] { store.run(close_session(session)); });
    if (store.latch_word(0) == kFree) {
      EXPECT_EQ(text, "no error") << moment;
      EXPECT_EQ(first_word(store.memory.bytes().subspan(store.layout.payload(0))), 5U) << moment;
      ++done;
    } else {
      EXPECT_THAT(text, HasSubstr("1 latch")) << moment;
      EXPECT_THAT(text, HasSubstr("in_doubt()")) << moment;
      EXPECT_EQ(session.in_doubt().size(), 1U);
      ++doubtful;
    }
  }
  EXPECT_GT(doubtful, 0);
  EXPECT_GT(done, 0);
}

Task<void> commit_over_a_lost_connection(const Scheme& scheme, Store& store, Session& session, std::string& text) {
  ExclusiveGuard guard = co_await scheme.latch(session, store.objects.at(0));
  fill(guard.payload(), 5);
  const MemoryRegion nothing = session.qp().node().allocate(8, Access::local_write);
  const WorkRequest bad = write(nothing.local(), RemoteSpan{{64}, 8, {0xdead}});
  EXPECT_TRUE(session.qp().post(std::span(&bad, 1)));
  try {
    co_await guard.commit();
  } catch (const FabricError& error) {
    text = error.what();
  }
}

// With basic release the WRITE is awaited first: if it fails, no unlatch was posted, and the latch is held for certain.
TEST(WithoutOwner, ALatchWhoseUnlatchWasNeverPostedComesBack) {
  const ExclusiveLatch latch(LatchLevel::basic);
  Store store(latch);
  Session& session = store.add_session({.lost_work = ignore_lost_work});
  std::string text;
  store.run(commit_over_a_lost_connection(latch, store, session, text));
  EXPECT_THAT(text, HasSubstr("after reconnect() the session finds out, and ends it"));
  store.run(bring_back(session));
  store.run(close_session(session));
  EXPECT_EQ(store.latch_word(0), kFree);
  EXPECT_EQ(first_word(store.memory.bytes().subspan(store.layout.payload(0))), 5U);
  EXPECT_TRUE(session.in_doubt().empty());
}

Task<void> commit_after_the_loss(const ExclusiveLatch& latch, Store& store, Session& session, std::string& text) {
  ExclusiveGuard guard = co_await latch.latch(session, store.objects.at(0));
  fill(guard.payload(), 5);
  const WorkRequest other = compare_swap(store.objects.at(1).latch(), kFree, kFree);
  EXPECT_TRUE(session.qp().post(std::span(&other, 1)));
  EXPECT_TRUE(store.world.lose_connection(session.qp()));
  try {
    co_await guard.commit();
  } catch (const FabricError& error) {
    text = error.what();
  }
}

// The session tries to give back what it owes while the connection is still lost: nothing is posted, so what was
// certain stays certain.
TEST(WithoutOwner, AnUpdateThatWasNeverPostedComesBackAlsoIfTheFirstTryFails) {
  const ExclusiveLatch basic(LatchLevel::basic);
  const ExclusiveLatch combined(LatchLevel::combined);
  const ExclusiveLatch by_write(Acquire::speculative, WriteUnlatch::awaited);
  const ExclusiveLatch by_async_write(Acquire::speculative, WriteUnlatch::async);
  for (const ExclusiveLatch* latch : {&basic, &combined, &by_write, &by_async_write}) {
    Store store(*latch);
    Session& session = store.add_session({.lost_work = ignore_lost_work});
    std::string text;
    store.run(commit_after_the_loss(*latch, store, session, text));
    EXPECT_THAT(text, HasSubstr("was not sent"));
    EXPECT_THROW(store.run(session.settle()), FabricError);
    EXPECT_THROW(store.run(close_session(session)), FabricError);
    store.run(bring_back(session));
    store.run(close_session(session));
    EXPECT_EQ(store.latch_word(0), kFree) << latch->name();
    EXPECT_EQ(first_word(store.memory.bytes().subspan(store.layout.payload(0))), 5U) << latch->name();
    EXPECT_TRUE(session.in_doubt().empty()) << latch->name();
  }
}

Task<void> change_one_of_two(const Scheme& scheme, Session& session, Object outer, Object inner) {
  ExclusiveGuard held = co_await scheme.latch(session, outer);
  ExclusiveGuard guard = co_await scheme.latch(session, inner);
  fill(guard.payload(), 9);
  co_await guard.commit();
  co_await held.abort();
}

// Who finds the outer object free expects to see the update of the inner one: structures rely on it.
TEST(OwedLatches, ACommitComesBackBeforeTheLatchThatWasHeldBesideIt) {
  const ExclusiveLatch latch(LatchLevel::combined);
  int commits = 0;
  for (double moment = 100; moment < 12'000; moment += 100) {
    SCOPED_TRACE(moment);
    Store store(latch);
    Session& session =
        store.add_session({.owner = 2, .lease = Lease{from_ns(1e8), from_ns(1e6)}, .lost_work = ignore_lost_work});
    const auto ignore_errors = [](Task<void> task) -> Task<void> {
      try {
        co_await std::move(task);
      } catch (const FabricError&) {  // NOLINT(bugprone-empty-catch): expected
      }
    };
    store.world.reactor().spawn(
        ignore_errors(change_one_of_two(latch, session, store.objects.at(0), store.objects.at(1))));
    store.world.reactor().run_for(from_ns(moment));
    if (!store.world.lose_connection(session.qp())) {
      continue;
    }
    store.world.reactor().run();
    const bool owes_both = session.owed() == 2;
    store.run(session.qp().reconnect());
    store.world.reactor().spawn(ignore_errors(session.settle()));
    for (int i = 0; i < 100'000 && store.latch_word(0) != kFree; ++i) {
      store.world.reactor().run_for(from_ns(20));
    }
    ASSERT_EQ(store.latch_word(0), kFree);
    const auto has_happened = [&] { return first_word(store.memory.bytes().subspan(store.layout.payload(1), 8)) == 9; };
    const bool before = has_happened();
    store.world.reactor().run();
    ASSERT_EQ(before, has_happened()) << "the outer latch was free before the update was there";
    commits += owes_both && before ? 1 : 0;
  }
  EXPECT_GT(commits, 3);
}

Task<void> change_both(const Scheme& scheme, Session& session, Object first, Object second, bool& first_returned,
                       bool& failed) {
  try {
    ExclusiveGuard one = co_await scheme.latch(session, first);
    ExclusiveGuard two = co_await scheme.latch(session, second);
    fill(one.payload(), 9);
    fill(two.payload(), 9);
    co_await one.commit();
    first_returned = true;
    co_await session.qp().reactor().sleep(from_ns(300));  // the connection may be lost before the second is posted
    co_await two.commit();
    co_await session.qp().drain();
  } catch (const FabricError&) {
    failed = true;
  }
}

// Two objects are committed one after the other, and the connection is lost at `moment`, and again while the session
// sends the commits again, if `again` is set.
class TwoCommits {
 public:
  TwoCommits(const Scheme& scheme, Duration moment, std::optional<Duration> again) : store_(scheme) {
    store_.world.reactor().spawn(
        change_both(scheme, session_, store_.objects.at(0), store_.objects.at(1), first_returned_, failed_));
    store_.world.reactor().run_for(moment);
    (void)store_.world.lose_connection(session_.qp());
    store_.world.reactor().run();
    if (again && is_of_interest()) {
      store_.world.reactor().spawn(bring_back_despite_errors(session_, failed_again_));
      store_.world.reactor().run_for(*again);
      (void)store_.world.lose_connection(session_.qp());
      store_.world.reactor().run();
      store_.world.reactor().run_for(from_ns(1e5));
    }
  }
  [[nodiscard]] bool is_of_interest() const { return first_returned_ && failed_; }
  [[nodiscard]] bool failed_again() const { return failed_again_; }
  /// Brings the connection back, and says whether somebody could have seen the second update without the first.
  bool shows_the_second_alone() {
    const auto is_there = [&](std::uint64_t object) {
      const auto payload = store_.memory.bytes().subspan(store_.layout.payload(object), 200);
      return first_word(payload) == 9 && uniform(payload) && store_.latch_word(object) == kFree;
    };
    bool still_failed = false;
    store_.world.reactor().spawn(bring_back_despite_errors(session_, still_failed));
    bool alone = false;
    for (int i = 0; i < 10'000 && !(is_there(0) && is_there(1)); ++i) {
      store_.world.reactor().run_for(from_ns(20));
      alone = alone || (is_there(1) && !is_there(0));
    }
    store_.world.reactor().run();
    EXPECT_FALSE(still_failed);
    EXPECT_TRUE(is_there(0) && is_there(1));
    return alone;
  }

 private:
  Store store_;
  Session& session_ =
      store_.add_session({.owner = 2, .lease = Lease{from_ns(1e8), from_ns(1e6)}, .lost_work = ignore_lost_work});
  bool first_returned_ = false;
  bool failed_ = false;
  bool failed_again_ = false;
};

// The first commit is asynchronous and has returned, and the second one fails: the first one is older.
TEST(OwedLatches, CommitsComeBackInTheirOrder) {
  const ExclusiveLatch exclusive(LatchLevel::async);
  const RwLatch shared(LatchLevel::async);
  for (const Scheme* scheme : {static_cast<const Scheme*>(&exclusive), static_cast<const Scheme*>(&shared)}) {
    int cases = 0;
    for (double moment = 2'000; moment < 12'000; moment += 20) {
      TwoCommits scene(*scheme, from_ns(moment), std::nullopt);
      if (scene.is_of_interest()) {
        ++cases;
        ASSERT_FALSE(scene.shows_the_second_alone()) << scheme->name() << ' ' << moment;
      }
    }
    EXPECT_GT(cases, 10) << scheme->name();
  }
}

TEST(OwedLatches, CommitsKeepTheirOrderIfTheConnectionIsLostOnceMore) {
  const ExclusiveLatch latch(LatchLevel::async);
  int cases = 0;
  for (double moment = 2'000; moment < 12'000; moment += 100) {
    for (double again = 1'000; again < 30'000; again += 500) {
      TwoCommits scene(latch, from_ns(moment), from_ns(again));
      if (scene.is_of_interest() && scene.failed_again()) {
        ++cases;
        ASSERT_FALSE(scene.shows_the_second_alone()) << moment << ' ' << again;
      }
    }
  }
  EXPECT_GT(cases, 10);
}

// The others' leases go on meanwhile.
TEST(SessionEnd, TakesNoLongerThanWhatWasPosted) {
  const ExclusiveLatch latch(LatchLevel::async);
  const ExclusiveLatch by_write(Acquire::speculative, WriteUnlatch::async);
  for (const ExclusiveLatch* scheme : {&latch, &by_write}) {
    Store store(*scheme);
    bool failed = false;
    store.run(change_without_wait(*scheme, store.add_session(), store.objects.at(0), failed));
    const Time begin = store.world.reactor().now();
    store.sessions.clear();
    EXPECT_LT(store.world.reactor().now() - begin, from_ns(20'000)) << scheme->name();
    EXPECT_EQ(store.latch_word(0), kFree) << scheme->name();
    EXPECT_FALSE(failed);
  }
}

// A WRITE completes before it is placed, and is lost if the memory node ends the queue pair in between. What was
// reported as done must survive that once the session has ended.
class WriteUnlatchIsPlaced : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(End, WriteUnlatchIsPlaced, ::testing::Values(false, true),
                         [](const auto& one) { return one.param ? "Closed" : "Destroyed"; });

TEST_P(WriteUnlatchIsPlaced, WhenItsSessionHasEnded) {
  const ExclusiveLatch awaited(Acquire::speculative, WriteUnlatch::awaited);
  const ExclusiveLatch async(Acquire::speculative, WriteUnlatch::async);
  const Crc64 crc(WriteUnlatch::awaited);
  for (const Scheme* scheme :
       {static_cast<const Scheme*>(&awaited), static_cast<const Scheme*>(&async), static_cast<const Scheme*>(&crc)}) {
    for (const bool leased : {false, true}) {
      for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        const sim::Profile profile = adversarial_profile();
        Store store(*scheme, 200, 1, scheme->default_layout(),
                    {.profile = profile, .rules = model::rules_of(model::Preset::observed), .seed = seed});
        static bool lost = false;
        lost = false;
        SessionOptions options{.lost_work = [](const LostWork& /*work*/) { lost = true; }};
        if (leased) {
          options.owner = 3;
          options.lease = Lease{from_ns(1e8), from_ns(1e6)};
        }
        Session& session = store.add_session(options, profile);
        bool failed = false;
        store.run(change_without_wait(*scheme, session, store.objects.at(0), failed));
        if (GetParam()) {
          store.run(close_session(session));
        } else {
          store.sessions.clear();
        }
        store.storage.revoke(*store.queue_pairs.at(0));
        store.world.reactor().run_for(from_ns(1e5));
        const auto payload = store.memory.bytes().subspan(store.layout.payload(0), 200);
        ASSERT_TRUE(first_word(payload) == 5 && uniform(payload)) << scheme->name() << ' ' << leased << ' ' << seed;
        ASSERT_EQ(store.latch_word(0), kFree) << scheme->name() << ' ' << leased << ' ' << seed;
        ASSERT_FALSE(failed || lost);
      }
    }
  }
}

}  // namespace
}  // namespace sidelatch::sync
