// The campaign of chaos.h. SIDELATCH_LONG runs 10 000 seeds of each trouble, CI a sample; docs/reliability.md has the
// table.
#include "chaos.h"

#include "tests/sampled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace sidelatch::structures {
namespace {

using ::testing::IsEmpty;

std::uint64_t chaos_seeds() { return takes_long() ? 10'000 : 25; }

ChaosResult run_campaign(Trouble trouble) {
  ChaosResult sum;
  for (std::uint64_t seed = 1; seed <= chaos_seeds(); ++seed) {
    const ChaosResult result = run_chaos(trouble, seed);
    EXPECT_THAT(result.violations, IsEmpty()) << result.configuration;
    sum.operations += result.operations;
    sum.kills += result.kills;
    sum.lost_connections += result.lost_connections;
    sum.takeovers += result.takeovers;
    sum.in_doubt += result.in_doubt;
  }
  std::printf(
      "%llu seeds, %llu operations, %llu kills, %llu lost connections, %llu takeovers, %llu operations in doubt\n",
      static_cast<unsigned long long>(chaos_seeds()), static_cast<unsigned long long>(sum.operations),
      static_cast<unsigned long long>(sum.kills), static_cast<unsigned long long>(sum.lost_connections),
      static_cast<unsigned long long>(sum.takeovers), static_cast<unsigned long long>(sum.in_doubt));
  return sum;
}

TEST(Chaos, LivingClientsComeToTheirEnd) {
  const ChaosResult sum = run_campaign(Trouble::none);
  EXPECT_GT(sum.operations, 0U);
  EXPECT_EQ(sum.takeovers, 0U);
}

TEST(Chaos, ClientsDie) {
  const ChaosResult sum = run_campaign(Trouble::kills);
  EXPECT_GT(sum.kills, 0U);
  EXPECT_GT(sum.takeovers, 0U);
}

TEST(Chaos, ConnectionsAreLost) {
  const ChaosResult sum = run_campaign(Trouble::connections);
  EXPECT_GT(sum.lost_connections, 0U);
  EXPECT_GT(sum.in_doubt, 0U);
}

// The campaign must be able to fail.
TEST(Chaos, SchemesThatAreWrongAreNoticed) {
  std::uint64_t noticed = 0;
  for (std::uint64_t seed = 1; seed <= 2000 && noticed < 3; ++seed) {
    noticed += run_chaos(Trouble::specimens, seed).violations.empty() ? 0U : 1U;
  }
  EXPECT_EQ(noticed, 3U);
}

}  // namespace
}  // namespace sidelatch::structures
