// Gives jobs shares of a time, and what some of them leave to those whose share was too short.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace sidelatch::checker {

using Seconds = std::chrono::duration<double>;

/// Runs jobs 0 to `jobs` - 1, each within an equal share of the time `left` to all that follow. `run` gets a job and
/// its budget, and returns whether the job ended. One that did not is run once more, from its start, when all have run:
/// if the others have left it more time than it had. Returns how many have not ended. Each job is run, even if no time
/// is left.
std::size_t run_in_shares(std::size_t jobs, const std::function<Seconds()>& left,
                          const std::function<bool(std::size_t job, Seconds budget)>& run);

}  // namespace sidelatch::checker
