// The explorer against the oracle: the same random programs, the same final states, the same verdicts.
#include "compare.h"

#include "../checking.h"

#include "tests/sampled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>

namespace sidelatch::explore::oracle {
namespace {

using fabric::model::Preset;

// To run a part: SIDELATCH_ORACLE_FIRST=501 SIDELATCH_ORACLE_PROGRAMS=500.
std::uint64_t first_seed() { return number_or("SIDELATCH_ORACLE_FIRST", 1); }

// 10 000 programs for each preset with SIDELATCH_LONG=1.
std::uint64_t programs(std::uint64_t usual) {
  return number_or("SIDELATCH_ORACLE_PROGRAMS", kSanitized ? (takes_long() ? 500 : std::min<std::uint64_t>(usual, 15))
                                                           : (takes_long() ? 10'000 : usual));
}

// A program with more states than its limit is left out. With SIDELATCH_LONG=1 one of two hundred may have many more: a
// few large programs take as long as thousands of small ones.
Limits limit_of(std::uint64_t seed, const Limits& usual, const Limits& large) {
  return takes_long() && seed % 200 == 0 ? large : usual;
}

using Counts = std::map<std::string, std::uint64_t>;

void add(Counts& count, const Comparison& both) {
  const Verdict& verdict = both.explored.verdict;
  const bool is_broken = verdict.outcome == Outcome::broken;
  ++count["compared"];
  ++count[std::string(name(verdict.outcome))];
  count["safe with more than one end"] += verdict.outcome == Outcome::safe && both.answer.ends.size() > 1 ? 1U : 0U;
  count["wrong, says the oracle"] += both.answer.is_clean() ? 0U : 1U;
  count["wrong, say both"] += !both.answer.is_clean() && is_broken ? 1U : 0U;
  count["somebody is stuck, say both"] += both.answer.is_stuck && is_broken ? 1U : 0U;
}

Counts compare_all(Preset preset, std::uint64_t each, ProgramList (*list)(std::uint64_t), const Limits& usual,
                   const Limits& large) {
  Counts count;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + each; ++seed) {
    const ProgramList program = list(seed);
    const Comparison both = compare(program, rules_for(preset, seed), limit_of(seed, usual, large));
    if (both.was_made) {
      EXPECT_EQ(both.difference, "") << name(preset) << ", seed " << seed << "\n" << to_string(program, both);
      add(count, both);
    } else {
      ++count["has too many states for the oracle"];
    }
  }
  for (const auto& [what, number] : count) {
    std::cout << fmt::format("{:>6} {}\n", number, what);
  }
  return count;
}

class Oracle : public ::testing::TestWithParam<Preset> {};
class OracleOfStates : public Oracle {};
class OracleOfLookers : public Oracle {};

TEST_P(Oracle, AgreesWithTheExplorer) {
  const std::uint64_t each = programs(70);
  Counts count = compare_all(GetParam(), each, random_list, {8'000, 600}, {60'000, 4'000});
  EXPECT_GT(count["safe"], each / 10);
  EXPECT_GT(count["safe with more than one end"], each / 15);
  EXPECT_GT(count["wrong, say both"], each / 15);
}

// A state costs the search a replay, so the limits are small.
TEST_P(OracleOfStates, AgreesWithTheSearchThroughStates) {
  Counts count =
      compare_all(GetParam(), programs(35), random_list, {1'500, 600, Mode::states}, {20'000, 4'000, Mode::states});
  EXPECT_GT(count["safe"], 0);
  EXPECT_GT(count["somebody is stuck, say both"], 0);
}

// Clients that look at their buffers and at a shared object, also behind posts. With an object that clients share a
// step takes long.
TEST_P(OracleOfLookers, AgreesWithTheExplorer) {
  Counts count = compare_all(GetParam(), programs(6), random_list_of_lookers, {2'000, 100}, {10'000, 1'000});
  EXPECT_GT(count["safe"], 0);
}

struct Seed {
  std::uint64_t number;
  ProgramList (*list)(std::uint64_t);
  Limits limit;
  Preset preset = Preset::strict;
};
class OracleOfSeeds : public ::testing::TestWithParam<Seed> {};

// Programs about which the two once disagreed.
TEST_P(OracleOfSeeds, AgreesWithTheExplorer) {
  const ProgramList program = GetParam().list(GetParam().number);
  const Comparison both = compare(program, rules_for(GetParam().preset, GetParam().number), GetParam().limit);
  ASSERT_TRUE(both.was_made);
  EXPECT_EQ(both.difference, "") << to_string(program, both);
}

INSTANTIATE_TEST_SUITE_P(
    All, OracleOfSeeds,
    ::testing::Values(
        // What a client posts before another one revokes its queue pair went first, and was never posted behind.
        Seed{3575, random_list, {1'500, 600, Mode::states}},
        // A change of a shared object that was undone counted as one in the first execution, and in no later one.
        Seed{1069, random_list_of_lookers, {2'000, 100}}, Seed{1133, random_list_of_lookers, {2'000, 100}},
        // A client may crash before its first step, in which it changes an object.
        Seed{74, random_list_of_lookers, {2'000, 100}}, Seed{215, random_list_of_lookers, {2'000, 100}},
        // A trace's calm order had steps behind the violation.
        Seed{311, random_list_of_lookers, {2'000, 100}},
        // The oracle let another task of the client go on between an object's change and the post behind it.
        Seed{2704, random_list_of_lookers, {2'000, 100}, Preset::observed},
        // A client that had crashed at a post changed the object behind it.
        Seed{2912, random_list_of_lookers, {2'000, 100}, Preset::observed},
        // A client changed an object behind a post, and another one that only looked at it was not seen in between.
        Seed{9429, random_list_of_lookers, {2'000, 100}, Preset::observed}),
    [](const auto& parameter) { return std::to_string(parameter.param.number); });

const auto kEveryPreset = ::testing::ValuesIn(kPresets);
constexpr auto kName = [](const auto& parameter) { return std::string(name(parameter.param)); };
INSTANTIATE_TEST_SUITE_P(EveryPreset, Oracle, kEveryPreset, kName);
INSTANTIATE_TEST_SUITE_P(EveryPreset, OracleOfStates, kEveryPreset, kName);
INSTANTIATE_TEST_SUITE_P(EveryPreset, OracleOfLookers, kEveryPreset, kName);

}  // namespace
}  // namespace sidelatch::explore::oracle
