// Rules 1 and 3 to 6: the order within a request and within a queue pair. Expected sets are derived by hand.
#include "enumerate.h"
#include "names.h"

#include <gtest/gtest.h>

namespace sidelatch::fabric::model::enumeration {
namespace {

Rules with(Preset preset, const char* parameter, const char* value) {
  Rules rules = rules_of(preset);
  set_parameter(rules, parameter, value);
  return rules;
}

// ---- Rule 4.

TEST(ModelOrder, ReaderMaySeeLaterLineNewAndEarlierLineOld) {
  Program p;
  p.client().write(x, 1, kTwoLines);
  p.client().read(x, {0, 8});
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{0, 0}, {1, 1}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}})) << name(preset);
  }
}

TEST(ModelOrder, OneLineIsNeverTorn) {
  Program p;
  p.client().write(x, 1, 8);
  p.client().read(x, {0, 7});
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 0}, {1, 1}})) << name(preset);
  }
}

TEST(ModelOrder, SmallerAtomsTearInsideALine) {
  Program p;
  p.client().write(x, 1, 2);
  p.client().read(x, {0, 1});
  EXPECT_EQ(outcomes(p, with(Preset::observed, "atom", "16")), (Outcomes{{0, 0}, {1, 1}}));
  EXPECT_EQ(outcomes(p, with(Preset::observed, "atom", "8")), (Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(outcomes(p, with(Preset::strict, "atom", "8")), (Outcomes{{0, 0}, {1, 1}}));
}

TEST(ModelOrder, AnAtomIsAlignedToItsOwnSize) {
  Program p;  // words 1 and 2 lie in two atoms of 16 bytes, but in one of 32
  p.client().write(Program::line(0, 1), 1, 2);
  p.client().read(Program::line(0, 1), {0, 1});
  EXPECT_TRUE(reachable(p, with(Preset::observed, "atom", "16"), {1, 0}));
  EXPECT_EQ(outcomes(p, with(Preset::observed, "atom", "32")), (Outcomes{{0, 0}, {1, 1}}));
}

// ---- Rule 3.

TEST(ModelOrder, OneWriteIsPlacedUpwardsOrInAnyOrder) {
  Program p;
  p.client().write(x, 1, kTwoLines);
  p.cpu().load(y).load(x);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{0, 0}, {0, 1}, {1, 1}}));
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0, 0}, {0, 1}, {1, 1}}));
  EXPECT_EQ(outcomes(p, Preset::spec), (Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(outcomes(p, Preset::relaxed), (Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST(ModelOrder, AnotherClientSeesThePlacementOrderThroughSeparateReads) {
  Program p;
  p.client().write(x, 1, kTwoLines);
  p.client().read(y).wait().read(x);
  EXPECT_FALSE(reachable(p, Preset::observed, {1, 0}));
  EXPECT_TRUE(reachable(p, Preset::spec, {1, 0}));
}

TEST(ModelOrder, ACpuMaySeeAWriteThatIsPlacedInPart) {
  Program p;
  p.client().write(x, 1, kTwoLines);
  p.cpu().load(x).load(y);
  EXPECT_TRUE(reachable(p, Preset::observed, {1, 0}));
}

// ---- Rule 5.

TEST(ModelOrder, WritesOfAQueuePairArePlacedInOrderExceptUnderRelaxed) {
  Program p;
  p.client().write(x, 1).write(y, 1);
  p.cpu().load(y).load(x);
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec}) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 0}, {0, 1}, {1, 1}})) << name(preset);
  }
  EXPECT_EQ(outcomes(p, Preset::relaxed), (Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST(ModelOrder, TwoWritesToOneWordMayEndWithTheFirstOnlyUnderRelaxed) {
  Program p;
  p.client().write(x, 1).write(x, 2);
  p.observe(x);
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec}) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{2}})) << name(preset);
  }
  EXPECT_EQ(outcomes(p, Preset::relaxed), (Outcomes{{1}, {2}}));
}

