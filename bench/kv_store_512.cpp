// TODS 2025, figure 16: the store with tuples of 512 bytes and 224 workers. It compares latches with optimistic schemes
// whose writers unlatch by a WRITE.
#include "kv_store.h"

#include "experiments.h"

#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sidelatch::bench {

using namespace sync;

ExperimentResult kv_store_512(const ExperimentOptions& options) {
  return kv_store_512(options, StoreScale{.workers = 224});
}

ExperimentResult kv_store_512(const ExperimentOptions& options, const StoreScale& scale) {
  constexpr std::uint64_t kTuple = 512;  // including latch and version
  enum Line : std::uint8_t { farm, crc, two_read, pessimistic, lines };
  const StoreCurves curves(
      options, scale, kTuple,
      {{"FaRM", [] { return std::make_unique<FarmLineVersions>(WriteUnlatch::async); }, LayoutKind::padded_footer},
       {"CRC64", [] { return std::make_unique<Crc64>(WriteUnlatch::async); }, LayoutKind::padded_footer},
       {"versioning", [] { return std::make_unique<TwoReadVersion>(WriteUnlatch::async); }, LayoutKind::padded_footer},
       {"NAM-DB++", [] { return std::make_unique<RwLatch>(); }, LayoutKind::padded}});
  using enum StoreCurves::MixOf;

  ExperimentResult result = begin_result("kv-store-512", options, "exponent", Scale::linear);
  result.series = curves.series();
  // Two rates count as ordered if their intervals do not overlap.
  const auto order = [&](const char* id, double exponent) {
    bool falling = true;
    std::string seen = fmt::format("read-only, exponent {}:", exponent);
    for (std::size_t line = farm; line < lines; ++line) {
      const checker::Estimate& here = curves.mops(read_only, line, exponent);
      constexpr std::array<const char*, lines> kNames = {"FaRM", "CRC64", "versioning", "latches"};
      seen +=
          fmt::format("{} {:.2f} +- {:.2f} {}", line == farm ? "" : ",", here.mean, here.half_width, kNames.at(line));
      if (line > farm) {
        const checker::Estimate& before = curves.mops(read_only, line - 1, exponent);
        falling = falling && before.mean - before.half_width > here.mean + here.half_width;
      }
    }
    result.targets.push_back(shape_target(id, falling, seen + " (Mops/s)"));
  };
  order("N17.uniform", 0);
  order("N17.skewed", 1.5);
  const auto skewed_reads = [&](std::size_t line) { return curves.mops(read_only, line, 1.5).mean; };
  const double slowest_optimistic = std::min({skewed_reads(farm), skewed_reads(crc), skewed_reads(two_read)});
  result.targets.push_back(shape_target("N17.optimistic", slowest_optimistic > skewed_reads(pessimistic),
                                        fmt::format("read-only, exponent 1.5: {:.2f} Mops/s the slowest optimistic "
                                                    "scheme, {:.2f} latches",
                                                    slowest_optimistic, skewed_reads(pessimistic))));
  double least = curves.mops(write_only, farm, 2).mean;
  double most = least;
  for (std::size_t line = crc; line < lines; ++line) {
    least = std::min(least, curves.mops(write_only, line, 2).mean);
    most = std::max(most, curves.mops(write_only, line, 2).mean);
  }
  // "Converge" means: within a factor of 2 where they are furthest apart.
  result.targets.push_back(shape_target("N17.converge", most < 2 * least,
                                        fmt::format("write-only, exponent 2: {:.3f} to {:.3f} Mops/s", least, most)));
  result.targets.push_back(number_target("N17.write", 0.1, curves.mops(write_only, pessimistic, 2).mean, "Mops/s"));
  return result;
}

}  // namespace sidelatch::bench
