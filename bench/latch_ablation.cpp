// TODS 2025, figure 8: one worker, one tuple of 256 bytes, latch optimizations switched on one after the other.
#include "experiments.h"
#include "scheme_load.h"

#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/rw_latch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace sidelatch::bench {

using namespace sync;

ExperimentResult latch_ablation(const ExperimentOptions& options) {
  static constexpr std::array kLevels = {LatchLevel::basic, LatchLevel::speculative, LatchLevel::combined,
                                         LatchLevel::async};
  std::vector<SchemeLoad> loads;
  const auto add = [&](auto make, LayoutKind layout, bool updates) {
    loads.push_back({.make = make,
                     .layout = layout,
                     .tuple_bytes = kLatchedTuple,
                     .objects = 1,
                     .client_nodes = 1,
                     .updates = updates});
  };
  for (const LatchLevel level : kLevels) {
    add([level] { return std::make_unique<ExclusiveLatch>(level); }, LayoutKind::interleaved, true);
  }
  // Write unlatch is added to the other optimizations.
  add([] { return std::make_unique<ExclusiveLatch>(Acquire::speculative, WriteUnlatch::async); }, LayoutKind::footer,
      true);
  for (const LatchLevel level : kLevels) {
    add([level] { return std::make_unique<RwLatch>(level); }, LayoutKind::interleaved, false);
  }
  const std::vector<LoadResult> seen = run_loads(options, loads);

  ExperimentResult result = begin_result("latch-ablation", options, "optimization", Scale::categories);
  result.x_names = {"basic", "speculative", "combined", "async", "write unlatch"};
  Series exclusive{.name = "exclusive", .unit = "Mops/s"};
  Series shared{.name = "shared", .unit = "Mops/s"};
  constexpr std::size_t kExclusive = kLevels.size() + 1;
  for (std::size_t i = 0; i < kExclusive; ++i) {
    exclusive.points.push_back(point(static_cast<double>(i + 1), seen[i].mops));
  }
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    shared.points.push_back(point(static_cast<double>(i + 1), seen[kExclusive + i].mops));
  }
  result.series = {exclusive, shared};
  const auto mops = [&](std::size_t i) { return seen[i].mops.mean; };
  // "Adds little" means: proportionally less than any of the other optimizations.
  const bool rising = mops(0) < mops(1) && mops(1) < mops(2) && mops(2) < mops(3);
  const bool little = mops(4) / mops(3) < std::min({mops(1) / mops(0), mops(2) / mops(1), mops(3) / mops(2)});
  result.targets.push_back(
      shape_target("N9", rising && little,
                   fmt::format("{:.3f} basic, {:.3f} speculative, {:.3f} combined, {:.3f} async, {:.3f} write unlatch",
                               mops(0), mops(1), mops(2), mops(3), mops(4))));
  const double basic = mops(kExclusive) / mops(0);
  const double highest = mops(kExclusive + 3) / mops(3);
  // "Converge" means: the highest levels are nearer to each other than the basic ones.
  result.targets.push_back(
      shape_target("N24", basic > 1 && std::abs(highest - 1) < basic - 1,
                   fmt::format("shared over exclusive: {:.2f} basic, {:.2f} async", basic, highest)));
  return result;
}

}  // namespace sidelatch::bench
