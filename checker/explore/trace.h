// From the choices that led to a violation to a trace that a person can read.
#pragma once

#include "search.h"

#include <sidelatch/explore/check.h>

namespace sidelatch::explore {

/// Leaves out what the violation does not depend on, orders the rest so that actors change seldom, and runs it once
/// more to describe each step.
[[nodiscard]] Violation make_violation(const Program& program, const Options& options, const Found& found);

}  // namespace sidelatch::explore
