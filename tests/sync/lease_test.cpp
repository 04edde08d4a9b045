// Holders that die: the promises of leases and revocation, and the fate of clients that trust a lying revoker.
#include <sidelatch/sync/lease.h>

#include "behaviour.h"
#include "store.h"
#include "victim.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/checker/simulated_place.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

namespace sidelatch::sync {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

constexpr Lease kLease{from_ns(20'000), from_ns(2'000)};

SessionOptions leased(std::uint16_t owner, Revoker* revoker) {
  SessionOptions options;
  options.owner = owner;
  options.lease = kLease;
  options.revoker = revoker;
  options.seed = owner;
  options.lost_work = ignore_lost_work;
  return options;
}

Task<void> hold_for(Store& store, Session& session, Duration time, std::optional<LatchError::Kind>& outcome) {
  ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(0));
  co_await store.world.reactor().sleep(time);
  guard.payload()[0] = std::byte{77};
  try {
    co_await guard.commit();
  } catch (const LatchError& error) {
    outcome = error.kind();
  }
}

TEST(Lease, AHolderThatTakesTooLongWritesNothing) {
  const ExclusiveLatch latch;
  Store store(latch);
  Session& session = store.add_session(leased(1, nullptr));
  std::optional<LatchError::Kind> outcome;
  store.run(hold_for(store, session, from_ns(10'000), outcome));
  EXPECT_FALSE(outcome);
  store.settle();
  store.memory.bytes()[store.layout.payload(0)] = std::byte{0};
  store.run(hold_for(store, session, from_ns(18'000), outcome));
  EXPECT_EQ(outcome, LatchError::Kind::lease_expired);
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
  EXPECT_EQ(store.memory.bytes()[store.layout.payload(0)], std::byte{0});
}

Task<void> ask_while_holding(Store& store, Session& session, bool has_lease) {
  ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(0));
  EXPECT_FALSE(guard.lease_expired());
  co_await store.world.reactor().sleep(from_ns(18'000));
  EXPECT_EQ(guard.lease_expired(), has_lease);
  co_await guard.abort();
}

TEST(Lease, AHolderThatWorksForLongMayAskWhetherItIsOver) {
  const ExclusiveLatch latch;
  Store store(latch);
  store.run(ask_while_holding(store, store.add_session(leased(1, nullptr)), true));
  store.run(ask_while_holding(store, store.add_session(), false));
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
  EXPECT_THROW((void)ExclusiveGuard().lease_expired(), std::logic_error);
}

struct Taken {
  bool got_it = false;
  bool inherited = false;
};

Task<Taken> take(Store& store, Session& session, std::uint64_t object = 0) {
  ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(object));
  const Taken taken{static_cast<bool>(guard), guard.inherited()};
  if (guard) {
    co_await guard.commit();
  }
  co_return taken;
}

TEST(Lease, ADeadHoldersLatchIsTakenOverAfterItsLeaseAndNotBefore) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  Session& dead = store.add_session(leased(1, &service));
  Session& heir = store.add_session(leased(2, &service));
  service.enlist(1, dead.qp());
  service.enlist(2, heir.qp());
  std::optional<LatchError::Kind> outcome;
  Victim victim(hold_for(store, dead, from_ns(1e9), outcome));
  store.world.reactor().run_for(from_ns(10'000));
  victim.kill(store.world.reactor());
  const Time begun = store.world.now();
  const Taken taken = store.run(take(store, heir));
  EXPECT_TRUE(taken.got_it);
  EXPECT_TRUE(taken.inherited);
  EXPECT_GE(store.world.now() - begun, kLease.length);
  EXPECT_TRUE(service.revoked(1));
  EXPECT_EQ(heir.counters().takeovers, 1U);
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
  EXPECT_THROW(service.enlist(1, heir.qp()), std::invalid_argument);
  EXPECT_THROW(service.enlist(0, heir.qp()), std::invalid_argument);
}

SessionOptions impatient(std::uint16_t owner, Revoker* revoker) {
  SessionOptions options = leased(owner, revoker);
  options.retry = Retry::backoff().within(kLease.length * 3 / 4);
  return options;
}

// No operation waits for a whole lease, but all of them together do.
TEST(Lease, ADeadlineBelowTheLeaseTakesOverInTheEnd) {
  for (const char* name : {"latch-exclusive/basic", "latch-exclusive/async", "latch-rw/async", "optimistic/two-read"}) {
    const auto selected = checker::select_scheme(name);
    Store store(*selected.scheme);
    RevocationService service(store.storage);
    service.enlist(7, store.add_session(leased(7, &service)).qp());
    store.set_word(store.layout.latch(0), exclusive_word(7, 1));
    store.set_word(store.layout.latch(1), exclusive_word(7, 2));
    Session& heir = store.add_session(impatient(2, &service));
    const Time begun = store.world.now();
    Taken taken;
    int tries = 0;
    for (; tries < 100 && !taken.got_it; ++tries) {
      (void)store.run(take(store, heir, 1));  // another one of the dead holder's meanwhile
      taken = store.run(take(store, heir));
    }
    EXPECT_TRUE(taken.got_it) << name;
    EXPECT_TRUE(taken.inherited) << name;
    EXPECT_GT(tries, 1) << name;
    EXPECT_GE(store.world.now() - begun, kLease.length) << name;
  }
}

TEST(Lease, AReaderWithADeadlineBelowTheLeaseIsToldToTakeOverInTheEnd) {
  for (const char* name : {"latch-exclusive/async", "latch-rw/async", "optimistic/two-read", "optimistic/crc64"}) {
    const auto selected = checker::select_scheme(name);
    Store store(*selected.scheme);
    RevocationService service(store.storage);
    store.set_word(store.layout.latch(0), exclusive_word(7, 1));
    Session& session = store.add_session(impatient(2, &service));
    std::vector<std::byte> payload(200);
    std::optional<LatchError::Kind> kind;
    for (int i = 0; i < 100 && !kind; ++i) {
      try {
        EXPECT_FALSE(store.run(store.scheme.read(session, store.objects.at(0), payload)).accepted);
      } catch (const LatchError& error) {
        kind = error.kind();
      }
    }
    EXPECT_EQ(kind, LatchError::Kind::holder_lost) << name;
  }
}

Task<void> hold_again_and_again(Store& store, Session& session, int times) {
  for (int i = 0; i < times; ++i) {
    ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(0));
    co_await store.world.reactor().sleep(kLease.length * 6 / 10);
    co_await guard.commit();
  }
}

// Whoever looks in short operations meets it held each time, but by another acquisition.
TEST(Lease, ADeadlineBelowTheLeaseDoesNotTakeALivingHolderForDead) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  Session& holder = store.add_session(leased(2, &service));
  service.enlist(2, holder.qp());
  Session& other = store.add_session(impatient(3, &service));
  store.world.reactor().spawn(hold_again_and_again(store, holder, 20));
  store.world.reactor().run_for(from_ns(5'000));
  for (int i = 0; i < 100 && store.world.reactor().spawned() > 0; ++i) {
    EXPECT_FALSE(store.run(take(store, other)).inherited);
  }
  EXPECT_FALSE(service.revoked(2));
}

class CountingRevoker final : public Revoker {
 public:
  explicit CountingRevoker(Node& memory_node) : service_(memory_node) {}
  [[nodiscard]] Task<void> revoke(std::uint16_t owner) override {
    ++calls;
    co_await service_.revoke(owner);
  }
  void enlist(std::uint16_t owner, QueuePair& queue_pair) { service_.enlist(owner, queue_pair); }
  int calls = 0;

 private:
  RevocationService service_;
};

Task<void> look_without_pause(Store& store, Session& session) {
  std::vector<std::byte> payload(200);
  const ReadResult result = co_await store.scheme.read(session, store.objects.at(0), payload);
  (void)result;
}

// Readers that count themselves in and out change the word while the writer asks the memory node.
TEST(Lease, ADeadHolderIsRevokedOnceHoweverManyReadersLook) {
  for (const char* name : {"latch-rw/basic", "latch-rw/async"}) {
    const auto selected = checker::select_scheme(name);
    Store store(*selected.scheme);
    CountingRevoker revoker(store.storage);
    revoker.enlist(7, store.add_session(leased(7, &revoker)).qp());
    store.set_word(store.layout.latch(0), exclusive_word(7, 1));
    for (int i = 0; i < 6; ++i) {
      Session& reader = store.add_session({.retry = Retry::at_once().within(from_ns(1e6))});
      store.world.reactor().spawn(look_without_pause(store, reader));
    }
    const Taken taken = store.run(take(store, store.add_session(leased(2, &revoker))));
    EXPECT_TRUE(taken.inherited) << name;
    EXPECT_EQ(revoker.calls, 1) << name;
    store.world.reactor().run();
    store.settle_survivors();
    EXPECT_EQ(store.latch_word(0), kFree);
  }
}

TEST(Lease, AHolderThatLivesIsNotTakenOver) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  Session& holder = store.add_session(leased(1, &service));
  Session& other = store.add_session(leased(2, &service));
  service.enlist(1, holder.qp());
  std::optional<LatchError::Kind> outcome;
  store.world.reactor().spawn(hold_for(store, holder, from_ns(15'000), outcome));
  store.world.reactor().run_for(from_ns(5'000));
  const Taken taken = store.run(take(store, other));
  EXPECT_TRUE(taken.got_it);
  EXPECT_FALSE(taken.inherited);
  EXPECT_FALSE(service.revoked(1));
}

std::string message_of_take(Store& store, Session& session) {
  try {
    store.run(take(store, session));
  } catch (const LatchError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Lease, WithoutRevokerATakeoverIsRefused) {
  const ExclusiveLatch latch;
  Store store(latch);
  store.set_word(store.layout.latch(0), exclusive_word(7, 1));
  Session& session = store.add_session(leased(2, nullptr));
  EXPECT_THAT(message_of_take(store, session), HasSubstr("the lease of owner 7 on the latch at"));
  EXPECT_EQ(store.latch_word(0), exclusive_word(7, 1));
}

TEST(Lease, AnOwnerThatNeverEnlistedCannotBeTakenOver) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  store.set_word(store.layout.latch(0), exclusive_word(7, 1));
  EXPECT_THAT(message_of_take(store, store.add_session(leased(2, &service))),
              HasSubstr("owner 7 has enlisted no queue"));
  EXPECT_EQ(store.latch_word(0), exclusive_word(7, 1));
}

TEST(Lease, ASessionDoesNotTakeItsOwnLatchOver) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  Session& session = store.add_session(leased(2, &service));
  service.enlist(2, session.qp());
  store.set_word(store.layout.latch(0), exclusive_word(2, 1));
  EXPECT_THAT(message_of_take(store, session), HasSubstr("held by this session's own owner id 2"));
  EXPECT_FALSE(service.revoked(2));
}

Task<void> hold_in_sessions_of_its_own(Store& store, QueuePair& qp, SessionOptions options, int times) {
  for (int i = 0; i < times; ++i) {
    Session session(qp, buffer_bytes(store.layout.shape()), options);
    ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(0));
    co_await store.world.reactor().sleep(kLease.length * 6 / 10);
    co_await guard.commit();
    co_await session.close();
  }
}

// Each hold is shorter than a lease, but another client that looks seldom may meet the latch held each time.
TEST(Lease, AClientWithASessionForEachOperationIsNotTakenForDead) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  Session& first = store.add_session(leased(2, &service));
  service.enlist(2, first.qp());
  store.world.reactor().spawn(hold_in_sessions_of_its_own(store, first.qp(), leased(2, &service), 20));
  store.world.reactor().run_for(from_ns(5'000));
  std::optional<LatchError::Kind> outcome;
  store.run(hold_for(store, store.add_session(leased(3, &service)), Duration::zero(), outcome));
  EXPECT_FALSE(service.revoked(2));
  EXPECT_FALSE(outcome);
}

TEST(Lease, AnUpdateDoesNotTakeOverBecauseItCannotRepair) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  store.set_word(store.layout.latch(0), exclusive_word(7, 1));
  try {
    (void)store.run(put(latch, store.add_session(leased(2, &service)), store.objects.at(0), pattern(200, 1)));
    FAIL();
  } catch (const LatchError& error) {
    EXPECT_EQ(error.kind(), LatchError::Kind::holder_lost);
  }
}

Task<bool> read_slowly(Store& store, Session& session) {
  ReadGuard guard = co_await store.scheme.begin_read(session, store.objects.at(0));
  co_await store.world.reactor().sleep(kLease.length);
  const bool valid = co_await guard.validate();
  co_return valid;
}

TEST(Lease, AReadUnderALatchThatOutlivesItsLeaseIsNotValidated) {
  const ExclusiveLatch latch(LatchLevel::async);
  Store store(latch);
  EXPECT_FALSE(store.run(read_slowly(store, store.add_session(leased(1, nullptr)))));
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
}

TEST(Lease, AnAnonymousHolderIsNeverTakenOver) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  store.set_word(store.layout.latch(0), kExclusive);
  SessionOptions options = leased(2, &service);
  options.retry = Retry::backoff().within(from_ns(200'000));
  EXPECT_FALSE(store.run(take(store, store.add_session(options))).got_it);
}

Task<void> abort_inherited(Store& store, Session& session, std::string& message) {
  ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(0));
  try {
    co_await guard.abort();
  } catch (const LatchError& error) {
    message = error.what();
  }
  co_await guard.commit();
}

TEST(Lease, AnInheritedObjectCannotBeAbortedBecauseItMayBeTorn) {
  const ExclusiveLatch latch;
  Store store(latch);
  RevocationService service(store.storage);
  service.enlist(7, store.add_session(leased(7, &service)).qp());
  store.set_word(store.layout.latch(0), exclusive_word(7, 1));
  std::string message;
  store.run(abort_inherited(store, store.add_session(leased(2, &service)), message));
  EXPECT_THAT(message, HasSubstr("repair its payload and commit()"));
}

TEST(Lease, AReaderThatMeetsADeadHolderIsToldToTakeOver) {
  for (const char* name :
       {"latch-rw/async", "latch-exclusive/async", "optimistic/farm", "optimistic/two-read", "optimistic/crc64"}) {
    const auto selected = checker::select_scheme(name);
    Store store(*selected.scheme);
    RevocationService service(store.storage);
    store.set_word(store.layout.latch(0), exclusive_word(7, 1));
    std::vector<std::byte> payload(200);
    try {
      (void)store.run(store.scheme.read(store.add_session(leased(2, &service)), store.objects.at(0), payload));
      ADD_FAILURE() << name;
    } catch (const LatchError& error) {
      EXPECT_EQ(error.kind(), LatchError::Kind::holder_lost) << name;
    }
    store.settle();
    EXPECT_EQ(store.latch_word(0), exclusive_word(7, 1)) << name;
  }
}

TEST(Lease, AnOutOfPlaceUpdateNeedsNoRepair) {
  const auto selected = checker::select_scheme("optimistic/copy-on-write");
  Store store(*selected.scheme);
  RevocationService service(store.storage);
  service.enlist(7, store.add_session(leased(7, &service)).qp());
  Session& session = store.add_session(leased(2, &service));
  store.run(put(store.scheme, session, store.objects.at(0), pattern(200, 1)));
  store.settle();
  store.set_word(store.layout.latch(0), exclusive_word(7, 1));
  std::vector<std::byte> payload(200);
  EXPECT_TRUE(store.run(store.scheme.read(session, store.objects.at(0), payload)).accepted);  // readers do not care
  EXPECT_EQ(payload, pattern(200, 1));
  EXPECT_FALSE(store.run(take(store, session)).inherited);
}

// The crash suite: writers increment numbers. One is killed at a random moment, while its requests may stay in flight
// for longer than a lease. A client that is taken for dead loses its queue pairs. Nobody may ever see a mixture, or a
// number older than an awaited commit.
struct Crash {
  std::uint64_t torn = 0;
  std::uint64_t lost = 0;
  std::uint64_t stuck = 0;  // the latch word has no valid value any more
  std::uint64_t takeovers = 0;
  std::uint64_t commits = 0;
};

class LyingRevoker final : public Revoker {
 public:
  [[nodiscard]] Task<void> revoke(std::uint16_t /*owner*/) override { co_return; }
};

struct Scene {
  Store& store;
  Crash& seen;
  bool awaited;                    // commit() returns once the object is written
  bool lies = false;               // the revoker does
  std::uint64_t newest = 0;        // number that some client has begun to commit
  std::uint64_t acknowledged = 0;  // number whose commit has returned
};

void look_at(Scene& scene, std::span<const std::byte> payload) {
  const bool whole = uniform(payload);
  scene.seen.torn += whole ? 0U : 1U;
  scene.seen.lost += whole && scene.awaited && first_word(payload) < scene.acknowledged ? 1U : 0U;
}

Task<void> count_up(Scene& scene, Session& session, int times) {
  try {
    for (int i = 0; i < times; ++i) {
      ExclusiveGuard guard = co_await scene.store.scheme.latch(session, scene.store.objects.at(0));
      if (!guard) {
        ++scene.seen.stuck;
        co_return;
      }
      if (!guard.inherited()) {
        look_at(scene, guard.payload());
      }
      const std::uint64_t number = ++scene.newest;
      fill(guard.payload(), number);
      co_await guard.commit();
      scene.acknowledged = std::max(scene.acknowledged, number);
      ++scene.seen.commits;
      co_await scene.store.world.reactor().sleep(from_ns(static_cast<double>(session.random() % 10'000)));
    }
  } catch (const FabricError&) {
    // Taken for dead and cut off.
  } catch (const LatchError& error) {
    // Who gives an object back unrepaired restores the word of the dead holder, who lives if nobody has revoked it.
    EXPECT_TRUE(error.kind() == LatchError::Kind::lease_expired ||
                (scene.lies && error.kind() == LatchError::Kind::held_by_self))
        << error.what();
  }
}

Task<void> look_often(Scene& scene, Session& session, int times) {
  std::vector<std::byte> payload(200);
  for (int i = 0; i < times; ++i) {
    try {
      const ReadResult result = co_await scene.store.scheme.read(session, scene.store.objects.at(0), payload);
      if (result.accepted) {
        look_at(scene, payload);
      }
    } catch (const LatchError&) {
      // The holder is dead; a writer will take over.
    } catch (const FabricError&) {
      co_return;
    }
    co_await scene.store.world.reactor().sleep(from_ns(1000));
  }
}

Crash crash_once(const checker::SelectedScheme& selected, std::uint64_t seed, bool lie) {
  sim::Profile profile = adversarial_profile();
  profile.pcie.write_stall_ns = 50'000;
  Crash seen;
  Store store(*selected.scheme, 200, 1, selected.layout, {.profile = profile, .seed = seed});
  checker::SimulatedPlace place(store.world, store.storage, *selected.entry);
  place.serve(store.memory.remote(), store.objects);
  RevocationService honest(store.storage, from_ns(5'000));
  LyingRevoker liar;
  Revoker* revoker = lie ? static_cast<Revoker*>(&liar) : &honest;
  const auto add = [&](std::uint16_t owner) -> Session& {
    SessionOptions options = leased(owner, revoker);
    options.seed = seed * 16 + owner;
    options.retry = Retry::backoff().within(from_ns(5e6));
    // The doomed client's requests may be in flight for longer than a lease.
    sim::Profile nic = profile;
    nic.link.jitter_ns = owner == 1 ? 100'000 : nic.link.jitter_ns;
    Session& session = store.add_session(
        options, nic, [&](Node& node, const SessionOptions& wanted) { return place.options(node, wanted); });
    honest.enlist(owner, session.qp());
    return session;
  };
  const std::string_view name = selected.entry->name;
  Scene scene{store, seen, name.find("async") == std::string_view::npos, lie};
  Session& doomed = add(1);
  Victim victim(count_up(scene, doomed, 1000));
  for (std::uint16_t owner = 2; owner <= 3; ++owner) {
    store.world.reactor().spawn(count_up(scene, add(owner), 20));
  }
  store.world.reactor().spawn(look_often(scene, add(4), 30));
  store.world.reactor().run_for(from_ns(static_cast<double>(seed * 7919 % 300'000)));
  victim.kill(store.world.reactor());
  store.world.reactor().run();
  store.world.reactor().run_for(from_ns(500'000));
  Session& last = add(5);
  store.world.reactor().spawn(count_up(scene, last, 2));
  store.world.reactor().run();
  for (const auto& session : store.sessions) {
    seen.takeovers += session->counters().takeovers;
  }
  store.settle_survivors();
  store.sessions.clear();  // before their latches' queue pairs
  return seen;
}

class EverySchemeWithLeases : public ::testing::TestWithParam<checker::SchemeEntry> {};

TEST_P(EverySchemeWithLeases, SurvivesTheDeathOfAHolder) {
  const auto selected = checker::select_scheme(GetParam().name);
  std::uint64_t takeovers = 0;
  for (std::uint64_t seed = 1; seed <= seeds() / 2; ++seed) {
    const Crash seen = crash_once(selected, seed, /*lie=*/false);
    ASSERT_EQ(seen.torn, 0U) << seed;
    ASSERT_EQ(seen.lost, 0U) << seed;
    ASSERT_EQ(seen.stuck, 0U) << seed;
    takeovers += seen.takeovers;
  }
  EXPECT_GT(takeovers, seeds() / 50);
}

TEST_P(EverySchemeWithLeases, IsCorruptedByLateWritesIfNobodyRevokes) {
  const auto selected = checker::select_scheme(GetParam().name);
  std::uint64_t corrupted = 0;
  for (std::uint64_t seed = 1; seed <= 5000 && corrupted == 0; ++seed) {
    const Crash seen = crash_once(selected, seed, /*lie=*/true);
    corrupted += seen.torn + seen.lost + seen.stuck;
  }
  EXPECT_GT(corrupted, 0U);
}

// The doomed client only writes: a reader of latch-rw has no owner, and if it dies, its count stays (docs/leases.md).
std::vector<checker::SchemeEntry> safe_schemes() {
  std::vector<checker::SchemeEntry> chosen = {*checker::select_scheme("latch-switch").entry};
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    if (!entry.known_broken() && entry.kind != checker::Kind::model_only && entry.kind != checker::Kind::queue) {
      chosen.push_back(entry);
    }
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Registry, EverySchemeWithLeases, ::testing::ValuesIn(safe_schemes()), [](const auto& scheme) {
  std::string text(scheme.param.name);
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
});

}  // namespace
}  // namespace sidelatch::sync
