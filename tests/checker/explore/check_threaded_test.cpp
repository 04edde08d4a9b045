// The number of threads changes neither the verdict nor the counts nor the trace.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/scheme_program.h>

#include "checking.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;

Program program_of(const checker::SelectedScheme& selected, const Workload& workload) {
  return scheme_program(*selected.scheme, selected.entry->promise, workload, selected.layout);
}

void expect_same(const Verdict& a, const Verdict& b) {
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.executions, b.executions);
  EXPECT_EQ(a.redundant, b.redundant);
  // What sanitizers leave in frames may have other names in each thread: then there are more states, and more ways to
  // them.
  if (!kSanitized || a.states == 0) {
    EXPECT_EQ(a.states, b.states);
    EXPECT_EQ(a.events, b.events);
  }
  EXPECT_EQ(a.bound, b.bound);
  ASSERT_EQ(a.violation.has_value(), b.violation.has_value());
  if (a.violation) {
    EXPECT_EQ(a.violation->kind, b.violation->kind);
    EXPECT_EQ(a.violation->what, b.violation->what);
    EXPECT_EQ(a.violation->choices, b.violation->choices);
    EXPECT_EQ(to_text(*a.violation), to_text(*b.violation));
  }
}

// Runs with one thread, then with others.
Verdict same_with_any_number_of_threads(const Program& program, Options options) {
  options.threads = 1;
  Verdict one = check(program, options);
  const std::vector<unsigned> others = kSanitized ? std::vector<unsigned>{3} : std::vector<unsigned>{2, 3, 7};
  for (const unsigned threads : others) {
    SCOPED_TRACE(fmt::format("{} threads", threads));
    options.threads = threads;
    expect_same(one, check(program, options));
  }
  return one;
}

TEST(CheckThreaded, ASafeProgramHasTheSameExecutions) {
  const checker::SelectedScheme latch = checker::select_scheme("latch-rw/async");
  const Verdict verdict = same_with_any_number_of_threads(
      program_of(latch, {.updates = 2, .readers = 1}),
      {.rules = rules_of(Preset::observed), .writing_retries = 1, .states_for_loops = 0});
  EXPECT_TRUE(verdict.only_loops_bounded);
  // The search had several tasks, so there was work to divide.
  EXPECT_GT(verdict.executions, 10'000U);
}

TEST(CheckThreaded, ABrokenProgramHasTheSameTrace) {
  for (const char* name : {"broken/rw-unfenced-shared-unlatch", "broken/rw-async-cas-unlatch"}) {
    SCOPED_TRACE(name);
    const checker::SelectedScheme broken = checker::select_scheme(name);
    const Verdict verdict = same_with_any_number_of_threads(
        program_of(broken, {.updates = 2, .readers = 1}),
        {.rules = rules_of(Preset::observed), .writing_retries = 1, .look_for_shorter = 3000});
    EXPECT_EQ(verdict.outcome, Outcome::broken);
  }
}

TEST(CheckThreaded, ABoundOnExecutionsIsMetAtTheSamePlace) {
  const checker::SelectedScheme latch = checker::select_scheme("latch-rw/async");
  const Verdict verdict = same_with_any_number_of_threads(
      program_of(latch, {.updates = 2, .readers = 1}),
      {.rules = rules_of(Preset::observed), .max_executions = 7000, .writing_retries = 1});
  EXPECT_EQ(verdict.outcome, Outcome::bounded);
}

// What a thread's stack has left in a frame must not tell states apart: a bound on states would be met or not by
// chance.
TEST(CheckThreaded, StatesAreTheSame) {
  const checker::SelectedScheme latch = checker::select_scheme("latch-rw/speculative");
  const Verdict verdict = same_with_any_number_of_threads(program_of(latch, {.updates = 2, .readers = 1}),
                                                          {.rules = rules_of(Preset::observed), .mode = Mode::states});
  EXPECT_EQ(verdict.outcome, Outcome::safe);
  EXPECT_GT(verdict.states, 1000U);
}

TEST(CheckThreaded, ChoicesByChanceAreTheSame) {
  const checker::SelectedScheme latch = checker::select_scheme("latch-rw/async");
  for (const Mode mode : {Mode::random, Mode::pct}) {
    const Verdict verdict =
        same_with_any_number_of_threads(program_of(latch, {.updates = 2, .readers = 1}),
                                        {.rules = rules_of(Preset::observed), .mode = mode, .max_executions = 1000});
    EXPECT_EQ(verdict.outcome, Outcome::bounded);
    EXPECT_EQ(verdict.executions, 1000U);
  }
}

TEST(CheckThreaded, SeveralChecksMayRunAtOnce) {
  const checker::SelectedScheme two_read = checker::select_scheme("optimistic/two-read");
  const Program program = program_of(two_read, {.updates = 2, .readers = 1});
  const Options options{.rules = rules_of(Preset::spec), .threads = 2};
  const Verdict alone = check(program, options);
  std::vector<Verdict> verdicts(3);
  {
    std::vector<std::jthread> threads;
    for (Verdict& verdict : verdicts) {
      threads.emplace_back([&program, &options, &verdict] { verdict = check(program, options); });
    }
  }
  for (const Verdict& verdict : verdicts) {
    expect_same(alone, verdict);
  }
}

TEST(CheckThreaded, AnInterruptFromAnotherThreadEndsTheSearch) {
  const checker::SelectedScheme latch = checker::select_scheme("latch-rw/async");
  std::atomic<bool> interrupted{false};
  Options options{.rules = rules_of(Preset::observed), .threads = 2, .interrupted = &interrupted};
  // Interrupted from within the search, as soon as it has begun.
  options.progress = [&](std::uint64_t /*executions*/) { interrupted = true; };
  const Verdict verdict = check(program_of(latch, {.updates = 3, .readers = 2}), options);
  EXPECT_EQ(verdict.outcome, Outcome::bounded);
  EXPECT_EQ(verdict.bound, "an interrupt");
}

}  // namespace
}  // namespace sidelatch::explore
