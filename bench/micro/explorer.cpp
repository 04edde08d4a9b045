// The explorer's speed on one core: micro-steps, including their share of the search, and executions per second,
// including replays. Two clients contend for one latch.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/scheme_program.h>

#include <benchmark/benchmark.h>

namespace {

using namespace sidelatch;

// Argument: updates of each writer.
void latch_exclusive_basic(benchmark::State& state) {
  const checker::SelectedScheme selected = checker::select_scheme("latch-exclusive/basic");
  explore::Workload workload;
  workload.writers = 2;
  workload.updates = static_cast<std::uint32_t>(state.range(0));
  explore::Options options;
  options.rules = fabric::model::rules_of(fabric::model::Preset::observed);
  options.threads = 1;
  const explore::Program program =
      explore::scheme_program(*selected.scheme, selected.entry->promise, workload, selected.layout);
  std::uint64_t events = 0;
  std::uint64_t executions = 0;
  for (auto _ : state) {
    const explore::Verdict verdict = explore::check(program, options);
    events += verdict.events;
    executions += verdict.executions + verdict.redundant;
  }
  state.counters["micro-steps/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["executions/s"] = benchmark::Counter(static_cast<double>(executions), benchmark::Counter::kIsRate);
  state.counters["micro-steps/execution"] = static_cast<double>(events) / static_cast<double>(executions);
}
BENCHMARK(latch_exclusive_basic)->DenseRange(1, 4)->Unit(benchmark::kMillisecond);

}  // namespace
