// Tasks that are destroyed at any moment of an operation, by a client that lives on: it gives back what they latched.
#include "store.h"
#include "victim.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/checker/simulated_place.h>
#include <sidelatch/sync/rw_latch.h>

#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::sync {
namespace {

namespace destroyed_task {

using namespace fabric;

enum class What : std::uint8_t { update, abort, read };

constexpr Duration kWork = from_ns(1'000);  // while a guard is held

Task<void> operate(const Scheme& scheme, Session& session, Object object, What what, std::uint64_t number) {
  if (what == What::read) {
    ReadGuard guard = co_await scheme.begin_read(session, object);
    co_await session.qp().reactor().sleep(kWork);
    co_await guard.validate();
    co_return;
  }
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  co_await session.qp().reactor().sleep(kWork);
  if (what == What::abort) {
    co_await guard.abort();
    co_return;
  }
  std::memcpy(guard.payload().data(), &number, sizeof number);
  co_await guard.commit();
}

Task<void> close(Session& session) { co_await session.close(); }

Task<void> first_word(const Scheme& scheme, Session& session, Object object, std::uint64_t& word) {
  std::vector<std::byte> payload(object.shape->payload_bytes);
  (void)co_await scheme.read(session, object, payload);
  std::memcpy(&word, payload.data(), sizeof word);
}

struct Case {
  checker::SchemeEntry scheme;
  bool leased = false;
  bool contended = false;  // another client updates the object meanwhile
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    if (entry.kind == checker::Kind::specimen || entry.kind == checker::Kind::model_only) {
      continue;
    }
    for (const bool contended : {false, true}) {
      all.push_back({entry, false, contended});
      if (entry.kind != checker::Kind::queue) {
        all.push_back({entry, true, contended});
      }
    }
  }
  for (const bool contended : {false, true}) {
    for (const bool leased : {false, true}) {
      all.push_back({*checker::select_scheme("latch-switch").entry, leased, contended});
    }
  }
  return all;
}

class DestroyedTaskOf : public ::testing::TestWithParam<Case> {};

TEST_P(DestroyedTaskOf, LeavesNoLatch) {
  const auto [entry, leased, contended] = GetParam();
  const auto selected = checker::select_scheme(entry.name);
  const Scheme& scheme = *selected.scheme;
  int held = 0;
  for (const What what : {What::update, What::abort, What::read}) {
    for (double moment = 50; moment < 9'000; moment += 150) {
      SCOPED_TRACE(std::string(entry.name) + " " + std::to_string(static_cast<int>(what)) + " " +
                   std::to_string(moment) + " ns");
      Store store(scheme);
      checker::SimulatedPlace place(store.world, store.storage, entry);
      place.serve(store.memory.remote(), store.objects);
      SessionOptions options;
      if (leased) {
        options.owner = 3;
        options.lease = Lease{from_ns(1e8), from_ns(1e6)};
      }
      const auto add = [&](const SessionOptions& wanted) -> Session& {
        return store.add_session(wanted, store.world.options().profile,
                                 [&](Node& node, const SessionOptions& plain) { return place.options(node, plain); });
      };
      Session& session = add(options);
      if (leased) {
        options.owner = 4;
      }
      Session& other = add(options);
      const Object object = store.objects.at(0);
      if (contended) {
        store.world.reactor().spawn(operate(scheme, other, object, What::update, 2));
      }
      Victim victim(operate(scheme, session, object, what, 1));
      store.world.reactor().run_for(from_ns(moment));
      victim.destroy();
      held += session.owed() != 0 ? 1 : 0;
      store.run(close(session));
      store.world.reactor().run();
      ASSERT_EQ(session.owed(), 0U);
      ASSERT_TRUE(session.in_doubt().empty());
      store.run(operate(scheme, other, object, What::update, 3));
      store.run(close(other));
      store.settle();
      const bool is_free =
          entry.place() == LatchPlace::memory_node ? scheme.is_free(store.latch_word(0)) : place.is_free(0);
      ASSERT_TRUE(is_free) << std::hex << store.latch_word(0);
      std::uint64_t word = 0;
      store.run(first_word(scheme, other, object, word));
      ASSERT_EQ(word, 3U);
      store.sessions.clear();  // before their latches' queue pairs
    }
  }
  EXPECT_GT(held, 0);
}

std::string name_of(const ::testing::TestParamInfo<Case>& of) {
  std::string name(of.param.scheme.name);
  for (char& c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name + (of.param.leased ? "_leased" : "") + (of.param.contended ? "_contended" : "");
}

INSTANTIATE_TEST_SUITE_P(Registry, DestroyedTaskOf, ::testing::ValuesIn(cases()), name_of);

bool g_lost = false;

// The session ends without another operation, and without close(). It gives back all but a commit that was not sent,
// and says so.
TEST(DestroyedTask, IsMadeGoodAtTheEndOfItsSession) {
  constexpr double kRoundTrip = 1'500;  // at least
  for (const char* const name : {"latch-exclusive/basic", "latch-exclusive/async", "latch-rw/basic",
                                 "latch-rw/combined", "optimistic/two-read", "optimistic/copy-on-write"}) {
    const auto selected = checker::select_scheme(name);
    for (const What what : {What::update, What::read}) {
      for (double moment = 50; moment < 9'000; moment += 150) {
        SCOPED_TRACE(std::string(name) + " " + std::to_string(moment) + " ns");
        Store store(*selected.scheme);
        const std::unique_ptr<QueuePair> qp = store.world.add_node("client").connect(store.storage);
        g_lost = false;
        auto session =
            std::make_unique<Session>(*qp, buffer_bytes(store.layout.shape()),
                                      SessionOptions{.lost_work = [](const LostWork& /*lost*/) { g_lost = true; }});
        Victim victim(operate(*selected.scheme, *session, store.objects.at(0), what, 1));
        store.world.reactor().run_for(from_ns(moment));
        victim.destroy();
        session.reset();
        store.world.reactor().run_for(from_ns(1e5));
        ASSERT_FALSE(g_lost && (what == What::read || moment < kRoundTrip));
        ASSERT_TRUE(g_lost || selected.scheme->is_free(store.latch_word(0)));
      }
    }
  }
}

// ---- Before the count of a reader is posted.

Task<void> read_without_wait(const Scheme& scheme, Session& session, Object object) {
  const ReadGuard guard = co_await scheme.begin_read(session, object);
}

Task<void> fill_the_send_queue(Session& session, Object object) {
  for (int i = 0; i < 4; ++i) {
    const std::vector<WorkRequest> one = {fetch_add(object.latch(), 0)};
    EXPECT_TRUE(session.qp().post(one));
  }
  co_return;
}

// A count that was never posted is not taken back: the word would lack a reader, and the next one would be unseen.
TEST(DestroyedReader, TakesBackNoCountThatWasNotPosted) {
  const RwLatch scheme(LatchLevel::async);
  Store store(scheme);
  QueuePairOptions narrow;
  narrow.send_queue_depth = 4;
  Node& node = store.world.add_node("narrow");
  const std::unique_ptr<QueuePair> qp = node.connect(store.storage, narrow);
  Session session(*qp, buffer_bytes(store.layout.shape()), {});
  store.run(fill_the_send_queue(session, store.objects.at(1)));
  {
    Victim victim(read_without_wait(scheme, session, store.objects.at(0)));
    EXPECT_EQ(qp->posted_so_far(), 4U);  // it waits for room
  }
  store.run(close(session));
  store.settle();
  EXPECT_EQ(store.latch_word(0), 0U);
}

}  // namespace destroyed_task
}  // namespace
}  // namespace sidelatch::sync