TEST(ModelOrder, AReadSeesTheEarlierWritesOfItsQueuePair) {
  Program p;
  p.client().write(x, 5).read(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{5}})) << name(preset);
  }
}

TEST(ModelOrder, AnAtomicSeesTheEarlierWritesOfItsQueuePair) {
  Program p;
  p.client().write(x, 5).faa(x, 1);
  p.observe(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{5, 6}})) << name(preset);
  }
}

TEST(ModelOrder, AReadMaySeeALaterWriteUnlessThatIsFenced) {
  Program plain;
  plain.client().read(x).write(x, 1);
  Program fenced;
  fenced.client().read(x).write(x, 1).fenced();
  EXPECT_EQ(outcomes(plain, Preset::strict), (Outcomes{{0}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(plain, preset), (Outcomes{{0}, {1}})) << name(preset);
    EXPECT_EQ(outcomes(fenced, preset), (Outcomes{{0}})) << name(preset);
  }
}

TEST(ModelOrder, OverlappingReadsMaySeeNewThenOld) {
  Program overlapping;
  overlapping.client().write(x, 1);
  overlapping.client().read(x).read(x);
  Program fenced;
  fenced.client().write(x, 1);
  fenced.client().read(x).read(x).fenced();
  Program awaited;
  awaited.client().write(x, 1);
  awaited.client().read(x).wait().read(x);
  EXPECT_EQ(outcomes(overlapping, Preset::strict), (Outcomes{{0, 0}, {0, 1}, {1, 1}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(overlapping, preset), (Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}})) << name(preset);
    EXPECT_EQ(outcomes(fenced, preset), (Outcomes{{0, 0}, {0, 1}, {1, 1}})) << name(preset);
    EXPECT_EQ(outcomes(awaited, preset), (Outcomes{{0, 0}, {0, 1}, {1, 1}})) << name(preset);
  }
}

TEST(ModelOrder, AReadMaySeeALaterAtomicUnlessThatIsFenced) {
  Program plain;
  plain.client().read(x).faa(x, 1);
  Program fenced;
  fenced.client().read(x).faa(x, 1).fenced();
  EXPECT_EQ(outcomes(plain, Preset::strict), (Outcomes{{0, 0}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(plain, preset), (Outcomes{{0, 0}, {1, 0}})) << name(preset);
    EXPECT_EQ(outcomes(fenced, preset), (Outcomes{{0, 0}})) << name(preset);
  }
}

TEST(ModelOrder, AReadSeesAnEarlierAtomicOfItsQueuePair) {
  Program p;
  p.client().faa(x, 1).read(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 1}})) << name(preset);
  }
}

TEST(ModelOrder, AWriteMayOvertakeAnAtomicUnlessItIsFenced) {
  Program plain;
  plain.client().faa(x, 1).write(x, 5);
  plain.observe(x);
  Program fenced;
  fenced.client().faa(x, 1).write(x, 5).fenced();
  fenced.observe(x);
  EXPECT_EQ(outcomes(plain, Preset::strict), (Outcomes{{0, 5}}));
  for (const Preset preset : kWeak) {
    // The WRITE comes after the atomic, before it, or between its load and its store and is then lost (rule 8).
    EXPECT_EQ(outcomes(plain, preset), (Outcomes{{0, 5}, {5, 6}, {0, 1}})) << name(preset);
    EXPECT_EQ(outcomes(fenced, preset), (Outcomes{{0, 5}})) << name(preset);
  }
}

