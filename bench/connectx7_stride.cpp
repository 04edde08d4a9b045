// TODS 2025, figure 17: a ConnectX-7 behaves no differently. Atomics on one counter, on private counters 4 KiB apart,
// and the same with a pad of 8 bytes.
#include "experiments.h"

#include <fmt/format.h>

#include <array>

namespace sidelatch::bench {

using checker::ClosedLoop;

ExperimentResult connectx7_stride(const ExperimentOptions& given) {
  static constexpr std::array<std::uint32_t, 8> kWorkers = {1, 2, 4, 8, 16, 32, 64, 128};
  struct Line {
    const char* name;
    std::uint64_t stride;
  };
  static constexpr std::array kLines = {Line{"one counter", 0}, Line{"4096 B", 4096}, Line{"4096 B + 8", 4096 + 8},
                                        Line{"64 B", 64}};
  // The figure is about that NIC. A profile other than the default is taken as a better description of it.
  ExperimentOptions options = given;
  if (options.profile == ExperimentOptions{}.profile) {
    options.profile = "connectx7";
  }
  std::vector<ClosedLoop> loops;
  for (const Line& line : kLines) {
    for (const std::uint32_t workers : kWorkers) {
      ClosedLoop loop;
      loop.workers = workers;
      loop.offset = [stride = line.stride](std::uint32_t w) { return w * stride; };
      loops.push_back(loop);
    }
  }
  const Curves mops(kWorkers, run_loops(options, loops));

  ExperimentResult result = begin_result("connectx7-stride", options, "workers");
  for (std::size_t l = 0; l < kLines.size(); ++l) {
    result.series.push_back(mops.series(l, kLines[l].name, "Mops/s"));
  }
  // The text gives peaks, and not the workers that reached them: here at the most.
  result.series.push_back(from_paper(kLines[0].name, "Mops/s", {{128, 2.5, {}}}));
  result.series.push_back(from_paper(kLines[1].name, "Mops/s", {{128, 2.5, {}}}));
  result.targets.push_back(number_target("N19.contended", 2.5, mops.highest(0), "Mops/s"));
  result.targets.push_back(number_target("N19.stride", 2.5, mops.highest(1), "Mops/s"));
  // "Cured" means: as fast as counters in lines of their own, within 3 %.
  result.targets.push_back(shape_target(
      "N19.cure", mops.at(2, 128) > 0.97 * mops.at(3, 128),
      fmt::format("128 workers: {:.1f} Mops/s 4096 B + 8, {:.1f} 64 B", mops.at(2, 128), mops.at(3, 128))));
  return result;
}

}  // namespace sidelatch::bench
