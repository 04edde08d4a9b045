// TODS 2025, section 1: one writer and one reader on a ring of 50 MB, with blocks of growing size. It counts torn
// reads, and those of them that look whole to header and footer. `sidelatch check` has the same probe, for any NIC.
#include "experiments.h"
#include "site.h"

#include <sidelatch/checker/torn_read.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace sidelatch::bench {

using checker::TornReads;

namespace {

constexpr std::uint64_t kReads = 50'000;
constexpr std::uint64_t kNone = 128;  // bytes up to which header and footer revealed all torn reads in the paper
constexpr double kRare = 0.05;        // share of reads that counts as "rare"; the paper says "not frequently"

double of_thousand(std::uint64_t count, const TornReads& seen) {
  return 1000 * static_cast<double>(count) / static_cast<double>(seen.reads);
}

}  // namespace

ExperimentResult torn_reads(const ExperimentOptions& options) {
  if (options.cluster != nullptr) {
    throw std::invalid_argument("torn-reads is simulated only: `sidelatch check --connect` measures it on a NIC");
  }
  static constexpr std::array<std::uint64_t, 8> kSizes = {64, 128, 192, 256, 512, 1024, 2048, 4096};
  std::array<TornReads, kSizes.size()> seen;
  run_points(
      options, kSizes.size(), [](std::size_t) { return SiteShape{.client_nodes = 2}; },
      [&](Site& site, std::size_t i) {
        seen.at(i) = checker::probe_torn_reads(*site.memory_nodes()[0], *site.clients()[0], *site.clients()[1],
                                               {.block_bytes = kSizes.at(i), .reads = kReads});
      });

  ExperimentResult result = begin_result("torn-reads", options, "bytes");
  Series told{.name = "header and footer differ", .unit = "of 1000 reads"};
  Series untold{.name = "header and footer agree", .unit = "of 1000 reads"};
  std::uint64_t small = 0;
  bool beyond = true;
  double most = 0;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const auto x = static_cast<double>(kSizes.at(i));
    told.points.push_back({x, of_thousand(seen.at(i).detected, seen.at(i))});
    untold.points.push_back({x, of_thousand(seen.at(i).undetected, seen.at(i))});
    if (kSizes.at(i) <= kNone) {
      small += seen.at(i).undetected;
    } else {
      beyond = beyond && seen.at(i).undetected > 0;
      most = std::max(most, of_thousand(seen.at(i).undetected, seen.at(i)) / 1000);
    }
  }
  result.series = {told, untold};
  result.targets.push_back(
      shape_target("N18.none", small == 0, fmt::format("{} of {} reads of 64 B and 128 B", small, 2 * kReads)));
  result.targets.push_back(shape_target("N18.rare", beyond && most < kRare,
                                        fmt::format("from 192 B on {}, at most {:.2f} of 1000 reads",
                                                    beyond ? "at every size" : "not at every size", 1000 * most)));
  return result;
}

}  // namespace sidelatch::bench
