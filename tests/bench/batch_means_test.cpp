#include "bench/batch_means.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <vector>

namespace sidelatch::bench {
namespace {

// Any table of Student's distribution.
TEST(StudentT, IsTheTablesValue) {
  EXPECT_NEAR(student_t_975(5), 2.5706, 1e-3);
  EXPECT_NEAR(student_t_975(9), 2.2622, 1e-3);
  EXPECT_NEAR(student_t_975(19), 2.0930, 1e-3);
  EXPECT_NEAR(student_t_975(1000), 1.9623, 1e-3);
}

TEST(BatchMeans, GiveMeanAndHalfWidth) {
  const Estimate estimate = batch_means(std::vector<double>{1, 3, 1, 3, 1, 3, 1, 3, 1, 3});
  EXPECT_DOUBLE_EQ(estimate.mean, 2);
  EXPECT_NEAR(estimate.half_width, 2.2622 * 1.054093 / 3.162278, 1e-3);  // t s / sqrt(n)
}

TEST(BatchMeans, EqualWindowsLeaveNoDoubt) { EXPECT_DOUBLE_EQ(batch_means(std::vector<double>(20, 7)).half_width, 0); }

// 20 000 intervals; the number that holds is binomial, and 6 standard deviations from 95 % are 185.
TEST(BatchMeans, HoldTheTruthInNinetyFiveOfAHundred) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(10, 3);
  constexpr int kRuns = 20'000;
  int holds = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> windows(20);
    for (double& window : windows) {
      window = normal(random);
    }
    const Estimate estimate = batch_means(windows);
    holds += estimate.mean - estimate.half_width <= 10 && 10 <= estimate.mean + estimate.half_width ? 1 : 0;
  }
  EXPECT_NEAR(holds, 0.95 * kRuns, 185);
}

TEST(BatchMeans, NeedTenWindows) {
  EXPECT_THROW(static_cast<void>(batch_means(std::vector<double>(9, 1))), std::invalid_argument);
  EXPECT_NO_THROW(static_cast<void>(batch_means(std::vector<double>(10, 1))));
}

}  // namespace
}  // namespace sidelatch::bench
