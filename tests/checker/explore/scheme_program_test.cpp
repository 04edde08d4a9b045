// Schemes in the explorer: each specimen is caught by the judgement meant for it, and the same scheme without the flaw
// is safe.
#include <sidelatch/explore/gtest.h>
#include <sidelatch/explore/scheme_program.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/optimistic.h>
#include <sidelatch/sync/two_read_version.h>

#include "checking.h"

#include "tests/sampled.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>
#include <string>

namespace sidelatch::explore {
namespace {

using namespace sync;
using checker::Promise;
using fabric::Task;
using fabric::model::Preset;
using fabric::model::Rules;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr Workload kReaders{.updates = 2, .readers = 1};
constexpr Workload kWriters{.writers = 2};

// ---- An optimistic scheme with two reads, and parts of it that can be forgotten.

enum class Flaw : std::uint8_t { none, validation, version, latch_at_begin, latch_at_end };

class TwoRead final : public OptimisticScheme {
 public:
  explicit TwoRead(Flaw flaw) : OptimisticScheme("two-read of the test"), flaw_(flaw) {}
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.version = true}; }

 protected:
  [[nodiscard]] Task<Attempt> try_read(Session& session, Object object, const ObjectBuffer& buffer) const override {
    const ObjectHeader before = co_await read_header(session, object, buffer);
    if (before.latch != kFree && flaw_ != Flaw::latch_at_begin) {
      co_return Attempt{false, before};
    }
    const RecordShape& shape = *object.shape;
    co_await session.qp().read(buffer.part(shape.payload, shape.payload_bytes),
                               object.record().subspan(shape.payload, shape.payload_bytes));
    if (flaw_ == Flaw::validation) {
      co_return Attempt{true, before};
    }
    const ObjectHeader after = co_await read_header(session, object, buffer);
    const bool is_free = after.latch == kFree || flaw_ == Flaw::latch_at_end;
    co_return Attempt{is_free && after.version == before.version, after};
  }
  [[nodiscard]] bool attempt_validates() const noexcept override { return true; }
  void encode(const ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const ObjectBuffer& /*buffer*/) const override {}
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    hold.version -= flaw_ == Flaw::version ? 1 : 0;  // the WRITE carries the next version
    return OptimisticScheme::commit(hold);
  }

 private:
  Flaw flaw_;
};

Program two_read(const TwoRead& scheme, const Workload& workload = kReaders) {
  return scheme_program(scheme, Promise::latch_equivalent, workload);
}

TEST(SchemeProgram, TwoReadsWithoutFlawAreSafe) {
  const TwoRead scheme(Flaw::none);
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(two_read(scheme), under(preset))) << name(preset);
    EXPECT_TRUE(is_safe(two_read(scheme, kWriters), under(preset))) << name(preset);
  }
}

// The writer latches and places lines after the reader has read the header.
TEST(SchemeProgram, AReadWithoutValidationIsTorn) {
  const TwoRead scheme(Flaw::validation);
  for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
    EXPECT_TRUE(is_broken(two_read(scheme), under(preset), Kind::torn_read)) << name(preset);
  }
  // The READ is one step, but it may come after an update that is newer than the header just read.
  EXPECT_TRUE(is_broken(two_read(scheme), under(Preset::strict), Kind::torn_read));
}

// A whole update fits between the two READs of the header, and the second one finds nothing changed.
TEST(SchemeProgram, AVersionThatStaysTheSameHidesAnUpdate) {
  const TwoRead scheme(Flaw::version);
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(two_read(scheme), under(preset), Kind::torn_read)) << name(preset);
  }
}

// The version is in the first line. With ascending placement it changes before the other lines. A reader whose first
// READ of the header met the latch finds another version at the second, unless the WRITE has not begun.
TEST(SchemeProgram, TheVersionAloneIsEnoughOnlyWhereItIsPlacedFirst) {
  const TwoRead scheme(Flaw::latch_at_end);
  EXPECT_TRUE(is_safe(two_read(scheme), under(Preset::strict)));
  EXPECT_TRUE(is_safe(two_read(scheme), under(Preset::observed)));
  EXPECT_TRUE(is_broken(two_read(scheme), under(Preset::spec), Kind::torn_read));
  EXPECT_TRUE(is_broken(two_read(scheme), under(Preset::relaxed), Kind::torn_read));
}

