// One program under one model, by the explorer and by the oracle.
#pragma once

#include "coroutine.h"
#include "graph.h"
#include "program.h"

#include <cstdint>
#include <string>

namespace sidelatch::explore::oracle {

struct Limits {
  std::size_t states = 10'000;       ///< of the oracle
  std::uint64_t executions = 1'000;  ///< of the explorer
  Mode mode = Mode::exhaustive;      ///< of the explorer
};

struct Comparison {
  bool was_made = false;   ///< the oracle found all states
  std::string difference;  ///< what the two disagree about; empty if nothing
  Answer answer;
  Explored explored;
};

/// The preset's rules, for some seeds with other parameters.
[[nodiscard]] fabric::model::Rules rules_for(fabric::model::Preset preset, std::uint64_t seed);

[[nodiscard]] Comparison compare(const ProgramList& program, const fabric::model::Rules& rules, const Limits& limits);
/// The same with the oracle's answer.
[[nodiscard]] Comparison compare(const ProgramList& program, const fabric::model::Rules& rules, const Limits& limits,
                                 Answer answer);

/// The program, both answers, and what the first violation is.
[[nodiscard]] std::string to_string(const ProgramList& program, const Comparison& comparison);

}  // namespace sidelatch::explore::oracle
