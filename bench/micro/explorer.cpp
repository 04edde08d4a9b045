// The explorer's speed on one core: micro-steps, including their share of the search, and executions per second,
// including replays. Two clients contend for one latch. Then the states of the same program, and the time of each.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/scheme_program.h>

#include <benchmark/benchmark.h>

namespace {

using namespace sidelatch;

explore::Program two_writers(std::uint32_t updates, std::uint32_t lines) {
  static const checker::SelectedScheme kSelected = checker::select_scheme("latch-exclusive/basic");
  explore::Workload workload;
  workload.writers = 2;
  workload.updates = updates;
  workload.lines = lines;
  return explore::scheme_program(*kSelected.scheme, kSelected.entry->promise, workload, kSelected.layout);
}

explore::Options on_one_core(explore::Mode mode) {
  explore::Options options;
  options.walks = 0;
  options.rules = fabric::model::rules_of(fabric::model::Preset::observed);
  options.threads = 1;
  options.mode = mode;
  return options;
}

// Argument: updates of each writer.
void latch_exclusive_basic(benchmark::State& state) {
  const explore::Options options = on_one_core(explore::Mode::exhaustive);
  const explore::Program program = two_writers(static_cast<std::uint32_t>(state.range(0)), explore::Workload{}.lines);
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

// The same with an object of one line, by its states.
void latch_exclusive_basic_by_states(benchmark::State& state) {
  const explore::Options options = on_one_core(explore::Mode::states);
  const explore::Program program = two_writers(static_cast<std::uint32_t>(state.range(0)), 1);
  std::uint64_t events = 0;
  std::uint64_t states = 0;
  for (auto _ : state) {
    const explore::Verdict verdict = explore::check(program, options);
    events += verdict.events;
    states += verdict.states;
  }
  state.counters["states"] = benchmark::Counter(static_cast<double>(states), benchmark::Counter::kAvgIterations);
  state.counters["states/s"] = benchmark::Counter(static_cast<double>(states), benchmark::Counter::kIsRate);
  state.counters["micro-steps/state"] = static_cast<double>(events) / static_cast<double>(states);
}
BENCHMARK(latch_exclusive_basic_by_states)->RangeMultiplier(2)->Range(1, 8)->Unit(benchmark::kMillisecond);

}  // namespace
