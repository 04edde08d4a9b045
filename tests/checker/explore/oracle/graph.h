// All states of a program, and what is wrong with it: the oracle's answer.
#pragma once

#include "machine.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace sidelatch::explore::oracle {

/// Memory, then for each task whether it ended, its registers and its buffer's slots; of a client that crashed nothing.
using End = std::vector<std::uint64_t>;

struct Answer {
  bool is_complete = false;  ///< all states were found
  std::size_t states = 0;
  std::set<End> ends;  ///< in which every task has ended and nothing is under way
  // What happens after a lease has ended although nobody has crashed is in no end, and its faults count apart: the
  // explorer tries it in one order only, to tell who waits for ever.
  bool fails_late = false;
  bool races_late = false;
  bool fails = false;  ///< an assertion
  bool races = false;  ///< a buffer changed too early
  /// A task waits, and nothing more happens; or it may try for ever, although everybody who could help takes steps.
  bool is_stuck = false;

  [[nodiscard]] bool is_clean() const noexcept { return !fails && !races && !is_stuck; }
};

/// Gives up after so many states.
[[nodiscard]] Answer explore_all(const ProgramList& program, const fabric::model::Rules& rules, std::size_t most);

[[nodiscard]] End end_of(const ProgramList& program, const State& state);

}  // namespace sidelatch::explore::oracle
