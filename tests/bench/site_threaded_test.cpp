#include "bench/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::bench {
namespace {

using fabric::from_ns;

TEST(Site, HasTheNodesAndMemoryOfItsShape) {
  run_points(
      {}, 1, [](std::size_t) { return SiteShape{.client_nodes = 3, .memory_nodes = 2}; },
      [](Site& site, std::size_t) {
        EXPECT_EQ(site.clients().size(), 3U);
        ASSERT_EQ(site.memory_nodes().size(), 2U);
        EXPECT_NE(site.memory_nodes()[0], site.memory_nodes()[1]);
        const std::vector<fabric::RemoteSpan> memory = site.allocate(4096);
        ASSERT_EQ(memory.size(), 2U);
        EXPECT_EQ(memory[1].length, 4096U);
        EXPECT_EQ(site.rank().ranks, 1U);
      });
}

TEST(Site, OfNoNodesIsRefused) {
  const auto run = [](SiteShape shape) {
    run_points(
        {}, 1, [&](std::size_t) { return shape; }, [](Site&, std::size_t) {});
  };
  EXPECT_THROW(run({.client_nodes = 0}), std::invalid_argument);
  EXPECT_THROW(run({.memory_nodes = 0}), std::invalid_argument);
}

// 3 operations per window of 50 ns: 60 millions per second.
TEST(Site, GivesTheRateOfItsMeasuredTime) {
  run_points(
      {}, 1, [](std::size_t) { return SiteShape{.measured = from_ns(1000)}; },
      [](Site& site, std::size_t) {
        checker::Windows::Counts counts{};
        counts.fill(3);
        const checker::Estimate mops = site.mops(counts);
        EXPECT_NEAR(mops.mean, 60, 1e-9);
        EXPECT_NEAR(mops.half_width, 0, 1e-9);
      });
}

TEST(Points, RunOnceEachWithSeedsOfTheirOwnAndTellTheirProgress) {
  std::mutex lock;
  std::set<std::pair<std::size_t, std::uint64_t>> seen;
  std::vector<std::size_t> told;
  const ExperimentOptions options{.seed = 7, .progress = [&](std::size_t done, std::size_t all) {
                                    EXPECT_EQ(all, 20U);
                                    told.push_back(done);
                                  }};
  run_points(
      options, 20, [](std::size_t) { return SiteShape{}; },
      [&](Site& site, std::size_t i) {
        const std::lock_guard guard(lock);
        EXPECT_TRUE(seen.emplace(i, site.seed()).second);
      });
  ASSERT_EQ(seen.size(), 20U);
  for (const auto& [point, seed] : seen) {
    EXPECT_EQ(seed, 7 + point);
  }
  ASSERT_EQ(told.size(), 20U);
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i], i + 1);
  }
}

TEST(Points, EndAtOnceWhenInterrupted) {
  std::atomic<bool> interrupted = false;
  std::atomic<int> begun = 0;
  EXPECT_THROW(run_points(
                   {.interrupted = &interrupted}, 1000, [](std::size_t) { return SiteShape{}; },
                   [&](Site&, std::size_t) {
                     ++begun;
                     interrupted = true;
                   }),
               Interrupted);
  EXPECT_LT(begun, 1000);
}

TEST(Points, HandOnWhatAJobThrows) {
  EXPECT_THROW(run_points(
                   {}, 4, [](std::size_t) { return SiteShape{}; },
                   [](Site&, std::size_t i) {
                     if (i == 2) {
                       throw std::length_error("point 2");
                     }
                   }),
               std::length_error);
}

}  // namespace
}  // namespace sidelatch::bench
