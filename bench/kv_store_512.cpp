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
#include <iterator>
#include <vector>

namespace sidelatch::bench {

using namespace sync;

ExperimentResult kv_store_512(const ExperimentOptions& options) {
  return kv_store_512(options, StoreScale{.workers = 224});
}

ExperimentResult kv_store_512(const ExperimentOptions& options, const StoreScale& scale) {
  constexpr std::uint64_t kTuple = 512;  // including latch and version
  enum Line : std::uint8_t { farm, crc, two_read, pessimistic, lines };
  const std::vector<StoreLine> stores = {
      {"FaRM", [] { return std::make_unique<FarmLineVersions>(WriteUnlatch::async); }, LayoutKind::padded_footer},
      {"CRC64", [] { return std::make_unique<Crc64>(WriteUnlatch::async); }, LayoutKind::padded_footer},
      {"versioning", [] { return std::make_unique<TwoReadVersion>(WriteUnlatch::async); }, LayoutKind::padded_footer},
      {"NAM-DB++", [] { return std::make_unique<RwLatch>(); }, LayoutKind::padded}};
  using enum StoreCurves::MixOf;
  const StoreCurves curves(options, scale, kTuple, stores);
  StoreScale half = scale;
  half.workers = scale.workers / 2;
  half.exponents = {0, 2};
  const StoreCurves fewer(options, half, kTuple, stores, {write_only, read_only});

  ExperimentResult result = begin_result("kv-store-512", options, "exponent", Scale::linear);
  result.series = curves.series();
  std::ranges::copy(fewer.series(fmt::format(", {} workers", half.workers)), std::back_inserter(result.series));
  result.series.push_back(from_paper("all schemes", "Mops/s", {{2, 0.1, {}}}, "write-only"));
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
  // The paper does not say with how many workers.
  const double many = curves.mops(write_only, pessimistic, 2).mean;
  const double few = fewer.mops(write_only, pessimistic, 2).mean;
  constexpr double kMerely = 0.1;
  result.targets.push_back(shape_target(
      "N17.write", std::min(many, few) < 1.1 * kMerely && std::max(many, few) > 0.9 * kMerely,
      fmt::format("latches, write-only, exponent 2: {:.3f} Mops/s with {} workers, {:.3f} with {}; the paper has 0.1",
                  few, half.workers, many, scale.workers)));

  const auto best = [](const StoreCurves& of, StoreCurves::MixOf mix, double exponent) {
    return std::max(
        {of.mops(mix, farm, exponent).mean, of.mops(mix, crc, exponent).mean, of.mops(mix, two_read, exponent).mean});
  };
  const auto latches = [](const StoreCurves& of, StoreCurves::MixOf mix, double exponent) {
    return of.mops(mix, pessimistic, exponent).mean;
  };
  const auto compare = [&](const char* id, bool holds, const StoreCurves& of, StoreCurves::MixOf mix, double exponent,
                           std::uint32_t workers) {
    result.targets.push_back(
        shape_target(id, holds,
                     fmt::format("{} workers, exponent {}: {:.2f} Mops/s the best optimistic scheme, {:.2f} latches",
                                 workers, exponent, best(of, mix, exponent), latches(of, mix, exponent))));
  };
  compare("N28.few", latches(fewer, read_only, 0) > best(fewer, read_only, 0), fewer, read_only, 0, half.workers);
  compare("N28.many", latches(curves, read_only, 0) < best(curves, read_only, 0), curves, read_only, 0, scale.workers);
  bool ahead = true;
  for (const double exponent : scale.exponents) {
    ahead = ahead && best(curves, mixed, exponent) > latches(curves, mixed, exponent);
  }
  compare("N28.mixed", ahead, curves, mixed, 1.5, scale.workers);
  // "Flat" means: within 15 % of uniform access.
  double lowest = 2;
  for (const std::size_t line : {farm, crc, two_read}) {
    for (const double exponent : scale.exponents) {
      lowest = lesser(lowest, curves.mops(read_only, line, exponent).mean / curves.mops(read_only, line, 0).mean);
    }
  }
  result.targets.push_back(shape_target(
      "N28.flat", lowest > 0.85, fmt::format("read-only, optimistic: at least {:.2f} of uniform access", lowest)));
  return result;
}

}  // namespace sidelatch::bench
