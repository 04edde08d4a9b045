#include <sidelatch/checker/parallel.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace sidelatch::checker {
namespace {

using testing::Each;

// Under ThreadSanitizer these also show that it sees the order between caller and jobs.

TEST(ForEachIndex, RunsEachJobOnce) {
  std::vector<int> runs(1000, 0);
  for_each_index(runs.size(), [&](std::size_t i) { ++runs[i]; });
  EXPECT_THAT(runs, Each(1));
}

TEST(ForEachIndex, TheNextLoopSeesWhatTheLastOneWrote) {
  std::vector<std::size_t> values(1000, 0);
  for (std::size_t round = 0; round < 3; ++round) {
    for_each_index(values.size(), [&](std::size_t i) { values[values.size() - 1 - i] += round; });
    for_each_index(values.size(), [&](std::size_t i) { values[i] += round; });
  }
  EXPECT_THAT(values, Each(6));
}

TEST(ForEachIndex, OfNothingCallsNothing) {
  for_each_index(0, [](std::size_t) { FAIL(); });
}

TEST(ForEachIndex, ThrowsWhatAJobThrows) {
  const auto fail_at_7 = [](std::size_t i) {
    if (i == 7) {
      throw std::runtime_error("seven");
    }
  };
  EXPECT_THROW(for_each_index(100, fail_at_7), std::runtime_error);
}

TEST(ForEachIndex, TheNextLoopSharesNothingWithOneThatFailed) {
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(for_each_index(1000, [](std::size_t) { throw std::runtime_error("each"); }), std::runtime_error);
  }
}

}  // namespace
}  // namespace sidelatch::checker
