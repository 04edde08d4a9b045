// The library's own loops say that their frames keep nothing of a failed attempt. If the explorer looks at these frames
// too, it finds the same, only later.
#include <sidelatch/explore/scheme_check.h>

#include "checking.h"

#include <gtest/gtest.h>

#include <string>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;

struct ForgottenCell {
  const char* scheme;
  Preset preset;
};

class Forgotten : public ::testing::TestWithParam<ForgottenCell> {};

TEST_P(Forgotten, LoopsHaveTheSameVerdictWhereTheirFramesAreLookedAt) {
  CellOptions options;
  options.options.rules = rules_of(GetParam().preset);
  options.options.max_executions = 20'000;
  const Verdict trusted = explore_cell(GetParam().scheme, options).verdict;
  options.options.look_at_all_frames = true;
  const Verdict looked_at = explore_cell(GetParam().scheme, options).verdict;
  EXPECT_EQ(trusted.outcome, looked_at.outcome) << to_text(trusted) << to_text(looked_at);
  EXPECT_EQ(trusted.outcome, Outcome::safe) << to_text(trusted);
  EXPECT_GT(looked_at.executions, trusted.executions);
}

INSTANTIATE_TEST_SUITE_P(Cells, Forgotten,
                         ::testing::Values(ForgottenCell{"latch-exclusive/basic", Preset::strict},
                                           ForgottenCell{"latch-exclusive/basic", Preset::observed},
                                           ForgottenCell{"latch-exclusive/combined", Preset::strict},
                                           ForgottenCell{"optimistic/two-read", Preset::strict},
                                           ForgottenCell{"optimistic/farm", Preset::strict}),
                         [](const auto& cell) { return "cell_" + std::to_string(cell.index); });

}  // namespace
}  // namespace sidelatch::explore
