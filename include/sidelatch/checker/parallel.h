// Runs independent jobs on all cores.
//
//   std::vector<Result> results(jobs.size());
//   for_each_index(jobs.size(), [&](std::size_t i) { results[i] = run(jobs[i]); });
//
// Every job sees what the caller wrote before, and the caller sees what every job wrote. Jobs run in no particular
// order and must not wait for each other. The first exception that leaves a job is thrown to the caller, and jobs that
// have not begun by then are dropped.
#pragma once

#include <cstddef>
#include <functional>

namespace sidelatch::checker {

/// Calls `job(0)` to `job(count - 1)`, each once, and returns when all have ended.
void for_each_index(std::size_t count, const std::function<void(std::size_t)>& job);

}  // namespace sidelatch::checker
