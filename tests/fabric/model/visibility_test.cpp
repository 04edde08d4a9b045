// Rules 2 and 7, and the store buffers of CPU threads: when writes become visible. Expected sets are derived by hand.
#include "enumerate.h"
#include "names.h"

#include <gtest/gtest.h>

namespace sidelatch::fabric::model::enumeration {
namespace {

// ---- Rule 2.

TEST(ModelVisibility, ACpuMayMissAWriteThatHasCompleted) {
  Program p;
  p.cpu_client().write(x, 1).wait().load(x);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{1}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0}, {1}})) << name(preset);
  }
}

TEST(ModelVisibility, AReadPostedAfterTheCompletionSeesTheWriteOnAnyQueuePair) {
  Program p;
  p.client({0, 0}).write(x, 1).wait().on(1).read(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{1}})) << name(preset);
  }
}

TEST(ModelVisibility, AReadPostedAfterTheCompletionSeesTheWriteFromAnyClient) {
  Program p;
  Actor& writer = p.client().write(x, 1).wait().signal();
  p.client().await(writer).read(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{1}})) << name(preset);
  }
}

TEST(ModelVisibility, AnAtomicPostedAfterTheCompletionSeesTheWrite) {
  Program p;
  Actor& writer = p.client().write(x, 1).wait().signal();
  p.client().await(writer).faa(x, 1);
  p.observe(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{1, 2}})) << name(preset);
  }
}

TEST(ModelVisibility, WithoutAtomicsSeeWritesAnAtomicMayMissACompletedWriteAndEraseIt) {
  Rules rules = rules_of(Preset::observed);
  rules.atomics_see_writes = false;
  Program atomic;
  Actor& writer = atomic.client().write(x, 5).wait().signal();
  atomic.client().await(writer).faa(x, 1);
  atomic.observe(x);
  // The WRITE comes first, the atomic comes first, or the WRITE comes between the atomic's load and store.
  EXPECT_EQ(outcomes(atomic, rules), (Outcomes{{5, 6}, {0, 5}, {0, 1}}));
  Program read;
  Actor& other = read.client().write(x, 5).wait().signal();
  read.client().await(other).read(x);
  EXPECT_EQ(outcomes(read, rules), (Outcomes{{5}}));
  Program same_queue;  // rule 5 still orders them
  same_queue.client().write(x, 5).faa(x, 1);
  same_queue.observe(x);
  EXPECT_EQ(outcomes(same_queue, rules), (Outcomes{{5, 6}}));
}

TEST(ModelVisibility, AReadThatWasPostedBeforeTheCompletionMayMissTheWrite) {
  Program p;
  Actor& writer = p.client().write(x, 1).signal();  // signals without having waited
  p.client().await(writer).read(x);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{0}, {1}}));
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0}, {1}}));
}

TEST(ModelVisibility, AReadThroughASecondNicMayMissACompletedWrite) {
  Program p;
  p.client({0, 1}).write(x, 1).wait().on(1).read(x);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{1}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0}, {1}})) << name(preset);
  }
}

TEST(ModelVisibility, AReadOfAnotherLinePushesACompletedWriteIntoMemory) {
  Program pushed;
  Actor& writer = pushed.client().write(x, 1, kTwoLines).wait().read(Program::line(3)).wait().signal();
  pushed.cpu().await(writer).load(x).load(y);
  Program other_client;
  Actor& first = other_client.client().write(x, 1).wait().signal();
  Actor& second = other_client.client().await(first).read(Program::line(3)).wait().signal();
  other_client.cpu().await(second).load(x);
  Program alone;
  Actor& lonely = alone.client().write(x, 1).wait().signal();
  alone.cpu().await(lonely).load(x);
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(pushed, preset), (Outcomes{{0, 1, 1}})) << name(preset);
    EXPECT_EQ(outcomes(other_client, preset), (Outcomes{{0, 1}})) << name(preset);
    EXPECT_EQ(outcomes(alone, preset), (Outcomes{{0}, {1}})) << name(preset);
  }
}

// ---- Rule 7.

TEST(ModelVisibility, AWritePostedAfterAnotherQueuePairsCompletionMayBePlacedFirst) {
  Program p;
  Actor& first = p.client().write(x, 1).wait().signal();
  p.client().await(first).write(x, 2);
  p.observe(x);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{2}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{1}, {2}})) << name(preset);
  }
}

TEST(ModelVisibility, RequestsOfDifferentQueuePairsAreNotOrdered) {
  Program p;
  p.client({0, 0}).write(x, 1).on(1).read(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0}, {1}})) << name(preset);
  }
}

