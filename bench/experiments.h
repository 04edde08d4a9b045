// The experiments, one file each, and their shared functions.
#pragma once

#include <sidelatch/bench/experiment.h>
#include <sidelatch/checker/batch_means.h>
#include <sidelatch/checker/closed_loop.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::bench {

ExperimentResult atomics_contention(const ExperimentOptions& options);
ExperimentResult atomics_stride(const ExperimentOptions& options);
ExperimentResult connectx7_stride(const ExperimentOptions& options);
ExperimentResult flow_batching(const ExperimentOptions& options);
ExperimentResult flow_control(const ExperimentOptions& options);
ExperimentResult flow_kinds(const ExperimentOptions& options);
ExperimentResult flow_latency(const ExperimentOptions& options);
ExperimentResult kv_store(const ExperimentOptions& options);
ExperimentResult kv_store_512(const ExperimentOptions& options);
ExperimentResult latch_ablation(const ExperimentOptions& options);
ExperimentResult latch_scaling(const ExperimentOptions& options);
ExperimentResult optimistic_size(const ExperimentOptions& options);
ExperimentResult optimistic_scaling(const ExperimentOptions& options);
ExperimentResult smartnic_latch(const ExperimentOptions& options);
ExperimentResult switch_atomics(const ExperimentOptions& options);
ExperimentResult switch_latency(const ExperimentOptions& options);
ExperimentResult switch_optimistic(const ExperimentOptions& options);
ExperimentResult torn_reads(const ExperimentOptions& options);
ExperimentResult btree_lookups(const ExperimentOptions& options);
ExperimentResult ycsb_btree(const ExperimentOptions& options);
ExperimentResult ycsb_hash_table(const ExperimentOptions& options);

/// A result without series and targets.
[[nodiscard]] ExperimentResult begin_result(std::string_view experiment, const ExperimentOptions& options,
                                            std::string x_label, Scale x_scale = Scale::log);

/// Millions of operations per second of each loop, in the loops' order. Each runs at a site of its own (site.h).
[[nodiscard]] std::vector<checker::Estimate> run_loops(const ExperimentOptions& options,
                                                       std::span<const checker::ClosedLoop> loops);

/// An experiment's results for each of its lines at the same values of x. `results` are in the order in which the
/// experiments run: all values of x of line 0, then those of line 1, and so on.
class Curves {
 public:
  template <std::ranges::input_range Xs, std::ranges::input_range Results, class Figure = std::identity>
  Curves(const Xs& xs, const Results& results, Figure figure = {}) : xs_(xs.begin(), xs.end()) {
    std::ranges::transform(results, std::back_inserter(ys_), figure);
  }

  /// Takes the value of x, not its position. Throws std::out_of_range if it was not measured.
  [[nodiscard]] double at(std::size_t line, std::uint64_t x) const;
  [[nodiscard]] double highest(std::size_t line) const;
  [[nodiscard]] Series series(std::size_t line, std::string name, std::string unit, std::string panel = {}) const;

 private:
  [[nodiscard]] const checker::Estimate& estimate(std::size_t line, std::uint64_t x) const;

  std::vector<std::uint64_t> xs_;
  std::vector<checker::Estimate> ys_;
};

/// The lesser and the greater of two. Not a number (0 / 0, where nothing was done) is the result if either is: so no
/// shape holds for what was not measured.
[[nodiscard]] inline double lesser(double a, double b) { return std::isnan(a) || a < b ? a : b; }
[[nodiscard]] inline double greater(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// What a paper's text says of a line, for the charts: points without intervals.
[[nodiscard]] Series from_paper(const std::string& of, std::string unit, std::vector<Point> points,
                                std::string panel = {});

/// A point of a series.
[[nodiscard]] Point point(double x, const checker::Estimate& y);

}  // namespace sidelatch::bench
