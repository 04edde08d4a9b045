// The experiments themselves, one file each; and what they share.
#pragma once

#include <sidelatch/bench/experiment.h>
#include <sidelatch/checker/closed_loop.h>
#include <sidelatch/fabric/sim/profile.h>

#include <span>
#include <vector>

namespace sidelatch::bench {

ExperimentResult atomics_contention(const ExperimentOptions& options);
ExperimentResult atomics_stride(const ExperimentOptions& options);
ExperimentResult latch_ablation(const ExperimentOptions& options);
ExperimentResult latch_scaling(const ExperimentOptions& options);
ExperimentResult optimistic_size(const ExperimentOptions& options);
ExperimentResult optimistic_scaling(const ExperimentOptions& options);

/// Runs each loop in a simulation of its own: four client nodes and one storage node, as in TODS 2025, section 2.4.
/// All cores; the results are in the order of the loops and do not depend on the number of cores.
[[nodiscard]] std::vector<double> run_loops(const fabric::sim::Profile& profile, std::uint64_t seed,
                                            std::span<const checker::ClosedLoop> loops);

}  // namespace sidelatch::bench
