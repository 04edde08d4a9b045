// The explorer against the oracle: the same random programs, the same final states, the same verdicts.
#include "compare.h"

#include "../checking.h"

#include "tests/sampled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

namespace sidelatch::explore::oracle {
namespace {

using fabric::model::Preset;

// 10 000 programs for each preset with SIDELATCH_LONG=1. SIDELATCH_ORACLE_FIRST: the seed to begin with.
std::uint64_t programs() { return kSanitized ? (takes_long() ? 500 : 15) : (takes_long() ? 10'000 : 70); }

// A program with more states than its limit is left out. With SIDELATCH_LONG=1 one of fifty may have many more: a few
// large programs take as long as thousands of small ones.
Limits limit_of(std::uint64_t seed, const Limits& usual, const Limits& large) {
  return takes_long() && seed % 50 == 0 ? large : usual;
}

std::uint64_t first_seed() {
  const char* const text = std::getenv("SIDELATCH_ORACLE_FIRST");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 1 : std::stoull(text);
}

// A state costs the search a replay, so the limits are small.
TEST(OracleOfStates, AgreesWithTheSearchThroughStates) {
  std::map<std::string, std::uint64_t> count;
  const std::uint64_t each = takes_long() ? programs() : std::max<std::uint64_t>(programs() / 2, 30);
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    for (std::uint64_t seed = first_seed(); seed < first_seed() + each; ++seed) {
      const ProgramList program = random_list(seed);
      const Limits limit = limit_of(seed, {1'500, 0, Mode::states}, {20'000, 0, Mode::states});
      const Comparison both = compare(program, rules_for(preset, seed), limit);
      if (!both.was_made) {
        ++count["has too many states for the oracle"];
        continue;
      }
      EXPECT_EQ(both.difference, "") << name(preset) << ", seed " << seed << "\n" << to_string(program, both);
      ++count[std::string(name(both.explored.verdict.outcome))];
      count["somebody is stuck, say both"] +=
          both.answer.is_stuck && both.explored.verdict.outcome == Outcome::broken ? 1U : 0U;
    }
  }
  for (const auto& [what, number] : count) {
    std::cout << fmt::format("{:>6} {}\n", number, what);
  }
  EXPECT_GT(count["safe"], each / 4);
  EXPECT_GT(count["somebody is stuck, say both"], 0);
}

// What a client posts before another one revokes its queue pair went first, and was never posted behind.
TEST(OracleOfStates, AgreesAboutPostsBesideARevocation) {
  constexpr std::uint64_t kSeed = 3575;
  const ProgramList program = random_list(kSeed);
  const Comparison both = compare(program, rules_for(Preset::strict, kSeed), {1'500, 0, Mode::states});
  ASSERT_TRUE(both.was_made);
  EXPECT_EQ(both.difference, "") << to_string(program, both);
}

// Clients that look at their buffers and at a shared object, also behind posts.
TEST(OracleOfLookers, AgreesWithTheExplorer) {
  std::map<std::string, std::uint64_t> count;
  // With an object that clients share a step takes long.
  const std::uint64_t each = takes_long() ? programs() : 6;
  for (const Preset preset : kPresets) {
    for (std::uint64_t seed = first_seed(); seed < first_seed() + each; ++seed) {
      const ProgramList program = random_list_of_lookers(seed);
      const Limits limit = limit_of(seed, {2'000, 100}, {10'000, 1'000});
      const Comparison both = compare(program, rules_for(preset, seed), limit);
      if (!both.was_made) {
        ++count["has too many states for the oracle"];
        continue;
      }
      EXPECT_EQ(both.difference, "") << name(preset) << ", seed " << seed << "\n" << to_string(program, both);
      ++count[std::string(name(both.explored.verdict.outcome))];
    }
  }
  for (const auto& [what, number] : count) {
    std::cout << fmt::format("{:>6} {}\n", number, what);
  }
  EXPECT_GT(count["safe"], 0);
}

class Oracle : public ::testing::TestWithParam<Preset> {};

TEST_P(Oracle, AgreesWithTheExplorer) {
  std::map<std::string, std::uint64_t> count;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + programs(); ++seed) {
    const ProgramList program = random_list(seed);
    const Comparison both =
        compare(program, rules_for(GetParam(), seed), limit_of(seed, {8'000, 600}, {60'000, 4'000}));
    if (!both.was_made) {
      ++count["has too many states for the oracle"];
      continue;
    }
    EXPECT_EQ(both.difference, "") << "seed " << seed << "\n" << to_string(program, both);
    const Verdict& verdict = both.explored.verdict;
    ++count["compared"];
    ++count[std::string(name(verdict.outcome))];
    count["safe with more than one end"] += verdict.outcome == Outcome::safe && both.answer.ends.size() > 1 ? 1U : 0U;
    count["wrong, says the oracle"] += both.answer.is_clean() ? 0U : 1U;
    count["wrong, say both"] += !both.answer.is_clean() && verdict.outcome == Outcome::broken ? 1U : 0U;
    count["somebody is stuck"] += both.answer.is_stuck ? 1U : 0U;
  }
  for (const auto& [what, number] : count) {
    std::cout << fmt::format("{:>6} {}\n", number, what);
  }
  EXPECT_GT(count["safe"], programs() / 10);
  EXPECT_GT(count["safe with more than one end"], programs() / 15);
  EXPECT_GT(count["wrong, say both"], programs() / 15);
}

INSTANTIATE_TEST_SUITE_P(EveryPreset, Oracle,
                         ::testing::Values(Preset::strict, Preset::observed, Preset::spec, Preset::relaxed),
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

}  // namespace
}  // namespace sidelatch::explore::oracle
