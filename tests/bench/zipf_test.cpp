#include <sidelatch/bench/zipf.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace sidelatch::bench {
namespace {

std::vector<double> exact_probabilities(std::uint64_t items, double exponent) {
  std::vector<double> probabilities;
  double sum = 0;
  for (std::uint64_t rank = items; rank > 0; --rank) {  // the small ones first
    probabilities.push_back(std::pow(static_cast<double>(rank), -exponent));
    sum += probabilities.back();
  }
  std::ranges::reverse(probabilities);
  for (double& probability : probabilities) {
    probability /= sum;
  }
  return probabilities;
}

// A variable with a chi-square distribution of k degrees of freedom exceeds k + 2 sqrt(k t) + 2 t with a probability of
// at most e^-t (B. Laurent, P. Massart, Annals of Statistics 28(5), 2000, lemma 1): with t = 20, 2 in 10^9. The
// statistic below nearly has that distribution, because at least 25 draws are expected in each bin.
double hardly_exceeded(double degrees_of_freedom) {
  constexpr double kT = 20;
  return degrees_of_freedom + 2 * std::sqrt(degrees_of_freedom * kT) + 2 * kT;
}

struct Fit {
  double chi_square = 0;
  double degrees_of_freedom = 0;
};

// Neighbouring ranks share a bin until it has 25 expected draws.
Fit fit_of(std::uint64_t items, double exponent, std::uint64_t draws, std::uint64_t seed) {
  const Zipf zipf(items, exponent);
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> counts(items);
  for (std::uint64_t i = 0; i < draws; ++i) {
    ++counts.at(zipf(random));
  }
  constexpr double kFewest = 25;
  const std::vector<double> probabilities = exact_probabilities(items, exponent);
  std::vector<double> left(items + 1);  // expected draws from this rank on
  for (std::uint64_t rank = items; rank > 0; --rank) {
    left[rank - 1] = left[rank] + probabilities[rank - 1] * static_cast<double>(draws);
  }
  Fit fit;
  double expected = 0;
  double seen = 0;
  double bins = 0;
  for (std::uint64_t rank = 0; rank < items; ++rank) {
    expected += probabilities[rank] * static_cast<double>(draws);
    seen += static_cast<double>(counts[rank]);
    if ((expected >= kFewest && left[rank + 1] >= kFewest) || rank + 1 == items) {
      fit.chi_square += (seen - expected) * (seen - expected) / expected;
      ++bins;
      expected = seen = 0;
    }
  }
  fit.degrees_of_freedom = bins - 1;
  return fit;
}

class ZipfByExponent : public ::testing::TestWithParam<double> {};

TEST_P(ZipfByExponent, DrawsRanksInProportion) {
  for (const std::uint64_t items : {2U, 3U, 1000U, 200'000U}) {
    const Fit fit = fit_of(items, GetParam(), 300'000, items);
    EXPECT_LE(fit.chi_square, hardly_exceeded(fit.degrees_of_freedom)) << items << " items";
    EXPECT_GE(fit.degrees_of_freedom, 1) << items << " items";
  }
}

INSTANTIATE_TEST_SUITE_P(Exponents, ZipfByExponent,
                         ::testing::Values(0.0, 0.3, 0.5, 0.99, 1.0, 1.0000001, 1.5, 2.0, 3.7));

// The bound is sharp enough to reject a distribution that is slightly wrong.
TEST(Zipf, AWrongExponentWouldBeSeen) {
  const Zipf zipf(1000, 1.02);
  std::mt19937_64 random(1);
  std::vector<double> counts(1000);
  constexpr double kSamples = 300'000;
  for (int i = 0; i < static_cast<int>(kSamples); ++i) {
    ++counts.at(zipf(random));
  }
  const std::vector<double> probabilities = exact_probabilities(1000, 1);
  double chi_square = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const double expected = probabilities[rank] * kSamples;
    chi_square += (counts[rank] - expected) * (counts[rank] - expected) / expected;
  }
  EXPECT_GT(chi_square, hardly_exceeded(999));
}

// The sum of 1 / r^2 is pi^2 / 6 less 1 / items. The bound is 7 standard deviations, which a binomial variable exceeds
// with a probability of 10^-11.
TEST(Zipf, TwentyMillionItemsNeedNoTable) {
  constexpr std::uint64_t kItems = 20'000'000;
  constexpr int kSamples = 200'000;
  const Zipf zipf(kItems, 2);
  std::mt19937_64 random(3);
  int first = 0;
  for (int i = 0; i < kSamples; ++i) {
    const std::uint64_t rank = zipf(random);
    ASSERT_LT(rank, kItems);
    first += rank == 0 ? 1 : 0;
  }
  const double probability = 6 / (M_PI * M_PI);
  EXPECT_NEAR(first, probability * kSamples, 7 * std::sqrt(kSamples * probability * (1 - probability)));
}

TEST(Zipf, EveryItemIsReached) {
  const Zipf zipf(10, 0);
  std::mt19937_64 random(1);
  std::vector<int> counts(10);
  for (int i = 0; i < 1000; ++i) {
    ++counts.at(zipf(random));
  }
  EXPECT_THAT(counts, ::testing::Each(::testing::Gt(0)));
}

TEST(Zipf, OneItemIsAlwaysThatItem) {
  std::mt19937_64 random(1);
  for (const double exponent : {0.0, 1.0, 2.0}) {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(Zipf(1, exponent)(random), 0U);
    }
  }
}

TEST(Zipf, EqualSeedsGiveEqualRanks) {
  const Zipf zipf(20'000'000, 0.99);
  std::mt19937_64 one(7);
  std::mt19937_64 other(7);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(zipf(one), zipf(other));
  }
}

