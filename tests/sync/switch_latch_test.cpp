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
#include <stdexcept>
#include <string>

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
