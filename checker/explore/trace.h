// Turns the choices that led to a violation into a readable trace.
#pragma once

#include "search.h"

#include <sidelatch/explore/check.h>

namespace sidelatch::explore {

/// The first of the choices of an execution that a search through states has found.
inline constexpr std::string_view kByStates = "states";
/// The same with Options::part_posts.
inline constexpr std::string_view kPartsPosts = "parts";
/// The same with Options::part_completions.
inline constexpr std::string_view kPartsCompletions = "completions";

/// Removes events that the violation does not depend on, reorders the rest so that actors change seldom, and runs it
/// again to describe each step.
[[nodiscard]] Violation make_violation(const Program& program, const Options& options, const Found& found);

}  // namespace sidelatch::explore
