// TODS 2025, figure 9: optimized exclusive latches over 20 000 tuples of 256 bytes, by workers, against a READ and a
// WRITE without any synchronization.
#include "experiments.h"
#include "scheme_load.h"
#include "unsynchronised.h"

#include <sidelatch/sync/exclusive_latch.h>

#include <fmt/format.h>

#include <array>

namespace sidelatch::bench {

using namespace sync;

namespace {}  // namespace

ExperimentResult latch_scaling(const ExperimentOptions& options) {
  static constexpr std::array<std::uint32_t, 3> kWorkers = {8, 32, 128};
  struct Line {
    std::string name;
    std::function<std::unique_ptr<Scheme>()> make;
  };
  std::vector<Line> lines;
  for (const LatchLevel level : {LatchLevel::basic, LatchLevel::speculative, LatchLevel::combined, LatchLevel::async}) {
    lines.push_back({std::string(name(level)), [level] { return std::make_unique<ExclusiveLatch>(level); }});
  }
  lines.push_back({"unsynchronised", [] { return std::make_unique<Unsynchronised>(); }});
  std::vector<SchemeLoad> loads;
  for (const Line& line : lines) {
    for (const std::uint32_t workers : kWorkers) {
      loads.push_back({.make = line.make, .tuple_bytes = kLatchedTuple, .workers = workers, .updates = true});
    }
  }
  const Curves mops(kWorkers, run_loads(options, loads), &LoadResult::mops);

  ExperimentResult result = begin_result("latch-scaling", options, "workers");
  for (std::size_t l = 0; l < lines.size(); ++l) {
    result.series.push_back(mops.series(l, lines[l].name, "Mops/s"));
  }
  constexpr std::size_t kCombined = 2;
  constexpr std::size_t kAsync = 3;
  constexpr std::size_t kNothing = 4;
  // "Equals" means: within 10 %.
  const double few = mops.at(kAsync, 8) / mops.at(kNothing, 8);
  const double some = mops.at(kAsync, 32) / mops.at(kNothing, 32);
  result.targets.push_back(
      shape_target("N10.equal", few > 0.9 && few < 1.1 && some > 0.9 && some < 1.1,
                   fmt::format("async over unsynchronised: {:.2f} with 8 workers, {:.2f} with 32", few, some)));
  result.targets.push_back(
      shape_target("N10.counterproductive", mops.at(kAsync, 128) < mops.at(kCombined, 128),
                   fmt::format("with 128 workers: {:.2f} Mops/s combined, {:.2f} async, {:.2f} unsynchronised",
                               mops.at(kCombined, 128), mops.at(kAsync, 128), mops.at(kNothing, 128))));
  return result;
}

}  // namespace sidelatch::bench
