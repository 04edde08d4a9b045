// What it costs to survive pages that are gone (softnic/nic/gone_pages.h): stores into shared memory that note a place
// to jump to, against the same stores without. `ratio` is how many times as long they take, within the run.
#include "softnic/nic/gone_pages.h"
#include "measure.h"
#include "softnic/nic/shared_bytes.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

using namespace sidelatch::softnic::nic;
using sidelatch::bench::micro::best_seconds;
using sidelatch::bench::micro::numbers;

void stores(benchmark::State& state) {
  const std::vector<std::byte> from = numbers(static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> shared(from.size());
  const auto store = [&] { benchmark::DoNotOptimize(store_shared(shared.data(), from)); };
  bear_gone_pages();
  double surviving = 1e9;
  double trusting = 1e9;
  for (auto _ : state) {
    gone_pages::are_borne = false;
    trusting = std::min(trusting, best_seconds(store));
    gone_pages::are_borne = true;
    surviving = std::min(surviving, best_seconds(store));
  }
  state.counters["ns"] = surviving * 1e9;
  state.counters["ns without"] = trusting * 1e9;
  state.counters["ratio"] = surviving / trusting;
}

BENCHMARK(stores)->Arg(8)->Arg(64)->Arg(4096)->Iterations(9)->Unit(benchmark::kMillisecond);

}  // namespace