TEST(Zipf, RefusesWhatIsNoDistribution) {
  EXPECT_THROW(Zipf(0, 1), std::invalid_argument);
  EXPECT_THROW(Zipf(10, -0.1), std::invalid_argument);
  EXPECT_THROW(Zipf(10, std::numeric_limits<double>::infinity()), std::invalid_argument);
  EXPECT_THROW(Zipf(10, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

TEST(Scatter, IsABijection) {
  for (const std::uint64_t items : {1U, 2U, 3U, 10U, 16U, 17U, 97U, 1000U, 65'536U, 100'003U}) {
    const Scatter scatter(items);
    std::vector<bool> reached(items);
    for (std::uint64_t i = 0; i < items; ++i) {
      const std::uint64_t to = scatter(i);
      ASSERT_LT(to, items);
      ASSERT_FALSE(reached[to]) << items << " items: two go to " << to;
      reached[to] = true;
    }
  }
}

// A random bijection would fill the lock slots of unpadded tuples evenly; the bound is the same as above.
TEST(Scatter, PopularKeysDoNotNeighbour) {
  constexpr std::uint64_t kItems = 20'000'000;
  constexpr std::uint64_t kSlots = 16;
  constexpr std::uint64_t kPopular = 4096;
  const Scatter scatter(kItems);
  std::vector<double> slots(kSlots);
  int neighbours = 0;
  for (std::uint64_t rank = 0; rank < kPopular; ++rank) {
    ++slots.at(scatter(rank) % kSlots);
    const std::uint64_t here = scatter(rank);
    const std::uint64_t next = scatter(rank + 1);
    neighbours += (here > next ? here - next : next - here) < 1000 ? 1 : 0;
  }
  double chi_square = 0;
  for (const double count : slots) {
    const double expected = static_cast<double>(kPopular) / kSlots;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LE(chi_square, hardly_exceeded(kSlots - 1));
  EXPECT_LE(neighbours, 15);  // 0.4 expected; a Poisson variable exceeds 15 with a probability below 10^-19
}

TEST(Scatter, SeedsGiveDifferentBijections) {
  EXPECT_NE(Scatter(1000, 1)(0), Scatter(1000, 2)(0));
  EXPECT_EQ(Scatter(1000, 2)(0), Scatter(1000, 2)(0));
}

TEST(Scatter, RefusesWhatIsNotThere) {
  EXPECT_THROW(Scatter(0), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(Scatter(10)(10)), std::out_of_range);
}

}  // namespace
}  // namespace sidelatch::bench