// The first READ of the header finds the new version, latched, with the other lines still to be placed. The second
// finds the same version, unlatched.
TEST(SchemeProgram, AReaderThatBeginsUnderTheLatchIsTorn) {
  const TwoRead scheme(Flaw::latch_at_begin);
  EXPECT_TRUE(is_safe(two_read(scheme), under(Preset::strict)));
  for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
    EXPECT_TRUE(is_broken(two_read(scheme), under(preset), Kind::torn_read)) << name(preset);
  }
}

TEST(SchemeProgram, WritersDoNotNeedWhatReadersForget) {
  for (const Flaw flaw : {Flaw::validation, Flaw::version, Flaw::latch_at_begin, Flaw::latch_at_end}) {
    const TwoRead scheme(flaw);
    EXPECT_TRUE(is_safe(two_read(scheme, kWriters), under(Preset::observed)));
  }
}

// ---- An exclusive latch, and ways to unlatch it.

enum class Unlatch : std::uint8_t { after_the_write, before_the_write, never, twice, never_after_a_read };

class Latch final : public Scheme {
 public:
  explicit Latch(Unlatch unlatch) : unlatch_(unlatch) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "latch of the test"; }
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {}; }

 protected:
  [[nodiscard]] Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                              Takeover takeover) const override {
    ExclusiveGuard guard = co_await latch_.acquire(*this, session, object, place, takeover);
    co_return guard;
  }
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    const RecordShape& shape = *hold.object.shape;
    const fabric::WorkRequest write = fabric::write(hold.buffer.part(shape.payload, shape.payload_bytes),
                                                    hold.object.record().subspan(shape.payload, shape.payload_bytes));
    const fabric::WorkRequest give_back = fabric::fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word);
    switch (unlatch_) {
      case Unlatch::after_the_write:
      case Unlatch::never_after_a_read:
        co_await hold.qp().submit(write, give_back);
        break;
      case Unlatch::before_the_write:
        co_await hold.qp().submit(give_back, write);
        break;
      case Unlatch::never:
        co_await hold.qp().submit(write);
        break;
      case Unlatch::twice:
        co_await hold.qp().submit(write, give_back, give_back);
        break;
    }
    hold.buffer.drop();
  }
  [[nodiscard]] Task<void> abort(Hold& hold) const override { return latch_.unlatch(hold); }
  [[nodiscard]] Task<ReadGuard> do_begin_read(Session& session, Object object,
                                              std::source_location place) const override {
    ExclusiveGuard guard = co_await latch_.acquire(*this, session, object, place, Takeover::refused);
    co_return guard.release_hold();
  }
  [[nodiscard]] Task<bool> validate(Hold& hold) const override {
    co_await release(hold);
    co_return true;
  }
  [[nodiscard]] Task<void> release(Hold& hold) const override {
    if (unlatch_ == Unlatch::never_after_a_read) {
      hold.buffer.drop();
    } else {
      co_await latch_.unlatch(hold);
    }
  }

 private:
  ExclusiveLatch latch_{LatchLevel::basic};
  Unlatch unlatch_;
};

Program latch(const Latch& scheme, const Workload& workload) {
  return scheme_program(scheme, Promise::exclusion, workload);
}

TEST(SchemeProgram, AnUnlatchAfterTheWriteIsSafe) {
  const Latch scheme(Unlatch::after_the_write);
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(latch(scheme, kWriters), under(preset))) << name(preset);
    EXPECT_TRUE(is_safe(latch(scheme, kReaders), under(preset))) << name(preset);
    EXPECT_TRUE(is_safe(latch(scheme, {.writers = 2, .lines = 1}), under(preset))) << name(preset);
  }
}

