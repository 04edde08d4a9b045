// latch-switch: what is special about a latch apart from its object.
#include "store.h"
#include "victim.h"

#include "tests/paths.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/fit.h>
#include <sidelatch/switchsync/sim/tuples_at_switch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/switch_latch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace sidelatch::sync {
namespace {
namespace at_switch {

using namespace fabric;
using ::testing::HasSubstr;

constexpr std::uint64_t kGranule = 128;  // below the stride of 216 bytes, so no two objects share a latch

// The program with words of 64 bits, or with those of 32 that fit a Tofino.
enum class Words : std::uint8_t { wide, narrow };

std::shared_ptr<const p4::Program> program_of(Words words) {
  static const std::shared_ptr<const p4::Program> narrow = p4::compile_file(in_source_tree("p4/switch_latches.p4"));
  return words == Words::narrow ? narrow : nullptr;
}

struct Rig {
  explicit Rig(Words the_words)
      : words(store.world, store.storage, store.memory.remote(), kGranule, program_of(the_words)) {}
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  ~Rig() {
    store.world.reactor().destroy_spawned();
    store.sessions.clear();  // before the queue pairs to their latches
  }
  Session& add_session(SessionOptions options = {}) {
    return store.add_session(options, store.world.options().profile, [this](Node& node, SessionOptions wanted) {
      pairs.push_back(words.connect(node));
      wanted.latches = {.queue_pair = pairs.back().get(),
                        .words = words.words(),
                        .first = store.memory.remote().address,
                        .granule = kGranule};
      return wanted;
    });
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t object) const {
    return words.word(store.objects.at(object).record_address);
  }

