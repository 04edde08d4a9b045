// Processor seconds for a simulated second of the store: 20 million tuples of 512 bytes on four memory nodes, 224
// workers, the points of `sidelatch bench kv-store-512`. Measured for a few simulated milliseconds each.
#include "bench/table_load.h"

#include <sidelatch/fabric/types.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <span>

namespace {

using namespace sidelatch;
using namespace sidelatch::bench;
using namespace sidelatch::sync;

std::unique_ptr<Scheme> farm() { return std::make_unique<FarmLineVersions>(WriteUnlatch::async); }
std::unique_ptr<Scheme> two_read() { return std::make_unique<TwoReadVersion>(WriteUnlatch::async); }
std::unique_ptr<Scheme> latches() { return std::make_unique<RwLatch>(); }

constexpr auto kMeasured = std::chrono::milliseconds(10);

void store(benchmark::State& state, std::unique_ptr<Scheme> (*make)(), LayoutKind layout, const Mix& mix,
           double exponent) {
  const TableLoad load{.make = make,
                       .layout = layout,
                       .tuple_bytes = 512,
                       .workers = 224,
                       .mix = mix,
                       .exponent = exponent,
                       .measured = kMeasured};
  double mops = 0;
  double simulated = 0;
  for (auto _ : state) {
    mops = run_table_loads(ExperimentOptions{}, std::span(&load, 1)).front().mops.mean;
    simulated += std::chrono::duration<double>(load.warm_up + load.measured).count();
  }
  using benchmark::Counter;
  state.counters["s/simulated_s"] = Counter(simulated, Counter::kIsRate | Counter::kInvert);
  state.counters["Mops"] = mops;
}
void once(benchmark::internal::Benchmark* one) {
  one->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->Iterations(1);
}
BENCHMARK_CAPTURE(store, farm_read_only_uniform, &farm, LayoutKind::padded_footer, kReadOnly, 0)->Apply(once);
BENCHMARK_CAPTURE(store, farm_read_only_zipf_1_5, &farm, LayoutKind::padded_footer, kReadOnly, 1.5)->Apply(once);
BENCHMARK_CAPTURE(store, farm_write_only_uniform, &farm, LayoutKind::padded_footer, kWriteOnly, 0)->Apply(once);
BENCHMARK_CAPTURE(store, two_read_mixed_zipf_1_5, &two_read, LayoutKind::padded_footer, kMixed, 1.5)->Apply(once);
BENCHMARK_CAPTURE(store, latches_read_only_uniform, &latches, LayoutKind::padded, kReadOnly, 0)->Apply(once);
BENCHMARK_CAPTURE(store, latches_read_only_zipf_1_5, &latches, LayoutKind::padded, kReadOnly, 1.5)->Apply(once);
BENCHMARK_CAPTURE(store, latches_write_only_zipf_2, &latches, LayoutKind::padded, kWriteOnly, 2)->Apply(once);

}  // namespace
