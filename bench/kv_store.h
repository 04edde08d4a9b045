// The key/value store of TODS 2025 in several sizes: the experiments run the paper's, tests a small one.
#pragma once

#include "table_load.h"

#include <sidelatch/bench/experiment.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace sidelatch::bench {

struct StoreScale {
  std::uint64_t tuples = 20'000'000;
  std::uint32_t workers = 112;
  std::vector<double> exponents = {0, 0.5, 1, 1.5, 2};  ///< ascending; must contain 0, 1, 1.5 and 2
  fabric::Duration measured = fabric::from_ns(2'000'000);
  /// For exponents from 1 on: a few tuples dominate, and rates vary for longer.
  fabric::Duration measured_skewed = fabric::from_ns(5'000'000);
  /// For writers with exponents from 1.5 on: an operation may take 3 ms. A fifth of this time is the warm-up.
  fabric::Duration measured_contended = fabric::from_ns(50'000'000);
};

/// TODS 2025, figure 10, tuples of 256 bytes, and in part 512: N11, N12 and N26.
[[nodiscard]] ExperimentResult kv_store(const ExperimentOptions& options, const StoreScale& scale);
/// TODS 2025, figure 16, with the scale's workers, and in part with half as many: N17 and N28.
[[nodiscard]] ExperimentResult kv_store_512(const ExperimentOptions& options, const StoreScale& scale);

/// A way to run the store: a scheme and a layout.
struct StoreLine {
  std::string name;
  std::function<std::unique_ptr<sync::Scheme>()> make;
  sync::LayoutKind layout = sync::LayoutKind::padded;
  std::optional<Practice> practice{};  ///< default: the experiment's
};

/// The lines' rates under the three mixes of the paper, by skew.
class StoreCurves {
 public:
  enum class MixOf : std::uint8_t { write_only, mixed, read_only };
  static constexpr std::size_t kMixes = 3;

  StoreCurves(const ExperimentOptions& options, const StoreScale& scale, std::uint64_t tuple_bytes,
              std::vector<StoreLine> lines,
              std::vector<MixOf> mixes = {MixOf::write_only, MixOf::mixed, MixOf::read_only});

  /// Throws std::out_of_range if this was not measured.
  [[nodiscard]] const checker::Estimate& mops(MixOf mix, std::size_t line, double exponent) const;
  /// `what` is added to the names of the panels.
  [[nodiscard]] std::vector<Series> series(const std::string& what = {}) const;

 private:
  std::vector<double> exponents_;
  std::vector<StoreLine> lines_;
  std::vector<MixOf> mixes_;
  std::vector<TableResult> results_;  // by mix, line and exponent
};

}  // namespace sidelatch::bench
