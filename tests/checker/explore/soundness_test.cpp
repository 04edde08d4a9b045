// The reduction loses nothing: for programs small enough to try every order of events, the final states are the same
// with and without it.
#include "checking.h"
#include "small_programs.h"

#include "tests/sampled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;
using fabric::model::Rules;

// Larger programs are not compared.
std::uint64_t most_executions() { return kSanitized ? (takes_long() ? 3000 : 1500) : (takes_long() ? 5000 : 3000); }

// 150 programs under each preset in CI; 2 000 with SIDELATCH_LONG=1, ten minutes for each preset.
std::uint64_t seeds() { return kSanitized ? (takes_long() ? 300 : 30) : (takes_long() ? 2'000 : 150); }

std::string difference(const std::set<State>& plain, const std::set<State>& reduced) {
  std::string text;
  for (const State& state : plain) {
    if (!reduced.contains(state)) {
      text += fmt::format("missing {}\n", fmt::join(state, " "));
    }
  }
  for (const State& state : reduced) {
    if (!plain.contains(state)) {
      text += fmt::format("too much {}\n", fmt::join(state, " "));
    }
  }
  return text;
}

class Soundness : public ::testing::TestWithParam<Preset> {};

TEST_P(Soundness, RandomProgramsReachTheSameStates) {
  std::uint64_t compared = 0;
  std::uint64_t several = 0;
  std::uint64_t saved = 0;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    const SmallProgram program = random_program(seed);
    Options options;
    options.walks = 0;  // they would reach states that the search has not
    options.rules = rules_of(GetParam());
    options.rules.atomics_see_writes = seed % 7 != 0;
    options.rules.fence_orders_reads = seed % 5 != 0;
    if (seed % 11 == 0) {
      options.rules.atomic_scope = fabric::model::AtomicScope::global;
    }
    options.threads = 1;
    options.max_executions = most_executions();
    const Reached reduced = reach(program, options);
    if (reduced.verdict.outcome == Outcome::bounded) {
      continue;  // too large to try every order of it
    }
    ASSERT_EQ(reduced.verdict.outcome, Outcome::safe) << program.to_string() << to_text(reduced.verdict);
    options.mode = Mode::plain;
    options.max_executions = most_executions();
    const Reached plain = reach(program, options);
    if (plain.verdict.outcome == Outcome::bounded) {
      // The states seen must still be among the others.
      for (const State& state : plain.states) {
        ASSERT_TRUE(reduced.states.contains(state)) << "seed " << seed << "\n" << program.to_string();
      }
      continue;
    }
    ++compared;
    several += plain.states.size() > 1 ? 1U : 0U;
    saved += plain.verdict.executions > reduced.verdict.executions ? 1U : 0U;
    ASSERT_EQ(plain.states, reduced.states) << "seed " << seed << "\n"
                                            << program.to_string() << difference(plain.states, reduced.states);
    ASSERT_LE(reduced.verdict.executions, plain.verdict.executions);
  }
  EXPECT_GT(compared, seeds() / 8);
  EXPECT_GT(several, seeds() / 20);
  EXPECT_GT(saved, seeds() / 8);
  RecordProperty("compared", static_cast<int>(compared));
}

INSTANTIATE_TEST_SUITE_P(EveryPreset, Soundness,
                         ::testing::Values(Preset::strict, Preset::observed, Preset::spec, Preset::relaxed),
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

}  // namespace
}  // namespace sidelatch::explore