// The next writer latches and reads before the first one's WRITE. With one line there is nothing to tear: both write
// the same number.
TEST(SchemeProgram, AnUnlatchBeforeTheWriteLosesAnUpdate) {
  const Latch scheme(Unlatch::before_the_write);
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(latch(scheme, {.writers = 2, .lines = 1}), under(preset), Kind::lost_update)) << name(preset);
  }
  for (const Workload& workload : {kWriters, kReaders}) {
    const Verdict verdict = check(latch(scheme, workload), under(Preset::observed));
    ASSERT_TRUE(verdict.violation);
    EXPECT_THAT(verdict.violation->kind, AnyOf(Kind::torn_read, Kind::lost_update));
  }
}

TEST(SchemeProgram, ALatchThatIsNotGivenBackIsADeadlock) {
  const Latch scheme(Unlatch::never);
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(latch(scheme, kWriters), under(preset), Kind::deadlock)) << name(preset);
  }
}

// No later client would wait for the latch.
TEST(SchemeProgram, ALatchThatTheLastOneKeepsIsADeadlock) {
  const Latch writer(Unlatch::never);
  EXPECT_TRUE(is_broken(latch(writer, {}), under(Preset::observed), Kind::deadlock));
  const Latch reader(Unlatch::never_after_a_read);
  const Workload read_once{.writers = 0, .readers = 1};
  EXPECT_TRUE(is_broken(latch(reader, read_once), under(Preset::observed), Kind::deadlock));
  // The latch is not in the record.
  EXPECT_TRUE(is_broken(scheme_program(reader, Promise::exclusion, read_once, LayoutKind::decoupled),
                        under(Preset::observed), Kind::deadlock));
}

TEST(SchemeProgram, ALatchThatIsGivenBackTwiceIsNeverFreeAgain) {
  const Latch scheme(Unlatch::twice);
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(latch(scheme, {.updates = 2}), under(preset), Kind::deadlock)) << name(preset);
  }
}

// ---- Crashes.

TEST(SchemeProgram, ATakeoverIsSafeOnlyWithRevocation) {
  const ExclusiveLatch basic(LatchLevel::basic);
  const TwoReadVersion optimistic;
  const auto program = [&](bool latched, bool revocation, std::uint32_t updates = 2) {
    const Workload workload{.writers = 2, .updates = updates, .crash = true, .revocation = revocation};
    return latched ? scheme_program(basic, Promise::exclusion, workload)
                   : scheme_program(optimistic, Promise::latch_equivalent, workload);
  };
  for (const bool latched : {true, false}) {
    SCOPED_TRACE(latched ? "latch" : "optimistic");
    Options options = under(Preset::observed);
    options.writing_retries = 1;
    EXPECT_TRUE(is_safe(program(latched, true, latched || takes_long() ? 2 : 1), options));
    const Verdict without = check(program(latched, false), options);
    ASSERT_EQ(without.outcome, Outcome::broken);
    // The dead client's late WRITE is placed after the new one's, whole or in part.
    EXPECT_THAT(without.violation->kind, AnyOf(Kind::lost_update, Kind::torn_read));
    EXPECT_TRUE(std::ranges::any_of(without.violation->trace, [](const TraceStep& step) {
      return step.action == "crashes" && step.actor == "writer 0";
    })) << to_text(without);
  }
}

// ---- Pieces of a line.

// A line's version and its data may belong to different WRITEs.
TEST(SchemeProgram, VersionsOfLinesNeedWholeLines) {
  const FarmLineVersions farm;
  const TwoReadVersion two;
  for (const std::uint32_t atom : {8U, 32U}) {
    SCOPED_TRACE(atom);
    Options options = under(Preset::observed);
    options.rules.atom = atom;
    options.max_executions = 100'000;
    const Workload workload{.updates = 2, .readers = 1, .lines = atom == 8 ? 1U : 3U};
    EXPECT_TRUE(is_broken(scheme_program(farm, Promise::latch_equivalent, workload), options, Kind::torn_read));
  }
  EXPECT_TRUE(is_safe(scheme_program(farm, Promise::latch_equivalent, kReaders), under(Preset::observed)));
}

