// TODS 2025, figure 4: atomics on one shared counter, on private counters a line apart, and READs, by workers.
#include "experiments.h"

#include <fmt/format.h>

#include <array>

namespace sidelatch::bench {

using checker::ClosedLoop;
using fabric::Opcode;

ExperimentResult atomics_contention(const ExperimentOptions& options) {
  static constexpr std::array<std::uint32_t, 10> kWorkers = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  struct Line {
    const char* name;
    Opcode opcode;
    std::uint64_t stride;
  };
  static constexpr std::array kLines = {Line{"uncontended CAS", Opcode::compare_swap, 64},
                                        Line{"READ", Opcode::read, 64}, Line{"contended CAS", Opcode::compare_swap, 0}};

  std::vector<ClosedLoop> loops;
  for (const Line& line : kLines) {
    for (const std::uint32_t workers : kWorkers) {
      ClosedLoop loop;
      loop.workers = workers;
      loop.opcode = line.opcode;
      loop.offset = [stride = line.stride](std::uint32_t w) { return w * stride; };
      loops.push_back(loop);
    }
  }
  const Curves mops(kWorkers, run_loops(options, loops));

  ExperimentResult result = begin_result("atomics-contention", options, "workers");
  for (std::size_t l = 0; l < kLines.size(); ++l) {
    result.series.push_back(mops.series(l, kLines[l].name, "Mops/s"));
  }
  result.series.push_back(from_paper(kLines[0].name, "Mops/s", {{128, 51.2, {}}}));
  result.series.push_back(from_paper(kLines[1].name, "Mops/s", {{128, 51.2, {}}}));
  result.series.push_back(from_paper(kLines[2].name, "Mops/s", {{8, 2.32, {}}}));
  result.targets.push_back(number_target("N1.atomics", 51.2, mops.at(0, 128), "Mops/s"));
  result.targets.push_back(number_target("N1.reads", 51.2, mops.at(1, 128), "Mops/s"));
  result.targets.push_back(
      shape_target("N1.peak", mops.at(0, 128) >= 0.97 * mops.highest(0) && mops.at(0, 64) < 0.97 * mops.highest(0),
                   fmt::format("{:.1f} Mops/s with 64 workers, {:.1f} with 128, highest {:.1f}", mops.at(0, 64),
                               mops.at(0, 128), mops.highest(0))));
  // "Falls off" means: at least a tenth below the peak with 512 workers, and not yet with 256.
  result.targets.push_back(
      shape_target("N2", mops.at(0, 512) < 0.9 * mops.at(0, 128) && mops.at(0, 256) > 0.9 * mops.at(0, 128),
                   fmt::format("{:.1f} Mops/s with 128 workers, {:.1f} with 256, {:.1f} with 512", mops.at(0, 128),
                               mops.at(0, 256), mops.at(0, 512))));
  result.targets.push_back(number_target("N3", 2.32, mops.highest(2), "Mops/s"));
  result.targets.push_back(
      shape_target("N3.scaling", mops.at(2, 8) >= 0.97 * mops.highest(2) && mops.at(2, 2) < 0.9 * mops.highest(2),
                   fmt::format("{:.2f} Mops/s with 2 workers, {:.2f} with 8, highest {:.2f}", mops.at(2, 2),
                               mops.at(2, 8), mops.highest(2))));
  return result;
}

}  // namespace sidelatch::bench