// ---- CPU threads.

TEST(ModelVisibility, StoreBuffersAllowBothThreadsToMissEachOther) {
  Program plain;
  plain.cpu().store(x, 1).load(y);
  plain.cpu().store(y, 1).load(x);
  Program fenced;
  fenced.cpu().store(x, 1).mfence().load(y);
  fenced.cpu().store(y, 1).mfence().load(x);
  Program half;
  half.cpu().store(x, 1).mfence().load(y);
  half.cpu().store(y, 1).load(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(plain, preset), (Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}})) << name(preset);
    EXPECT_EQ(outcomes(fenced, preset), (Outcomes{{0, 1}, {1, 0}, {1, 1}})) << name(preset);
    EXPECT_TRUE(reachable(half, preset, {0, 0})) << name(preset);
  }
}

TEST(ModelVisibility, AThreadSeesItsOwnYoungestStoreAtOnce) {
  Program p;
  p.cpu().store(x, 1).store(x, 2).load(x);
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{2}}));
}

TEST(ModelVisibility, StoresOfAThreadDrainInProgramOrder) {
  Program p;
  p.cpu().store(x, 1).store(y, 1);
  p.client().read(y).wait().read(x);
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0, 0}, {0, 1}, {1, 1}}));
}

TEST(ModelVisibility, ARemoteReadMissesAStoreThatHasNotDrained) {
  Program p;
  Actor& thread = p.cpu().store(x, 1).signal();
  p.client().await(thread).read(x);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{0}, {1}}));
  Program fenced;
  Actor& careful = fenced.cpu().store(x, 1).mfence().signal();
  fenced.client().await(careful).read(x);
  EXPECT_EQ(outcomes(fenced, Preset::observed), (Outcomes{{1}}));
}

TEST(ModelVisibility, APostIsBehindItsThreadsEarlierStores) {
  Program read;
  read.cpu_client().store(x, 1).read(x);
  Program fetched;  // the payload is memory that the thread has just stored to
  fetched.cpu_client().store(x, 1).write_from(fetched.bytes(x), y);
  fetched.observe(y);
  Program bound;
  bound.cpu_client().store(x, 1).write_from(bound.bytes(x), y).inlined();
  bound.observe(y);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(read, preset), (Outcomes{{1}})) << name(preset);
    EXPECT_EQ(outcomes(fetched, preset), (Outcomes{{1}})) << name(preset);
    EXPECT_EQ(outcomes(bound, preset), (Outcomes{{1}})) << name(preset);
  }
}

TEST(ModelVisibility, AnInlineWriteCompletesOnlyAfterItsDoorbellLeftTheStoreBuffer) {
  Program p;
  Actor& thread = p.cpu_client().store(x, 1).write(y, 1).wait().signal();
  p.cpu().await(thread).load(x);
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{1}}));
}

TEST(ModelVisibility, APostIsNotAheadOfItsThreadsLaterStores) {
  Program p;
  p.cpu_client().read(x).store(x, 1);
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0}, {1}}));
}

// ---- The search would find a weakness if there were one.

TEST(ModelVisibility, EachWeakenedParameterMakesItsOwnForbiddenOutcomeReachable) {
  Program order;
  order.client().write(x, 1).write(y, 1);
  order.cpu().load(y).load(x);
  Program placement;
  placement.client().write(x, 1, kTwoLines);
  placement.cpu().load(y).load(x);
  Program tearing;
  tearing.client().write(x, 1, 2);
  tearing.client().read(x, {0, 1});
  Program fence;
  fence.client().read(x).write(x, 1).fenced();
  Program atomic;
  Actor& writer = atomic.client().write(x, 5).wait().signal();
  atomic.client().await(writer).faa(x, 1);
  struct Specimen {
    Program& program;
    const char* parameter;
    const char* value;
    Outcome outcome;
  };
  const Specimen specimens[] = {{order, "write_write_ordered", "false", {1, 0}},
                                {placement, "placement", "any", {1, 0}},
                                {tearing, "atom", "8", {1, 0}},
                                {fence, "fence_orders_reads", "false", {1}},
                                {atomic, "atomics_see_writes", "false", {0}}};
  for (const Specimen& specimen : specimens) {
    Rules rules = rules_of(Preset::observed);
    EXPECT_FALSE(reachable(specimen.program, rules, specimen.outcome)) << specimen.parameter;
    set_parameter(rules, specimen.parameter, specimen.value);
    EXPECT_TRUE(reachable(specimen.program, rules, specimen.outcome)) << specimen.parameter;
  }
}

}  // namespace
}  // namespace sidelatch::fabric::model::enumeration