  SwitchLatch scheme;
  Store store{scheme};
  switchsync::WordsAtSwitch words;
  std::vector<std::unique_ptr<QueuePair>> pairs;
};

class SwitchLatchForms : public ::testing::TestWithParam<Words> {};
INSTANTIATE_TEST_SUITE_P(Words, SwitchLatchForms, ::testing::Values(Words::wide, Words::narrow),
                         [](const auto& one) { return one.param == Words::wide ? "Wide" : "Narrow"; });

// The rest of the program is not wanted, and does not fit.
TEST(SwitchLatch, TheNarrowFormSwapsWordsOf32BitsAndRefusesTheRest) {
  Rig rig(Words::narrow);
  Node& node = rig.store.world.add_node("client");
  MemoryRegion buffer = node.allocate(8, Access::local_write);
  const auto word = rig.words.words().subspan(0, 8);
  const auto refuses = [&](const WorkRequest& request) {
    const auto pair = rig.words.connect(node);
    try {
      static_cast<void>(rig.store.run([](QueuePair& qp, WorkRequest wr) -> Task<std::uint64_t> {
        const auto old = co_await qp.submit(wr);
        co_return old[0];
      }(*pair, request)));
    } catch (const FabricError&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refuses(compare_swap(word, 0, 0xffff'ffff)));
  EXPECT_EQ(rig.word(0), 0xffff'ffffU);
  EXPECT_FALSE(refuses(compare_swap(word, 5, 6)));  // it is another word
  EXPECT_EQ(rig.word(0), 0xffff'ffffU);
  EXPECT_FALSE(refuses(read(buffer.local(0, 8), word)));
  EXPECT_EQ(rig.word(0), 0xffff'ffffU);
  EXPECT_TRUE(refuses(compare_swap(word, 0xffff'ffff, std::uint64_t{1} << 32)));
  EXPECT_TRUE(refuses(compare_swap(word, std::uint64_t{1} << 63 | 0xffff'ffff, 0)));
  EXPECT_TRUE(refuses(fetch_add(word, 1)));
  EXPECT_TRUE(refuses(write(buffer.local(0, 8), word)));
  EXPECT_EQ(rig.word(0), 0xffff'ffffU);
}

TEST(SwitchLatch, TheNarrowFormFitsATofino) {
  const std::filesystem::path folder = in_source_tree("p4");
  EXPECT_TRUE(p4::fit(folder / "switch_latches.p4", p4::Chip::tofino).fits());
  EXPECT_FALSE(p4::fit(folder / "switch_atomics.p4", p4::Chip::tofino).fits());
}

TEST_P(SwitchLatchForms, AnUpdateIsSeenAndTheLatchIsFreeAfterwards) {
  Rig rig(GetParam());
  Session& session = rig.add_session();
  const auto bytes = pattern(200, 3);
  EXPECT_TRUE(rig.store.run(put(rig.scheme, session, rig.store.objects.at(1), bytes)));
  std::vector<std::byte> seen(200);
  EXPECT_TRUE(rig.store.run(rig.scheme.read(rig.add_session(), rig.store.objects.at(1), seen)).accepted);
  EXPECT_EQ(seen, bytes);
  EXPECT_EQ(rig.word(1), 0U);
  EXPECT_EQ(rig.store.latch_word(1), 0U);  // the record's own word is not used
}

TEST_P(SwitchLatchForms, AnUpdateTakesTwoRoundTripsToTheMemoryAndTwoToTheSwitch) {
  Rig rig(GetParam());
  Session& session = rig.add_session();
  EXPECT_TRUE(rig.store.run(put(rig.scheme, session, rig.store.objects.at(0), pattern(200, 1))));
  EXPECT_EQ(session.qp().counters().round_trips, 2U);
  EXPECT_EQ(rig.pairs[0]->counters().round_trips, 2U);
}

TEST_P(SwitchLatchForms, WhileOneHoldsItAnotherWaitsUntilItsDeadline) {
  Rig rig(GetParam());
  Session& first = rig.add_session();
  Session& second = rig.add_session({.retry = Retry::backoff().within(from_ns(50'000))});
  ExclusiveGuard guard = rig.store.run(rig.scheme.latch(first, rig.store.objects.at(2)));
  ASSERT_TRUE(guard);
  EXPECT_EQ(rig.word(2), 1U);
  EXPECT_EQ(rig.store.run(rig.scheme.peek_latch(second, rig.store.objects.at(2))), kExclusive);
  EXPECT_FALSE(rig.store.run(rig.scheme.latch(second, rig.store.objects.at(2))));
  rig.store.run(guard.abort());
  EXPECT_EQ(rig.word(2), 0U);
}

TEST_P(SwitchLatchForms, AGuardThatAnExceptionDropsIsFree) {
  Rig rig(GetParam());
  Session& session = rig.add_session();
  EXPECT_THROW(rig.store.run([](const SwitchLatch& scheme, Session& own, Object object) -> Task<void> {
    ExclusiveGuard guard = co_await scheme.latch(own, object);
    throw std::runtime_error("dropped");
  }(rig.scheme, session, rig.store.objects.at(0))),
               std::runtime_error);
  rig.store.run(session.close());
  EXPECT_EQ(rig.word(0), 0U);
  EXPECT_TRUE(session.in_doubt().empty());
}

TEST_P(SwitchLatchForms, ADeadHoldersLatchIsTakenOverAtTheSwitch) {
  Rig rig(GetParam());
  RevocationService service(rig.store.storage);
  const Lease lease{from_ns(100'000), from_ns(10'000)};
  Session& victim = rig.add_session({.owner = 7, .lease = lease, .revoker = &service});
  Session& heir = rig.add_session({.owner = 8, .lease = lease, .revoker = &service});
  service.enlist(7, victim.qp());
  service.enlist(8, heir.qp());
  ExclusiveGuard held = rig.store.run(rig.scheme.latch(victim, rig.store.objects.at(0)));
  EXPECT_EQ(rig.word(0) & 0xffff'ffff, rig.word(0)) << "32 bits";
  EXPECT_EQ(owner_of(expanded_word(rig.word(0))), 7U);
  ExclusiveGuard taken = rig.store.run(rig.scheme.latch(heir, rig.store.objects.at(0)));
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken.inherited());
  fill(taken.payload(), 5);
  rig.store.run(taken.commit());
  EXPECT_EQ(rig.word(0), 0U);
  // The victim was only slow: its commit fails, and changes neither the object nor the latch.
  fill(held.payload(), 9);
  EXPECT_THROW(rig.store.run(held.commit()), std::runtime_error);
  EXPECT_EQ(rig.word(0), 0U);
  std::vector<std::byte> seen(200);
  EXPECT_TRUE(rig.store.run(rig.scheme.read(heir, rig.store.objects.at(0), seen)).accepted);
  EXPECT_EQ(first_word(seen), 5U);
  EXPECT_TRUE(uniform(seen));
}

TEST_P(SwitchLatchForms, AConnectionThatIsLostInACommitIsMadeGoodAfterwards) {
  for (int at = 0; at < 40; ++at) {
    Rig rig(GetParam());
    RevocationService service(rig.store.storage);
    Session& session = rig.add_session({.owner = 3, .lease = {from_ns(1e6), from_ns(1e5)}, .revoker = &service});
    service.enlist(3, session.qp());
    bool done = false;
    rig.store.world.reactor().spawn(
        [](const SwitchLatch& scheme, Session& own, Object object, bool& is_done) -> Task<void> {
          try {
            is_done = co_await put(scheme, own, object, pattern(200, 1));
          } catch (const FabricError&) {  // NOLINT(bugprone-empty-catch): what the test looks at comes after
          }
        }(rig.scheme, session, rig.store.objects.at(0), done));
    rig.store.world.reactor().run_for(from_ns(200.0 * at));
    rig.store.world.lose_connection(session.qp());
    rig.store.world.reactor().run();
    if (session.qp().state() != QueuePair::State::ready) {
      rig.store.run(session.qp().reconnect());
    }
    rig.store.run(session.settle());
    EXPECT_EQ(rig.word(0), 0U) << at;
    EXPECT_TRUE(rig.store.run(put(rig.scheme, session, rig.store.objects.at(0), pattern(200, 9)))) << at;
  }
}

Task<void> try_to_latch(const SwitchLatch& scheme, Session& session, Object object, std::string& outcome) {
  try {
    ExclusiveGuard guard = co_await scheme.latch(session, object);
    co_await guard.abort();
    outcome = "latched";
  } catch (const FabricError&) {
    outcome = "the connection has failed";
  } catch (const LatchError& error) {
    outcome = error.what();
  }
}

// A session whose connection to the memory is lost while it READs object 0, which it has latched. With `both` the one
// to its latches is lost before, and comes back.
struct LostInTheRead {
  LostInTheRead(Words words, bool leased, bool both) : rig(words) {
    SessionOptions options{.lost_work = [](const LostWork& /*lost*/) { ++lost_work; }};
    if (leased) {
      options.owner = 3;
      options.lease = {from_ns(1e6), from_ns(1e5)};
    }
    lost_work = 0;
    Session& session = rig.add_session(options);
    std::string outcome;
    rig.store.world.reactor().spawn(try_to_latch(rig.scheme, session, rig.store.objects.at(0), outcome));
    for (int i = 0; i < 10'000 && session.qp().outstanding() == 0; ++i) {
      rig.store.world.reactor().run_for(from_ns(10));
    }
    EXPECT_EQ(session.qp().outstanding(), 1U);
    if (both) {
      const WorkRequest other = compare_swap(rig.words.words().subspan(8, 8), 0, 0);
      EXPECT_TRUE(rig.pairs[0]->post(std::span(&other, 1)));
      EXPECT_TRUE(rig.store.world.lose_connection(*rig.pairs[0]));
    }
    EXPECT_TRUE(rig.store.world.lose_connection(session.qp()));
    rig.store.world.reactor().run();
    EXPECT_EQ(outcome, "the connection has failed");
    rig.store.world.reactor().run_for(from_ns(1e5));  // the unlatch is on its way
    EXPECT_EQ(rig.word(0) != 0, both);
    EXPECT_EQ(session.owed(), both ? 1U : 0U);
    if (both) {
      rig.store.run(rig.pairs[0]->reconnect());
    }
  }
  Session& session() { return *rig.store.sessions.at(0); }

  Rig rig;
  static inline int lost_work = 0;
};

// The latches' queue pair works, so an operation could take latches of objects that it cannot READ.
TEST_P(SwitchLatchForms, AnOperationWhoseConnectionToTheMemoryHasFailedTakesNoLatch) {
  for (const auto& [leased, both] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
    for (const std::uint64_t object : {0U, 1U}) {
      LostInTheRead scene(GetParam(), leased, both);
      Rig& rig = scene.rig;
      for (int i = 0; i < 3; ++i) {
        std::string outcome = "waits";
        rig.store.world.reactor().spawn(
            try_to_latch(rig.scheme, scene.session(), rig.store.objects.at(object), outcome));
        rig.store.world.reactor().run_for(from_ns(1e5));
        EXPECT_EQ(outcome, "the connection has failed") << i;
        EXPECT_EQ(rig.word(0), 0U) << "given back, because that needs only the latches' queue pair";
        EXPECT_EQ(rig.word(1), 0U);
        EXPECT_EQ(scene.session().owed(), 0U);
      }
      rig.store.run(scene.session().qp().reconnect());
      std::string outcome;
      rig.store.run(try_to_latch(rig.scheme, scene.session(), rig.store.objects.at(object), outcome));
      EXPECT_EQ(outcome, "latched");
    }
  }
}

TEST_P(SwitchLatchForms, ASessionThatEndsGivesBackWhatNeedsNoConnectionToTheMemory) {
  for (const bool leased : {false, true}) {
    LostInTheRead scene(GetParam(), leased, /*both=*/true);
    scene.rig.store.sessions.clear();
    EXPECT_EQ(scene.rig.word(0), 0U);
    EXPECT_EQ(LostInTheRead::lost_work, 0);
  }
}

// The unlatch of a dropped guard is posted, and its connection is lost before it comes to the switch. Without owner id
// nobody can give the latch back, but somebody must learn of it.
TEST_P(SwitchLatchForms, AnUnlatchThatNobodyWaitsForIsNotForgotten) {
  for (const bool leased : {false, true}) {
    for (const bool closes : {false, true}) {
      Rig rig(GetParam());
      static std::uint64_t lost = 0;
      lost = 0;
      SessionOptions options{.lost_work = [](const LostWork& work) { lost += work.unlatches + work.latches; }};
      if (leased) {
        options.owner = 3;
        options.lease = {from_ns(1e6), from_ns(1e5)};
      }
      Session& session = rig.add_session(options);
      EXPECT_THROW(rig.store.run([](const SwitchLatch& scheme, Session& own, Object object) -> Task<void> {
        ExclusiveGuard guard = co_await scheme.latch(own, object);
        throw std::runtime_error("dropped");
      }(rig.scheme, session, rig.store.objects.at(0))),
                   std::runtime_error);
      ASSERT_TRUE(rig.store.world.lose_connection(*rig.pairs[0]));
      rig.store.run(rig.pairs[0]->reconnect());
      ASSERT_NE(rig.word(0), 0U);
      std::string text = "no error";
      if (closes) {
        try {
          rig.store.run(session.close());
        } catch (const FabricError& error) {
          text = error.what();
        }
        EXPECT_EQ(session.in_doubt().size(), leased ? 0U : 1U);
        EXPECT_THAT(text, HasSubstr(leased ? "no error" : "1 latch is in doubt"));
        EXPECT_EQ(rig.word(0), leased ? 0U : kExclusive);
      }
      rig.store.sessions.clear();
      EXPECT_EQ(lost, leased && closes ? 0U : 1U);
    }
  }
}

TEST_P(SwitchLatchForms, AnUnlatchThatNobodyWaitsForIsForgottenOnceItHasHappened) {
  Rig rig(GetParam());
  static bool lost = false;
  lost = false;
  Session& session = rig.add_session({.lost_work = [](const LostWork& /*work*/) { lost = true; }});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(rig.store.run([](const SwitchLatch& scheme, Session& own, Object object) -> Task<void> {
      ExclusiveGuard guard = co_await scheme.latch(own, object);
      throw std::runtime_error("dropped");
    }(rig.scheme, session, rig.store.objects.at(0))),
                 std::runtime_error);
  }
  rig.store.sessions.clear();
  EXPECT_EQ(rig.word(0), 0U);
  EXPECT_FALSE(lost);
}

Task<void> change_second_of_two(const SwitchLatch& scheme, Session& session, Object outer, Object inner, bool& failed) {
  try {
    ExclusiveGuard held = co_await scheme.latch(session, outer);
    ExclusiveGuard guard = co_await scheme.latch(session, inner);
    fill(guard.payload(), 9);
    co_await guard.commit();
    co_await held.abort();
  } catch (const FabricError&) {
    failed = true;
  }
}

// Who finds the outer object free expects to see the update of the inner one.
TEST_P(SwitchLatchForms, ACommitComesBackBeforeTheLatchThatWasHeldBesideIt) {
  int commits = 0;
  for (double moment = 2'000; moment < 14'000; moment += 100) {
    Rig rig(GetParam());
    Session& session =
        rig.add_session({.owner = 3, .lease = {from_ns(1e8), from_ns(1e6)}, .lost_work = ignore_lost_work});
    bool failed = false;
    Reactor& reactor = rig.store.world.reactor();
    reactor.spawn(change_second_of_two(rig.scheme, session, rig.store.objects.at(0), rig.store.objects.at(1), failed));
    reactor.run_for(from_ns(moment));
    if (!rig.store.world.lose_connection(session.qp())) {
      continue;
    }
    reactor.run();
    if (!failed || session.owed() != 2) {
      continue;
    }
    ++commits;
    ASSERT_NE(rig.word(0), 0U) << moment;
    reactor.spawn([](Session& own) -> Task<void> {
      co_await own.qp().reconnect();
      co_await own.settle();
    }(session));
    while (rig.word(0) != 0) {
      reactor.run_for(from_ns(20));
    }
    const auto payload = rig.store.memory.bytes().subspan(rig.store.layout.payload(1), 200);
    ASSERT_TRUE(first_word(payload) == 9 && uniform(payload)) << moment;
    reactor.run();
  }
  EXPECT_GT(commits, 3);
}

TEST_P(SwitchLatchForms, BadUseIsRefusedWithTheReason) {
  Rig rig(GetParam());
  const auto why = [&](auto work) -> std::string {
    try {
      work();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  };
  Session& none = rig.store.add_session();
  EXPECT_THAT(why([&] { static_cast<void>(rig.store.run(rig.scheme.latch(none, rig.store.objects.at(0)))); }),
              HasSubstr("set SessionOptions::latches"));
  RemoteLatches latches{.queue_pair = &none.qp(), .words = rig.words.words(), .granule = 96};
  EXPECT_THAT(why([&] { latches.validate(); }), HasSubstr("granule of 96 bytes"));
  latches = {.queue_pair = &none.qp(), .words = {{}, 12, {}}};
  EXPECT_THAT(why([&] { latches.validate(); }), HasSubstr("in 12 bytes"));
  latches = {.queue_pair = &none.qp(),
             .words = rig.words.words().subspan(0, 8),
             .first = rig.store.memory.remote().address,
             .granule = 64};
  EXPECT_THAT(why([&] { static_cast<void>(latches.word_of(rig.store.objects.at(3))); }), HasSubstr("has no latch"));
}

TEST(LatchWord, ThirtyTwoBitsKeepTheOwnerAndFifteenBitsOfTheEpoch) {
  const std::uint64_t word = exclusive_word(0xffff, 0xffff);
  EXPECT_LT(compact_word(word), std::uint64_t{1} << 32);
  EXPECT_EQ(expanded_word(compact_word(word)), exclusive_word(0xffff, 0x7fff));
  EXPECT_EQ(expanded_word(compact_word(exclusive_word(7, 12))), exclusive_word(7, 12));
  EXPECT_EQ(compact_word(kExclusive), kExclusive);
  EXPECT_EQ(compact_word(kFree), kFree);
}

}  // namespace at_switch
}  // namespace
}  // namespace sidelatch::sync
