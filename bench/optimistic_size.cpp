// TODS 2025, figure 14: one worker reads tuples of growing size, by latches and by optimistic schemes.
//
// The profile says what the paper's client spends on checksums (table-driven) and on line versions. The last series has
// what this library's own kernels cost instead, and shows what they change.
#include "experiments.h"
#include "scheme_load.h"

#include <sidelatch/sync/broken.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <fmt/format.h>

#include <array>

namespace sidelatch::bench {

using namespace sync;

namespace {

// Measured with build/release/bench_checksum, 4 KiB; docs/performance.md has the machine.
constexpr fabric::sim::Profile::Cpu kOwnKernels{.checksum_gbytes = 16, .line_versions_gbytes = 45};

enum Line : std::uint8_t { pessimistic, broken, farm, crc, two_read, own_crc, own_farm, lines };

}  // namespace

ExperimentResult optimistic_size(const ExperimentOptions& options) {
  static constexpr std::array<std::uint64_t, 11> kSizes = {256,   512,   1024,  2048,   4096,  8192,
                                                           16384, 32768, 65536, 131072, 262144};
  const fabric::sim::Profile profile = fabric::sim::load_profile(options.profile);
  const std::array<std::string, lines> names = {"latch-rw/async", "broken/naive",    "farm",          "crc64 (table)",
                                                "two-read",       "crc64 (our own)", "farm (our own)"};
  const std::array<std::function<std::unique_ptr<Scheme>()>, lines> makers = {
      [] { return std::make_unique<RwLatch>(); },          [] { return make_specimen("broken/naive"); },
      [] { return std::make_unique<FarmLineVersions>(); }, [] { return std::make_unique<Crc64>(); },
      [] { return std::make_unique<TwoReadVersion>(); },   [] { return std::make_unique<Crc64>(); },
      [] { return std::make_unique<FarmLineVersions>(); }};
  std::vector<SchemeLoad> loads;
  for (std::size_t l = 0; l < lines; ++l) {
    for (const std::uint64_t size : kSizes) {
      loads.push_back({.make = makers.at(l),
                       .tuple_bytes = size,
                       .objects = 100,
                       .client_nodes = 1,
                       .cpu = l >= own_crc ? kOwnKernels : profile.cpu,
                       .measured = fabric::from_ns(10e6)});
    }
  }
  const std::vector<LoadResult> seen = run_loads(profile, options.seed, loads);

  ExperimentResult result{"optimistic-size", options.profile, options.seed, "bytes", {}, {}};
  for (std::size_t l = 0; l < lines; ++l) {
    Series series{names.at(l), "Mops/s", {}};
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      series.points.push_back({static_cast<double>(kSizes[i]), seen[l * kSizes.size() + i].mops});
    }
    result.series.push_back(std::move(series));
  }
  const auto at = [&](std::size_t line, std::size_t size) { return seen[line * kSizes.size() + size].mops; };
  bool ahead = true;
  bool farm_nearest = true;
  bool two_read_beyond = true;
  std::uint64_t crc_behind_from = 0;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    for (const std::size_t line : {broken, farm, crc, two_read}) {
      ahead = ahead && at(pessimistic, i) > at(line, i);
    }
    const bool farm_wins = at(farm, i) > at(two_read, i) && at(farm, i) >= at(crc, i);
    (kSizes[i] <= 65536 ? farm_nearest : two_read_beyond) &= kSizes[i] <= 65536 ? farm_wins : !farm_wins;
    if (crc_behind_from == 0 && at(crc, i) < at(two_read, i)) {
      crc_behind_from = kSizes[i];
    }
  }
  result.targets.push_back(shape_target(
      "N14.pessimistic", ahead,
      fmt::format("256 B: {:.3f} Mops/s pessimistic, {:.3f} best optimistic", at(pessimistic, 0), at(farm, 0))));
  result.targets.push_back(
      shape_target("N14.farm", farm_nearest && two_read_beyond,
                   fmt::format("64 KiB: {:.4f} Mops/s farm, {:.4f} two-read; 128 KiB: {:.4f} and {:.4f}", at(farm, 8),
                               at(two_read, 8), at(farm, 9), at(two_read, 9))));
  result.targets.push_back(
      shape_target("N14.crc64", crc_behind_from == 4096,
                   fmt::format("a table-driven CRC64 falls behind versioning from {} B on", crc_behind_from)));
  return result;
}

}  // namespace sidelatch::bench
