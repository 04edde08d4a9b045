#include <sidelatch/checker/batch_means.h>

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace sidelatch::checker {
namespace {

using fabric::from_ns;
using fabric::Time;

// Values from any table of Student's distribution.
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

// 20 000 intervals; the number of correct ones is binomial, and 6 standard deviations from 95 % are 185.
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

// 100 ns from 1 000 ns on: windows of 5 ns.
TEST(Windows, CountWhatEndsWithinTheMeasuredTime) {
  Windows windows(Time(from_ns(1000)), from_ns(100));
  EXPECT_FALSE(windows.count(Time(from_ns(999))));
  EXPECT_TRUE(windows.count(Time(from_ns(1000))));
  EXPECT_TRUE(windows.count(Time(from_ns(1004))));
  EXPECT_TRUE(windows.count(Time(from_ns(1005))));
  EXPECT_FALSE(windows.over(Time(from_ns(1099))));
  EXPECT_TRUE(windows.count(Time(from_ns(1099))));
  EXPECT_TRUE(windows.over(Time(from_ns(1100))));
  EXPECT_FALSE(windows.count(Time(from_ns(1100))));
  Windows::Counts expected{};
  expected.front() = 2;
  expected[1] = 1;
  expected.back() = 1;
  EXPECT_EQ(windows.counts(), expected);
  // 4 operations in 100 ns.
  EXPECT_NEAR(rate(windows.counts(), from_ns(100)).mean, 40, 1e-9);
}

TEST(Windows, OfNoTimeAreRefused) {
  EXPECT_THROW(Windows(Time(from_ns(5)), from_ns(0)), std::invalid_argument);
  EXPECT_THROW(Windows(Time(from_ns(5)), from_ns(-1)), std::invalid_argument);
}

// Neighbouring windows are correlated, so the interval is too narrow. Single steps here are correlated by 0.8, sums of
// a hundred hardly at all.
TEST(BatchMeans, ShortWindowsOfACorrelatedSeriesAreTooSureOfThemselves) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal(0, 1);
  constexpr int kRuns = 2'000;
  const auto share_held = [&](int steps_per_window) {
    int holds = 0;
    for (int run = 0; run < kRuns; ++run) {
      double state = normal(random) / 0.6;  // its stationary distribution: 1 / sqrt(1 - 0.8^2)
      std::vector<double> windows(20);
      for (double& window : windows) {
        double sum = 0;
        for (int step = 0; step < steps_per_window; ++step) {
          state = 0.8 * state + normal(random);
          sum += state;
        }
        window = sum / steps_per_window;
      }
      const Estimate estimate = batch_means(windows);
      holds += std::abs(estimate.mean) <= estimate.half_width ? 1 : 0;
    }
    return static_cast<double>(holds) / kRuns;
  };
  EXPECT_LT(share_held(1), 0.75);
  EXPECT_NEAR(share_held(100), 0.95, 0.03);
}

}  // namespace
}  // namespace sidelatch::checker
