#include "checker/verdicts.h"

#include <sidelatch/checker/atomics.h>
#include <sidelatch/checker/order.h>
#include <sidelatch/checker/visibility.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::checker {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// All probes had chances and saw nothing; blocks were mixed at lines.
CheckReport flawless() {
  CheckReport report;
  report.torn_reads = {{.block_bytes = 512, .reads = 1000, .granularity = 64, .later_in_front = 300}};
  for (const Pair pair : kAllPairs) {
    report.observations.push_back({.name = std::string(name(pair)), .chances = 1000});
  }
  for (const std::string_view probe : {name(Sight::write_write), name(Sight::lines_within_write), name(Rival::nic)}) {
    report.observations.push_back({.name = std::string(probe), .chances = 1000});
  }
  report.guarantees = examine_guarantees(report);
  return report;
}

Observation& observation(CheckReport& report, std::string_view name) {
  return *std::ranges::find(report.observations, name, &Observation::name);
}

SchemeReport proved(const char* scheme, CheckReport report, const ProofOptions& options = {}) {
  report.guarantees = examine_guarantees(report);
  SchemeReport judged = judge(*select_scheme(scheme).entry, {{.object_bytes = 256, .reads = 100, .accepted = 100}});
  (void)prove(judged, report, options);
  return judged;
}

TEST(Verdicts, AllGuaranteesOfTheModelAreExamined) {
  const CheckReport report = flawless();
  for (const GuaranteeReport& guarantee : report.guarantees) {
    EXPECT_EQ(guarantee.standing, Standing::kept) << guarantee.text << ": " << guarantee.why;
    EXPECT_TRUE(guarantee.bound95) << guarantee.text;
  }
}

TEST(Verdicts, AProvedSchemeIsSafeUnderWhatItNeeds) {
  const SchemeReport farm = proved("optimistic/farm", flawless());
  EXPECT_EQ(farm.verdict, Verdict::safe) << farm.evidence;
  EXPECT_THAT(farm.evidence, HasSubstr("no tear in 100 chances; right in all 164 executions"));
  // Whole lines, atomics that exclude each other, nine pairs, and two rules that no probe tries. The order of WRITEs
  // and of their lines is missing: the scheme is safe without it.
  EXPECT_EQ(farm.assuming.size(), 13U);
  const SchemeReport unlatched = proved("optimistic/farm+write-unlatch", flawless());
  EXPECT_EQ(unlatched.verdict, Verdict::safe) << unlatched.evidence;
  EXPECT_EQ(unlatched.assuming.size(), 15U);
  EXPECT_THAT(unlatched.assuming,
              Contains(AllOf(HasSubstr("ascending order"), HasSubstr("0 of 1000 chances, at most 0.3 %"))));
}

// Rules of the proof's model that no probe tries are named beside those that one has tried.
TEST(Verdicts, WhatNoProbeTriesIsAssumedInWords) {
  const SchemeReport farm = proved("optimistic/farm", flawless());
  EXPECT_THAT(farm.assuming, Contains(AllOf(HasSubstr("complete in posting order"), HasSubstr("no probe tries"))));
  EXPECT_THAT(farm.assuming, Contains(AllOf(HasSubstr("a fence holds back a READ"), HasSubstr("no probe tries"))));
}

// The model of the proof gives these to every scheme.
TEST(Verdicts, EachPairThatTheProofRestsOnCanRefuteIt) {
  for (const Pair pair : {Pair::write_read, Pair::write_atomic, Pair::atomic_read, Pair::atomic_atomic,
                          Pair::fenced_read_write, Pair::fenced_atomic_write, Pair::fenced_atomic_atomic,
                          Pair::completed_write_read, Pair::completed_write_atomic}) {
    CheckReport report = flawless();
    observation(report, name(pair)).seen = 1;
    const SchemeReport farm = proved("optimistic/farm", report);
    EXPECT_EQ(farm.verdict, Verdict::not_exercised) << name(pair);
    EXPECT_THAT(farm.evidence, HasSubstr("broken 1 times in 1000 chances")) << name(pair);
  }
}

TEST(Verdicts, ARefutedGuaranteeIsInTheWayOfThoseWhoNeedIt) {
  CheckReport report = flawless();
  observation(report, name(Sight::lines_within_write)).seen = 3;
  EXPECT_EQ(proved("optimistic/farm", report).verdict, Verdict::safe);
  const SchemeReport unlatched = proved("optimistic/farm+write-unlatch", report);
  EXPECT_EQ(unlatched.verdict, Verdict::not_exercised);
  EXPECT_THAT(unlatched.evidence, HasSubstr("it needs that the lines of one WRITE are placed in ascending order: "
                                            "broken 3 times in 1000 chances"));
}