TEST(ModelOrder, AtomicsOfAQueuePairKeepTheirOrderOnTheSameWordOnly) {
  Program same;
  same.client().faa(x, 1).cas(x, 1, 7);
  same.observe(x);
  Program different;
  different.client().faa(x, 1).faa(y, 1);
  different.cpu().load(y).load(x);
  Program fenced;
  fenced.client().faa(x, 1).faa(y, 1).fenced();
  fenced.cpu().load(y).load(x);
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(same, preset), (Outcomes{{0, 1, 7}})) << name(preset);
    EXPECT_TRUE(reachable(different, preset, {0, 0, 1, 0})) << name(preset);
    EXPECT_FALSE(reachable(fenced, preset, {0, 0, 1, 0})) << name(preset);
  }
  EXPECT_FALSE(reachable(different, Preset::strict, {0, 0, 1, 0}));
}

// ---- Rule 6.

TEST(ModelOrder, AFenceDoesNotWaitForWrites) {
  Program p;
  p.client().write(x, 1).write(y, 1).fenced();
  p.cpu().load(y).load(x);
  EXPECT_TRUE(reachable(p, Preset::relaxed, {1, 0}));
  EXPECT_FALSE(reachable(p, Preset::observed, {1, 0}));
}

TEST(ModelOrder, AFenceHoldsBackTheFetchOfAWriteFromAReadsBuffer) {
  Program plain;
  plain.set(x, 7);
  std::byte* const copy = plain.buffer(3);
  plain.client().read_into(copy, x).write_from(copy, y);
  plain.observe(y);
  Program fenced;
  fenced.set(x, 7);
  std::byte* const fenced_copy = fenced.buffer(3);
  fenced.client().read_into(fenced_copy, x).write_from(fenced_copy, y).fenced();
  fenced.observe(y);
  EXPECT_EQ(outcomes(plain, Preset::strict), (Outcomes{{7}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(plain, preset), (Outcomes{{3}, {7}})) << name(preset);
    EXPECT_EQ(outcomes(fenced, preset), (Outcomes{{7}})) << name(preset);
  }
}

TEST(ModelOrder, AFenceThatIgnoresReadsLetsThemSeeTheFencedRequest) {
  const Rules rules = with(Preset::observed, "fence_orders_reads", "false");
  Program write;
  write.client().read(x).write(x, 1).fenced();
  EXPECT_EQ(outcomes(write, rules), (Outcomes{{0}, {1}}));
  Program unlatch;  // the shared unlatch that is fenced behind its READ
  unlatch.client().read(x).faa(x, 1).fenced();
  EXPECT_TRUE(reachable(unlatch, rules, {1, 0}));
  Program after_atomic;
  after_atomic.client().faa(x, 1).write(x, 5).fenced();
  after_atomic.observe(x);
  EXPECT_EQ(outcomes(after_atomic, rules), (Outcomes{{0, 5}}));
}

// ---- Fetching.

TEST(ModelOrder, ABufferReusedBeforeTheCompletionSendsTheNewBytes) {
  Program fetched;
  std::byte* const b = fetched.buffer(5);
  fetched.client().write_from(b, x).local_store(b, 6);
  fetched.observe(x);
  Program bound;
  std::byte* const c = bound.buffer(5);
  bound.client().write_from(c, x).inlined().local_store(c, 6);
  bound.observe(x);
  Program awaited;
  std::byte* const d = awaited.buffer(5);
  awaited.client().write_from(d, x).wait().local_store(d, 6);
  awaited.observe(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(fetched, preset), (Outcomes{{5}, {6}})) << name(preset);
    EXPECT_EQ(outcomes(bound, preset), (Outcomes{{5}})) << name(preset);
    EXPECT_EQ(outcomes(awaited, preset), (Outcomes{{5}})) << name(preset);
  }
}

TEST(ModelOrder, TheLinesOfABufferAreFetchedInAnyOrder) {
  Program p;
  std::byte* const b = p.buffer(5, kTwoLines);
  p.client().write_from(b, x, kTwoLines).local_store(b, 6).local_store(b + 64, 6);
  p.observe(x);
  p.observe(y);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{5, 5}, {6, 5}, {6, 6}}));
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{5, 5}, {5, 6}, {6, 5}, {6, 6}}));
}

}  // namespace
}  // namespace sidelatch::fabric::model::enumeration
