// TODS 2025, figure 10: a store on four memory nodes, 20 million tuples of 256 bytes, 112 workers on four client nodes,
// by skew. NAM-DB has the basic latch; its latches lie 256 bytes apart, in 16 lock slots of each NIC. NAM-DB++ has the
// optimized latch, in a third line also with padded tuples.
#include "kv_store.h"

#include "experiments.h"

#include <sidelatch/sync/rw_latch.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace sidelatch::bench {

using namespace sync;

ExperimentResult kv_store(const ExperimentOptions& options) { return kv_store(options, StoreScale{}); }

ExperimentResult kv_store(const ExperimentOptions& options, const StoreScale& scale) {
  constexpr std::uint64_t kTuple = 256;  // including its latch
  enum Line : std::uint8_t { nam_db, optimized, padded };
  const StoreCurves curves(
      options, scale, kTuple,
      {{"NAM-DB", [] { return std::make_unique<RwLatch>(LatchLevel::basic); }, LayoutKind::interleaved},
       {"NAM-DB++ unpadded", [] { return std::make_unique<RwLatch>(); }, LayoutKind::interleaved},
       {"NAM-DB++", [] { return std::make_unique<RwLatch>(); }, LayoutKind::padded},
       {"NAM-DB++, chains and back-off", [] { return std::make_unique<RwLatch>(); }, LayoutKind::padded,
        Practice::advised}});
  using enum StoreCurves::MixOf;
  const auto gain = [&](double exponent) {
    return curves.mops(read_only, padded, exponent).mean / curves.mops(read_only, nam_db, exponent).mean;
  };

  StoreScale uniform = scale;
  uniform.exponents = {0};
  const StoreCurves larger(options, uniform, 2 * kTuple,
                           {{"NAM-DB++ unpadded", [] { return std::make_unique<RwLatch>(); }, LayoutKind::interleaved},
                            {"NAM-DB++", [] { return std::make_unique<RwLatch>(); }, LayoutKind::padded}},
                           {read_only});

  ExperimentResult result = begin_result("kv-store", options, "exponent", Scale::linear);
  result.series = curves.series();
  std::ranges::copy(larger.series(", 512 B"), std::back_inserter(result.series));
  result.series.push_back(from_paper("NAM-DB++", "Mops/s", {{2, 0.17, {}}}, "write-only"));
  result.series.push_back(from_paper("NAM-DB++", "Mops/s", {{2, 4.5, {}}}, "read-only"));
  result.targets.push_back(number_target("N11.uniform", 2, gain(0), "x"));
  result.targets.push_back(number_target("N11.zipf1", 2, gain(1), "x"));
  result.targets.push_back(number_target("N12.write", 0.17, curves.mops(write_only, padded, 2).mean, "Mops/s"));
  result.targets.push_back(number_target("N12.read", 4.5, curves.mops(read_only, padded, 2).mean, "Mops/s"));
  // "Converge" means: the factor between them is nearer to 1 than half of what it is under uniform access.
  result.targets.push_back(shape_target(
      "N26.converge", std::abs(gain(2) - 1) < (gain(0) - 1) / 2,
      fmt::format("read-only, NAM-DB++ over NAM-DB: {:.2f} uniform, {:.2f} at exponent 2", gain(0), gain(2))));
  const double padding = curves.mops(read_only, padded, 0).mean / curves.mops(read_only, optimized, 0).mean;
  const double more = larger.mops(read_only, 1, 0).mean / larger.mops(read_only, 0, 0).mean;
  result.targets.push_back(shape_target(
      "N26.padding", more > padding && padding >= 1,
      fmt::format("read-only, uniform, padded over unpadded: {:.2f} with 256 B, {:.2f} with 512 B", padding, more)));
  return result;
}

}  // namespace sidelatch::bench