TEST(Verdicts, WhatNoProbeTriedIsNoGuarantee) {
  CheckReport skipped = flawless();
  observation(skipped, name(Rival::nic)).skipped = "no atomics";
  EXPECT_THAT(proved("optimistic/farm", skipped).evidence, HasSubstr("skipped: no atomics"));
  CheckReport blind = flawless();
  observation(blind, name(Pair::write_read)).sensitive = false;
  EXPECT_THAT(proved("optimistic/farm", blind).evidence, HasSubstr("the probe would not have seen it"));
  CheckReport missing = flawless();
  missing.observations.pop_back();
  EXPECT_THAT(proved("optimistic/farm", missing).evidence, HasSubstr("not probed"));
  CheckReport whole = flawless();
  whole.torn_reads[0].granularity = 0;
  whole.torn_reads[0].later_in_front = 0;
  EXPECT_THAT(proved("optimistic/farm", whole).evidence, HasSubstr("no read was mixed"));
  CheckReport few = flawless();
  observation(few, name(Pair::write_read)).chances = 50;
  EXPECT_THAT(proved("optimistic/farm", few).evidence, HasSubstr("it had 50 chances, which is too few"));
  for (const CheckReport& report : {skipped, blind, missing, whole, few}) {
    EXPECT_EQ(proved("optimistic/farm", report).verdict, Verdict::not_exercised);
  }
}

// docs/verdicts.md, smaller pieces: versions per line need whole lines.
TEST(Verdicts, PiecesThatAreSmallerThanALineBreakFarm) {
  CheckReport report = flawless();
  report.torn_reads[0].granularity = 32;
  const SchemeReport farm = proved("optimistic/farm", report);
  EXPECT_EQ(farm.verdict, Verdict::not_exercised);
  EXPECT_THAT(farm.evidence, HasSubstr("the explorer breaks it with pieces of 32 bytes: torn-read"));
}

TEST(Verdicts, RelaxedOrderingPromisesNoOrderOfWrites) {
  const SchemeReport unlatched = proved("latch-exclusive/write-unlatch", flawless(), {.relaxed_ordering = true});
  EXPECT_EQ(unlatched.verdict, Verdict::not_exercised);
  EXPECT_THAT(unlatched.evidence, HasSubstr("which relaxed ordering does not promise"));
}

TEST(Verdicts, AnExplorerThatDoesNotEndProvesNothing) {
  const SchemeReport latch = proved("latch-rw/async", flawless(), {.budget = std::chrono::duration<double>(1e-3)});
  EXPECT_EQ(latch.verdict, Verdict::not_exercised);
  EXPECT_THAT(latch.evidence, HasSubstr("the explorer did not end"));
}

TEST(Verdicts, ASchemeThatWasNotSeenAtWorkIsNotSafe) {
  SchemeReport idle = judge(*select_scheme("optimistic/farm").entry, {});
  (void)prove(idle, flawless(), {});
  EXPECT_EQ(idle.verdict, Verdict::not_exercised);
  EXPECT_EQ(idle.evidence, "not run; it was not seen at work");
}

// A ring in the cache may be mixed where one in DRAM is not.
TEST(Verdicts, SmallerPiecesSeenByAVariantCountToo) {
  CheckReport report = flawless();
  report.observations.push_back(
      {.name = "torn-read/in-cache", .chances = 9, .seen = 2, .detail = {{"granularity", 32}}});
  EXPECT_THAT(proved("optimistic/farm", report).evidence, HasSubstr("breaks it with pieces of 32 bytes"));
}

TEST(Verdicts, SpecimensAndWhatToreAreNotProved) {
  EXPECT_EQ(proved("broken/naive", flawless()).verdict, Verdict::not_exercised);
  SchemeReport torn = judge(*select_scheme("optimistic/farm").entry,
                            {{.object_bytes = 256, .reads = 100, .torn = 1, .evidence = TornBlock{7, {1, 2}}}});
  EXPECT_EQ(torn.verdict, Verdict::unsafe);
  EXPECT_EQ(torn.evidence, "torn: 1 in 100 reads; first at 256 B, object 7: 1 x1, 2 x1");
  (void)prove(torn, flawless(), {});
  EXPECT_EQ(torn.verdict, Verdict::unsafe);
}

TEST(Verdicts, ALostUnlatchIsUnsafe) {
  const SchemeReport stuck =
      judge(*select_scheme("latch-rw/basic").entry, {{.object_bytes = 256, .reads = 9, .writes = 9, .stuck = true}});
  EXPECT_EQ(stuck.verdict, Verdict::unsafe);
  EXPECT_THAT(stuck.evidence, HasSubstr("an unlatch was lost: a latch stayed held, at 256 B after 9 writes"));
}

}  // namespace
}  // namespace sidelatch::checker
