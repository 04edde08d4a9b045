// TODS 2025, figure 9: optimized exclusive latches over 20 000 tuples of 256 bytes, by workers, against a READ and a
// WRITE without any synchronization.
#include "experiments.h"
#include "scheme_load.h"
#include "unsynchronised.h"

#include <sidelatch/sync/exclusive_latch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace sidelatch::bench {

using namespace sync;

ExperimentResult latch_scaling(const ExperimentOptions& options) {
  static constexpr std::array<std::uint32_t, 3> kWorkers = {8, 32, 128};
  // With the most workers the levels differ by the conflicts of latches alone, of which there are few.
  static constexpr fabric::Duration kLonger = fabric::from_ns(10'000'000);
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
      SchemeLoad load{.make = line.make, .tuple_bytes = kLatchedTuple, .workers = workers, .updates = true};
      if (workers == kWorkers.back()) {
        load.measured = kLonger;
      }
      loads.push_back(std::move(load));
    }
  }
  const std::size_t in_figure = loads.size();
  for (const std::uint32_t workers : kWorkers) {
    loads.push_back({.make = lines[3].make,
                     .tuple_bytes = kLatchedTuple,
                     .objects = 20'000'000,
                     .workers = workers,
                     .updates = true});
    loads.push_back({.make = lines[3].make,
                     .tuple_bytes = kLatchedTuple,
                     .workers = workers,
                     .updates = true,
                     .practice = Practice::advised});
  }
  const std::vector<LoadResult> seen = run_loads(options, loads);
  const Curves mops(kWorkers, std::span(seen).first(in_figure), &LoadResult::mops);

  ExperimentResult result = begin_result("latch-scaling", options, "workers");
  for (std::size_t l = 0; l < lines.size(); ++l) {
    result.series.push_back(mops.series(l, lines[l].name, "Mops/s"));
  }
  Series many{.name = "async, 20 M tuples", .unit = "Mops/s"};
  Series advised{.name = "async, chains and back-off", .unit = "Mops/s"};
  for (std::size_t w = 0; w < kWorkers.size(); ++w) {
    many.points.push_back(point(kWorkers.at(w), seen[in_figure + 2 * w].mops));
    advised.points.push_back(point(kWorkers.at(w), seen[in_figure + 2 * w + 1].mops));
  }
  result.series.push_back(many);
  result.series.push_back(advised);
  constexpr std::size_t kCombined = 2;
  constexpr std::size_t kAsync = 3;
  constexpr std::size_t kNothing = 4;
  // "Equals" means: within 10 %.
  const double few = mops.at(kAsync, 8) / mops.at(kNothing, 8);
  const double some = mops.at(kAsync, 32) / mops.at(kNothing, 32);
  result.targets.push_back(
      shape_target("N10.equal", few > 0.9 && few < 1.1 && some > 0.9 && some < 1.1,
                   fmt::format("async over unsynchronised: {:.2f} with 8 workers, {:.2f} with 32", few, some)));
  // Two rates count as ordered if their intervals do not overlap.
  const checker::Estimate& combined = seen[(kCombined + 1) * kWorkers.size() - 1].mops;
  const checker::Estimate& async = seen[(kAsync + 1) * kWorkers.size() - 1].mops;
  result.targets.push_back(shape_target(
      "N10.counterproductive", async.mean + async.half_width < combined.mean - combined.half_width,
      fmt::format("with 128 workers: {:.3f} +- {:.3f} Mops/s combined, {:.3f} +- {:.3f} async, {:.2f} unsynchronised",
                  combined.mean, combined.half_width, async.mean, async.half_width, mops.at(kNothing, 128))));
  // "Near-linear" means: at least 90 % of four times the rate, at every level.
  double scaling = 4;
  for (std::size_t l = 0; l <= kAsync; ++l) {
    scaling = lesser(scaling, mops.at(l, 32) / mops.at(l, 8));
  }
  result.targets.push_back(shape_target("N25.linear", scaling > 0.9 * 4,
                                        fmt::format("32 workers over 8: at least {:.2f} at every level", scaling)));
  double apart = 0;
  for (std::size_t w = 0; w < kWorkers.size(); ++w) {
    apart = greater(apart, std::abs(many.points[w].y / mops.at(kAsync, kWorkers.at(w)) - 1));
  }
  // "As" means: within 10 %.
  result.targets.push_back(shape_target("N25.tuples", apart < 0.1,
                                        fmt::format("20 M tuples over 20 000, async: within {:.1f} %", apart * 100)));
  return result;
}

}  // namespace sidelatch::bench
