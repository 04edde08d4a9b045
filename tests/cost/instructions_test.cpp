// Instructions of an exclusive cycle beyond the fabric itself, counted by callgrind: this program runs itself under it.
#include "callgrind.h"
#include "cycle.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace sidelatch::sync {
namespace {

// The tests that callgrind runs.
TEST(DISABLED_UnderCallgrind, Latched) { Cycle().run_latched(repetitions()); }
TEST(DISABLED_UnderCallgrind, Bare) { Cycle().run_bare(repetitions()); }

TEST(Instructions, AnExclusiveAsyncCycleCostsAtMost700BeyondTheFabric) {
  if (!kCountsInstructions) {
    GTEST_SKIP() << "not an optimized build";
  }
  const double latched = instructions_of("Latched");
  const double bare = instructions_of("Bare");
  std::printf("instructions per cycle: %.0f with latch, %.0f for the same four requests bare\n", latched, bare);
  EXPECT_GT(bare, 100);
  // Some 30 of them remember the unlatch until it has completed (sync/owed.h), some 11 the ways to unlatch that queues
  // and switches have, some 40 what was posted, for a task that is destroyed. Where each file is compiled alone it is
  // 682.
  EXPECT_LE(latched - bare, 700);
}

}  // namespace
}  // namespace sidelatch::sync
