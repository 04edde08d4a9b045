// TODS 2025, figure 14: one worker reads tuples of growing size, by latches and by optimistic schemes.
//
// The profile gives the cost of checksums (table-driven) and of line versions at the client. The last series
// uses the cost of this library's own kernels instead and shows the difference.
#include "experiments.h"
#include "scheme_load.h"

#include <sidelatch/sync/broken.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <fmt/format.h>

#include <array>
#include <optional>

namespace sidelatch::bench {

using namespace sync;

namespace {

// Measured with build/release/bench_checksum, 4 KiB; docs/performance.md has the machine.
constexpr fabric::sim::Profile::Cpu kOwnKernels{.checksum_gbytes = 16, .line_versions_gbytes = 45};

}  // namespace

ExperimentResult optimistic_size(const ExperimentOptions& options) {
  enum Line : std::uint8_t { pessimistic, broken, farm, crc, two_read, own_crc, own_farm, lines };
  static constexpr std::array<std::uint64_t, 11> kSizes = {256,   512,   1024,  2048,   4096,  8192,
                                                           16384, 32768, 65536, 131072, 262144};
  const std::array<std::string, lines> names = {"latch-rw/async", "broken/naive",    "farm",          "crc64 (table)",
                                                "two-read",       "crc64 (our own)", "farm (our own)"};
  const std::array<std::function<std::unique_ptr<Scheme>()>, lines> makers = {
      [] { return std::make_unique<RwLatch>(); },          [] { return make_specimen("broken/naive"); },
      [] { return std::make_unique<FarmLineVersions>(); }, [] { return std::make_unique<Crc64>(); },
      [] { return std::make_unique<TwoReadVersion>(); },   [] { return std::make_unique<Crc64>(); },
      [] { return std::make_unique<FarmLineVersions>(); }};
  fabric::sim::Profile own = fabric::sim::load_profile(options.profile);
  own.cpu = kOwnKernels;
  std::vector<SchemeLoad> loads;
  for (std::size_t l = 0; l < lines; ++l) {
    for (const std::uint64_t size : kSizes) {
      loads.push_back({.make = makers.at(l),
                       .tuple_bytes = size,
                       .objects = 100,
                       .client_nodes = 1,
                       .clients = l >= own_crc ? std::optional(own) : std::nullopt,
                       .measured = fabric::from_ns(10e6)});
    }
  }
  const Curves mops(kSizes, run_loads(options, loads), &LoadResult::mops);

  ExperimentResult result = begin_result("optimistic-size", options, "bytes");
  for (std::size_t l = 0; l < lines; ++l) {
    result.series.push_back(mops.series(l, names.at(l), "Mops/s"));
  }
  bool ahead = true;
  bool farm_nearest = true;
  bool two_read_beyond = true;
  std::uint64_t crc_behind_from = 0;
  for (const std::uint64_t size : kSizes) {
    for (const std::size_t line : {broken, farm, crc, two_read}) {
      ahead = ahead && mops.at(pessimistic, size) > mops.at(line, size);
    }
    const bool farm_wins = mops.at(farm, size) > mops.at(two_read, size) && mops.at(farm, size) >= mops.at(crc, size);
    (size <= 65536 ? farm_nearest : two_read_beyond) &= size <= 65536 ? farm_wins : !farm_wins;
    if (crc_behind_from == 0 && mops.at(crc, size) < mops.at(two_read, size)) {
      crc_behind_from = size;
    }
  }
  result.targets.push_back(shape_target("N14.pessimistic", ahead,
                                        fmt::format("256 B: {:.3f} Mops/s pessimistic, {:.3f} best optimistic",
                                                    mops.at(pessimistic, 256), mops.at(farm, 256))));
  result.targets.push_back(shape_target(
      "N14.farm", farm_nearest && two_read_beyond,
      fmt::format("64 KiB: {:.4f} Mops/s farm, {:.4f} two-read; 128 KiB: {:.4f} and {:.4f}", mops.at(farm, 65536),
                  mops.at(two_read, 65536), mops.at(farm, 131072), mops.at(two_read, 131072))));
  result.targets.push_back(
      shape_target("N14.crc64", crc_behind_from == 4096,
                   fmt::format("a table-driven CRC64 falls behind versioning from {} B on", crc_behind_from)));
  return result;
}

}  // namespace sidelatch::bench
