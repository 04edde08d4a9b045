// optimistic/switch: what is special about versions that a switch keeps.
#include "store.h"
#include "victim.h"

#include <sidelatch/switchsync/sim/tuples_at_switch.h>
#include <sidelatch/sync/switched_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace sidelatch::sync {
namespace {
namespace versions {

using namespace fabric;
using ::testing::HasSubstr;

struct Rig {
  Rig() { between.add(store.memory.remote(), store.layout.count(), store.layout.shape().bytes, store.layout.stride()); }
  Session& add_session(SessionOptions options = {}) {
    options.versions_at_switch = true;
    return store.add_session(options);
  }
  [[nodiscard]] std::uint64_t version(std::uint32_t tuple) { return between.control().version(tuple); }
  ReadResult read(Session& session, std::uint64_t object, std::vector<std::byte>& payload) {
    payload.resize(200);
    return store.run(scheme.read(session, store.objects.at(object), payload));
  }

  SwitchedVersion scheme;
  Store store{scheme};
  switchsync::TuplesAtSwitch between{store.world, store.storage};
};

TEST(SwitchedVersion, AnUpdateIsSeenWithItsVersion) {
  Rig rig;
  const auto bytes = pattern(200, 3);
  EXPECT_TRUE(rig.store.run(put(rig.scheme, rig.add_session(), rig.store.objects.at(1), bytes)));
  std::vector<std::byte> seen;
  const ReadResult result = rig.read(rig.add_session(), 1, seen);
  EXPECT_TRUE(result.accepted);
  EXPECT_EQ(result.version, 2U);
  EXPECT_EQ(seen, bytes);
  EXPECT_EQ(rig.version(1), 2U);
  EXPECT_FALSE(rig.between.control().holder(1));
  EXPECT_EQ(rig.version(0), 0U);
}

TEST(SwitchedVersion, AReadWhileTheObjectIsLatchedWaits) {
  Rig rig;
  Session& writer = rig.add_session();
  Session& reader = rig.add_session({.retry = Retry::backoff().within(from_ns(50'000))});
  ExclusiveGuard guard = rig.store.run(rig.scheme.latch(writer, rig.store.objects.at(0)));
  ASSERT_TRUE(guard);
  std::vector<std::byte> seen;
  EXPECT_FALSE(rig.read(reader, 0, seen).accepted);
  EXPECT_EQ(rig.store.run(rig.scheme.peek_latch(reader, rig.store.objects.at(0))), 1U);
  fill(guard.payload(), 4);
  rig.store.run(guard.abort());
  EXPECT_EQ(rig.version(0), 0U) << "nothing has changed";
  EXPECT_TRUE(rig.read(reader, 0, seen).accepted);
  EXPECT_EQ(first_word(seen), 0U);
  EXPECT_EQ(rig.store.run(rig.scheme.peek_latch(reader, rig.store.objects.at(0))), 0U);
}

TEST(SwitchedVersion, AReadIsNotValidAfterAnUpdate) {
  Rig rig;
  ReadGuard guard = rig.store.run(rig.scheme.begin_read(rig.add_session(), rig.store.objects.at(0)));
  ASSERT_TRUE(guard);
  EXPECT_TRUE(rig.store.run(put(rig.scheme, rig.add_session(), rig.store.objects.at(0), pattern(200, 1))));
  EXPECT_FALSE(rig.store.run(guard.validate()));
}

// Structures latch several objects, and end their guards in any order.
TEST(SwitchedVersion, SeveralGuardsOfOneSessionCommit) {
  Rig rig;
  Session& session = rig.add_session();
  ExclusiveGuard first = rig.store.run(rig.scheme.latch(session, rig.store.objects.at(0)));
  ExclusiveGuard second = rig.store.run(rig.scheme.latch(session, rig.store.objects.at(1)));
  ReadGuard beside = rig.store.run(rig.scheme.begin_read(session, rig.store.objects.at(2)));
  rig.store.run(beside.release());
  fill(first.payload(), 1);
  rig.store.run(first.commit());
  fill(second.payload(), 2);
  rig.store.run(second.commit());
  for (const std::uint64_t object : {0U, 1U}) {
    std::vector<std::byte> seen;
    EXPECT_TRUE(rig.read(session, object, seen).accepted);
    EXPECT_EQ(first_word(seen), object + 1);
    EXPECT_TRUE(uniform(seen));
  }
}

TEST(SwitchedVersion, AGuardThatAnExceptionDropsIsGivenBackByTheNextOperation) {
  Rig rig;
  Session& session = rig.add_session();
  const auto fail_inside = [&] {
    EXPECT_THROW(rig.store.run([](const SwitchedVersion& scheme, Session& own, Object object) -> Task<void> {
      ExclusiveGuard guard = co_await scheme.latch(own, object);
      throw std::runtime_error("dropped");
    }(rig.scheme, session, rig.store.objects.at(0))),
                 std::runtime_error);
  };
  fail_inside();
  EXPECT_EQ(session.owed(), 1U);
  std::vector<std::byte> seen;
  EXPECT_TRUE(rig.read(session, 3, seen).accepted);  // of another object
  EXPECT_EQ(rig.version(0), 0U);
  EXPECT_FALSE(rig.between.control().holder(0));
  fail_inside();
  rig.store.run(session.close());
  EXPECT_EQ(rig.version(0), 0U);
}

Task<void> change_two(const SwitchedVersion& scheme, Session& session, Object first, Object second) {
  ExclusiveGuard one = co_await scheme.latch(session, first);
  ExclusiveGuard two = co_await scheme.latch(session, second);
  fill(one.payload(), 1);
  fill(two.payload(), 1);
  co_await two.commit();
  co_await one.commit();
}

// The switch takes one request at a time, also from a session that gives back what a destroyed task has left: at its
// next operation, or at its end.
TEST(SwitchedVersion, ATaskThatIsDestroyedAtAnyMomentLeavesNoLatch) {
  int owed = 0;
  for (const bool closes : {true, false}) {
    for (double moment = 50; moment < 9'000; moment += 50) {
      SCOPED_TRACE(std::to_string(moment) + (closes ? " ns, closes" : " ns, ends"));
      Rig rig;
      const std::unique_ptr<QueuePair> qp = rig.store.world.add_node("client").connect(rig.store.storage);
      auto session = std::make_unique<Session>(*qp, buffer_bytes(rig.store.layout.shape()),
                                               SessionOptions{.versions_at_switch = true});
      Victim victim(change_two(rig.scheme, *session, rig.store.objects.at(0), rig.store.objects.at(1)));
      rig.store.world.reactor().run_for(from_ns(moment));
      victim.destroy();
      owed += session->owed() > 1 ? 1 : 0;
      if (closes) {
        rig.store.run(session->close());
      }
      session.reset();
      ASSERT_EQ(qp->failures(), 0U);
      for (const std::uint32_t object : {0U, 1U}) {
        ASSERT_FALSE(rig.between.control().holder(object));
        ASSERT_TRUE(rig.store.run(put(rig.scheme, rig.add_session(), rig.store.objects.at(object), pattern(200, 9))));
      }
    }
  }
  EXPECT_GT(owed, 0);
}

TEST(SwitchedVersion, AConnectionThatFailsLosesItsLatchToTheSwitch) {
  Rig rig;
  Session& session = rig.add_session();
  {
    ExclusiveGuard guard = rig.store.run(rig.scheme.latch(session, rig.store.objects.at(0)));
    EXPECT_EQ(rig.version(0), 1U);
    rig.store.world.reactor().spawn([](ExclusiveGuard held) -> Task<void> {
      try {
        fill(held.payload(), 1);
        co_await held.commit();
      } catch (const FabricError&) {  // NOLINT(bugprone-empty-catch): expected
      }
    }(std::move(guard)));
    rig.store.world.reactor().run_for(from_ns(100));
    ASSERT_TRUE(rig.store.world.lose_connection(session.qp()));
    rig.store.world.reactor().run();
  }
  rig.store.run(session.qp().reconnect());
  std::vector<std::byte> seen;
  EXPECT_TRUE(rig.read(session, 0, seen).accepted);
  EXPECT_EQ(rig.version(0), 2U) << "a new version, whether the WRITE has come or not";
  EXPECT_TRUE(uniform(seen));
  EXPECT_TRUE(rig.store.run(put(rig.scheme, session, rig.store.objects.at(0), pattern(200, 9))));
}

TEST(SwitchedVersion, BadUseIsRefusedWithTheReason) {
  Rig rig;
  const auto why = [&](Session& session) -> std::string {
    try {
      static_cast<void>(rig.store.run(rig.scheme.begin_read(session, rig.store.objects.at(0))));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(why(rig.store.add_session()), HasSubstr("versions_at_switch"));
  EXPECT_THAT(why(rig.add_session({.owner = 3, .lease = {from_ns(1e6), from_ns(1e5)}})), HasSubstr("owner id 3"));
  EXPECT_THROW(static_cast<void>(rig.scheme.shape(200, LayoutKind::padded)), std::invalid_argument);
}

TEST(SlottedLayout, RecordsLieOnPowersOfTwo) {
  const SwitchedVersion scheme;
  const Layout layout(scheme.shape(200, LayoutKind::slotted), LayoutKind::slotted, 5);
  EXPECT_EQ(layout.shape().bytes, 208U);
  EXPECT_EQ(layout.stride(), 256U);
  EXPECT_EQ(layout.record(3), 768U);
  EXPECT_EQ(layout.latch(3), 768U);
  EXPECT_EQ(parse_layout("slotted"), LayoutKind::slotted);
}

enum class Next : std::uint8_t { read, update, commit, abort, validate };

Task<void> update_quietly(const Scheme& scheme, Session& session, Object object) {
  const bool done = co_await put(scheme, session, object, pattern(200, 7));
  EXPECT_TRUE(done);
}

Task<void> read_quietly(const Scheme& scheme, Session& session, Object object) {
  std::vector<std::byte> payload(200);
  const ReadResult result = co_await scheme.read(session, object, payload);
  EXPECT_TRUE(result.accepted);
}

Task<void> validate_quietly(ReadGuard guard) { co_await guard.validate(); }

// How many requests of the session were under way at once.
std::uint64_t most_beside(Store& store, Session& session, Task<void> task) {
  Reactor& reactor = store.world.reactor();
  std::uint64_t most = 0;
  reactor.spawn(std::move(task));
  for (int i = 0; i < 10'000 && reactor.spawned() > 0; ++i) {
    most = std::max(most, session.qp().outstanding());
    reactor.run_for(from_ns(20));
  }
  return most;
}

// The switch takes one request of a queue pair at a time, and a network that loses packets could bring two out of
// order.
TEST(SwitchedVersion, NothingIsSentBesideARequestThatADestroyedTaskHasLeft) {
  int left = 0;
  for (const Next next : {Next::read, Next::update, Next::commit, Next::abort, Next::validate}) {
    for (double moment = 50; moment < 12'000; moment += 150) {
      Rig rig;
      Session& session = rig.add_session();
      ExclusiveGuard held = rig.store.run(rig.scheme.latch(session, rig.store.objects.at(2)));
      ReadGuard seen = rig.store.run(rig.scheme.begin_read(session, rig.store.objects.at(3)));
      Reactor& reactor = rig.store.world.reactor();
      {
        Victim earlier(update_quietly(rig.scheme, session, rig.store.objects.at(0)));
        reactor.run_for(from_ns(500));
        earlier.destroy();
        rig.store.run(session.settle());
      }
      Victim victim(update_quietly(rig.scheme, session, rig.store.objects.at(0)));
      reactor.run_for(from_ns(moment));
      victim.destroy();
      left += session.qp().outstanding() > 0 ? 1 : 0;
      switch (next) {
        case Next::read:
          ASSERT_LE(most_beside(rig.store, session, read_quietly(rig.scheme, session, rig.store.objects.at(1))), 1U)
              << moment;
          break;
        case Next::update:
          ASSERT_LE(most_beside(rig.store, session, update_quietly(rig.scheme, session, rig.store.objects.at(0))), 1U)
              << moment;
          break;
        case Next::commit:
          ASSERT_LE(most_beside(rig.store, session, held.commit()), 1U) << moment;
          break;
        case Next::abort:
          ASSERT_LE(most_beside(rig.store, session, held.abort()), 1U) << moment;
          break;
        case Next::validate:
          ASSERT_LE(most_beside(rig.store, session, validate_quietly(std::move(seen))), 1U) << moment;
          break;
      }
      if (held) {
        rig.store.run(held.abort());
      }
      rig.store.run(session.close());
    }
  }
  EXPECT_GT(left, 50);
}

// A structure's pool is such a record: its latch is not the switch's, but its requests pass the switch.
TEST(SwitchedVersion, NothingIsSentBesideARequestToASingleRecord) {
  const SwitchedVersion versions;
  const Scheme& scheme = versions.for_single_records();
  int left = 0;
  for (const Next next : {Next::read, Next::update, Next::commit, Next::abort}) {
    for (double moment = 50; moment < 12'000; moment += 150) {
      Store store(scheme);
      const switchsync::TuplesAtSwitch between(store.world, store.storage);
      Session& session = store.add_session({.lost_work = ignore_lost_work, .versions_at_switch = true});
      ExclusiveGuard held = store.run(scheme.latch(session, store.objects.at(2)));
      Victim victim(update_quietly(scheme, session, store.objects.at(0)));
      store.world.reactor().run_for(from_ns(moment));
      victim.destroy();
      left += session.qp().outstanding() > 0 ? 1 : 0;
      switch (next) {
        case Next::read:
          ASSERT_LE(most_beside(store, session, read_quietly(scheme, session, store.objects.at(1))), 1U) << moment;
          break;
        case Next::update:
          ASSERT_LE(most_beside(store, session, update_quietly(scheme, session, store.objects.at(0))), 1U) << moment;
          break;
        case Next::commit:
          ASSERT_LE(most_beside(store, session, held.commit()), 1U) << moment;
          break;
        default:
          ASSERT_LE(most_beside(store, session, held.abort()), 1U) << moment;
          break;
      }
      if (held) {
        store.run(held.abort());
      }
      store.run(session.close());
      ASSERT_EQ(store.latch_word(0), 0U) << moment;
      ASSERT_EQ(store.latch_word(2), 0U) << moment;
    }
  }
  EXPECT_GT(left, 50);
}

}  // namespace versions
}  // namespace
}  // namespace sidelatch::sync
