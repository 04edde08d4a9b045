#include "checker/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace sidelatch::checker {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Jobs that need so many seconds each, on a clock that only they move.
struct Jobs {
  std::vector<double> needs;
  double left = 0;
  std::vector<std::pair<std::size_t, double>> runs = {};

  std::size_t run() {
    return run_in_shares(
        needs.size(), [this] { return Seconds(left); },
        [this](std::size_t job, Seconds budget) {
          runs.emplace_back(job, budget.count());
          left -= std::min(needs[job], budget.count());
          return needs[job] <= budget.count();
        });
  }
};

TEST(Shares, AJobGetsAnEqualShareOfWhatThoseBeforeItHaveLeft) {
  Jobs jobs{.needs = {1, 2, 3}, .left = 12};
  EXPECT_EQ(jobs.run(), 0U);
  EXPECT_THAT(jobs.runs, ElementsAre(Pair(0, 4), Pair(1, 5.5), Pair(2, 9)));
}

TEST(Shares, OneThatWasCutIsRunAgainWithWhatTheOthersLeave) {
  Jobs jobs{.needs = {10, 0, 0, 0}, .left = 20};
  EXPECT_EQ(jobs.run(), 0U);
  EXPECT_THAT(jobs.runs, ElementsAre(Pair(0, 5), Pair(1, 5), Pair(2, 7.5), Pair(3, 15), Pair(0, 15)));
}

TEST(Shares, OneThatWouldGetNoMoreThanBeforeIsNotRunAgain) {
  Jobs jobs{.needs = {100, 100}, .left = 10};
  EXPECT_EQ(jobs.run(), 2U);
  EXPECT_THAT(jobs.runs, ElementsAre(Pair(0, 5), Pair(1, 5)));
}

TEST(Shares, AllThatWereCutShareWhatIsLeft) {
  Jobs jobs{.needs = {100, 14, 0, 0, 0}, .left = 50};
  EXPECT_EQ(jobs.run(), 1U);
  EXPECT_THAT(jobs.runs,
              ElementsAre(Pair(0, 10), Pair(1, 10), Pair(2, 10), Pair(3, 15), Pair(4, 30), Pair(0, 15), Pair(1, 15)));
}

TEST(Shares, WithoutTimeEachJobIsRunOnce) {
  Jobs jobs{.needs = {1, 0}, .left = 0};
  EXPECT_EQ(jobs.run(), 1U);
  EXPECT_THAT(jobs.runs, ElementsAre(Pair(0, 0), Pair(1, 0)));
}

}  // namespace
}  // namespace sidelatch::checker
