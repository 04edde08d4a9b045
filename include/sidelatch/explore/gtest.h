// The explorer in a GoogleTest: an assertion that prints the trace of what went wrong.
//
//   TEST(MyScheme, IsSafe) {
//     const MyScheme scheme;
//     EXPECT_TRUE(explore::is_safe(explore::scheme_program(scheme, checker::Promise::latch_equivalent, {.readers = 1}),
//                                  {.rules = rules_of(Preset::spec)}));
//   }
//
// This header needs GoogleTest; the rest of the library does not.
#pragma once

#include <sidelatch/explore/check.h>

#include <gtest/gtest.h>

namespace sidelatch::explore {

/// Fails with the trace if the program is broken, and with the bound if not everything was explored.
[[nodiscard]] inline ::testing::AssertionResult is_safe(const Program& program, const Options& options) {
  const Verdict verdict = check(program, options);
  ::testing::AssertionResult result =
      verdict.outcome == Outcome::safe ? ::testing::AssertionSuccess() : ::testing::AssertionFailure();
  return result << to_text(verdict);
}

/// Like is_safe(), for programs with loops whose failed attempts others can see: also succeeds if nothing is left open
/// but what more attempts than Options::writing_retries might do. That is no proof.
[[nodiscard]] inline ::testing::AssertionResult is_safe_within_retries(const Program& program, const Options& options) {
  const Verdict verdict = check(program, options);
  ::testing::AssertionResult result = verdict.outcome == Outcome::safe || verdict.only_loops_bounded
                                          ? ::testing::AssertionSuccess()
                                          : ::testing::AssertionFailure();
  return result << to_text(verdict);
}

/// Fails with the number of executions if the program is safe, and with the trace if it is broken in another way.
[[nodiscard]] inline ::testing::AssertionResult is_broken(const Program& program, const Options& options, Kind kind) {
  const Verdict verdict = check(program, options);
  const bool as_wanted = verdict.violation && verdict.violation->kind == kind;
  ::testing::AssertionResult result =
      as_wanted ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "not a " << name(kind) << "; ";
  return result << to_text(verdict);
}

}  // namespace sidelatch::explore
