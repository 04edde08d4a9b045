// The oracle's programs for the explorer: each task is one coroutine that interprets its list.
#pragma once

#include "graph.h"

#include <sidelatch/explore/check.h>

#include <set>

namespace sidelatch::explore::oracle {

struct Explored {
  std::set<End> ends;
  Verdict verdict;
};

/// The program as the explorer takes it.
[[nodiscard]] Program program_of(const ProgramList& program);

[[nodiscard]] Explored explore_list(const ProgramList& program, const Options& options);

}  // namespace sidelatch::explore::oracle