// Two reads do not: the validation needs only latch and version whole, two words of one piece.
TEST(SchemeProgram, TwoReadsDoNotNeedWholeLines) {
  const TwoReadVersion two;
  Options options = under(Preset::observed);
  options.rules.atom = 32;
  EXPECT_TRUE(
      is_safe(scheme_program(two, Promise::latch_equivalent, {.updates = 2, .readers = 1, .lines = 1}), options));
}

// ---- Two NICs.

TEST(SchemeProgram, ALatchThroughTwoNicsNeedsAtomicsThatAreGlobal) {
  const ExclusiveLatch basic(LatchLevel::basic);
  const auto program = [&](unsigned nics) {
    return scheme_program(basic, Promise::exclusion, {.writers = 2, .lines = 1, .nics = nics});
  };
  for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
    SCOPED_TRACE(name(preset));
    EXPECT_TRUE(is_safe(program(1), under(preset)));
    // Rule 8: both compare-and-swaps load 0 before one of them stores.
    const Verdict verdict = check(program(2), under(preset));
    ASSERT_EQ(verdict.outcome, Outcome::broken);
    EXPECT_THAT(verdict.violation->kind, AnyOf(Kind::mutual_exclusion, Kind::lost_update, Kind::deadlock));
    EXPECT_THAT(to_text(verdict), HasSubstr("rule 8"));
    // The unlatching client's WRITE is placed (rule 5), so nothing else goes wrong.
    Options global = under(preset);
    global.rules.atomic_scope = fabric::model::AtomicScope::global;
    EXPECT_TRUE(is_safe(program(2), global));
  }
  EXPECT_TRUE(is_safe(program(2), under(Preset::strict)));
}

// ---- Limits of a workload.

std::string refusal(const Workload& workload) {
  return message_of([&] { workload.validate(); });
}

TEST(Workload, OutOfRangeIsRefusedByName) {
  EXPECT_NO_THROW(Workload{}.validate());
  EXPECT_NO_THROW(
      (Workload{.writers = 8, .updates = 64, .readers = 8, .reads = 64, .lines = 64, .nics = 16}.validate()));
  EXPECT_EQ(refusal({.writers = 0}), "workload: writers + readers is 0: it must be 1 to 16");
  EXPECT_EQ(refusal({.writers = 9, .readers = 8}), "workload: writers + readers is 17: it must be 1 to 16");
  // More than 32 bits.
  EXPECT_EQ(refusal({.writers = 0xffffffff, .readers = 3}),
            "workload: writers + readers is 4294967298: it must be 1 to 16");
  EXPECT_EQ(refusal({.lines = 0}), "workload: lines is 0: it must be 1 to 64");
  EXPECT_EQ(refusal({.lines = 65}), "workload: lines is 65: it must be 1 to 64");
  EXPECT_EQ(refusal({.nics = 0}), "workload: nics is 0: it must be 1 to 16");
  EXPECT_EQ(refusal({.nics = 17}), "workload: nics is 17: it must be 1 to 16");
  EXPECT_THAT(refusal({.updates = 65}), HasSubstr("65"));
  EXPECT_THAT(refusal({.readers = 1, .reads = 65}), HasSubstr("65"));
  EXPECT_THAT(refusal({.writers = 1, .crash = true}), HasSubstr("writers is 1"));
}

TEST(Workload, ASchemeWithoutRoomIsNamed) {
  const ExclusiveLatch writes(Acquire::speculative, WriteUnlatch::awaited);
  // The scheme needs its latch last.
  EXPECT_THAT(
      to_text(check(scheme_program(writes, Promise::exclusion, {}, LayoutKind::padded), under(Preset::observed))),
      HasSubstr("needs a footer layout"));
  const TwoReadVersion two;
  EXPECT_THAT(message_of([&] { static_cast<void>(scheme_program(two, Promise::latch_equivalent, {.lines = 0})); }),
              HasSubstr("lines is 0"));
}

}  // namespace
}  // namespace sidelatch::explore
