// Litmus tests run: the files of tests/litmus come out as they expect, and small ones reach exactly the final states
// that were worked out by hand.
#include <sidelatch/explore/litmus.h>
#include "tests/paths.h"

#include "tests/checker/explore/checking.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// ---- The files.

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(in_source_tree("tests/litmus"))) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

std::string slurp(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class EveryLitmusFile : public ::testing::TestWithParam<Preset> {};

TEST_P(EveryLitmusFile, ComesOutAsItExpects) {
  const std::vector<std::filesystem::path> paths = files();
  EXPECT_GE(paths.size(), 40U);
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.string());
    const std::vector<LitmusResult> results = run_litmus(slurp(path), path.string(), {{GetParam()}}, {});
    ASSERT_EQ(results.size(), 1U);
    const LitmusResult& result = results.front();
    EXPECT_EQ(result.test, path.stem().string());
    EXPECT_EQ(result.model, GetParam());
    ASSERT_TRUE(result.ok().has_value()) << to_text(result);
    EXPECT_TRUE(*result.ok()) << to_text(result);
    EXPECT_EQ(result.verdict.outcome, Outcome::safe) << to_text(result.verdict);
    EXPECT_FALSE(result.states.empty());
    ASSERT_EQ(result.satisfies.size(), result.states.size());
    EXPECT_EQ(std::ranges::count(result.satisfies, true) != 0, *result.reachable);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPreset, EveryLitmusFile, ::testing::ValuesIn(kPresets),
                         [](const auto& preset) { return std::string(name(preset.param)); });

// ---- States, worked out by hand.

using States = std::set<LitmusState>;

LitmusResult run_one(const std::string& text, Preset model, const Options& options = {}) {
  return run_litmus(text, "t.litmus", {{model}}, options).front();
}

States states_of(const std::string& text, Preset model) {
  const LitmusResult result = run_one(text, model);
  EXPECT_EQ(result.verdict.outcome, Outcome::safe);
  // Each state once.
  EXPECT_EQ(States(result.states.begin(), result.states.end()).size(), result.states.size());
  return {result.states.begin(), result.states.end()};
}

// One READ of two lines beside a CPU that stores into one after the other.
TEST(LitmusRun, AReadOfTwoLinesBesideStores) {
  const std::string text =
      "litmus t\n"
      "object D[2] = 0\n"
      "P0:\n"
      "  r0 = read D\n"
      "  wait\n"
      "C0:\n"
      "  store D[0] 1\n"
      "  store D[1] 1\n";
  const auto state = [](std::int64_t first, std::int64_t second) {
    return LitmusState{{"P0:r0[0]", first}, {"P0:r0[1]", second}, {"D[0]", 1}, {"D[1]", 1}};
  };
  const States in_order = {state(0, 0), state(1, 0), state(1, 1)};
  States any_order = in_order;
  any_order.insert(state(0, 1));  // line 0 first, line 1 after both stores
  // Under strict the READ is one step between the stores.
  EXPECT_EQ(states_of(text, Preset::strict), in_order);
  for (const Preset model : {Preset::observed, Preset::spec, Preset::relaxed}) {
    EXPECT_EQ(states_of(text, model), any_order) << name(model);
  }
}

// More bytes than a queue pair inlines.
TEST(LitmusRun, AWriteOfALongObject) {
  for (const Preset model : kPresets) {
    LitmusState after;
    for (int line = 0; line < 6; ++line) {
      after.emplace_back("D[" + std::to_string(line) + "]", 7);
    }
    EXPECT_EQ(states_of("litmus t\nobject D[6] = 0\nP0:\n  write D 7\n", model), States{after}) << name(model);
  }
}

// Posting never waits: the buffer of the first of many requests may be fetched after all have been posted.
TEST(LitmusRun, MoreRequestsThanAQueuePairHoldsByDefault) {
  std::string text = "litmus t\nvar x = 0\nvar y = 0\nP0:\n  buf b = 1\n  write.buf x b\n";
  for (int i = 0; i < 64; ++i) {
    text += "  write y 1\n";
  }
  text += "  b := 2\nexists x == 2\n";
  EXPECT_EQ(run_one(text, Preset::strict).reachable, true);
}

// An execution of it is longer than other programs' may be by default.
TEST(LitmusRun, AStraightProgramHasNoBound) {
  std::string text = "litmus t\nvar x = 0\nP0:\n";
  for (int i = 0; i < 4000; ++i) {
    text += "  write x 1\n  wait\n";
  }
  EXPECT_EQ(states_of(text, Preset::strict), States{LitmusState({{"x", 1}})});
}

// The most that a test may have: M0, and 61 threads.
TEST(LitmusRun, AsManyThreadsAsTheExplorerTakes) {
  std::string text = "litmus t\nvar x = 0\nP0:\n  write x 1\n";
  for (int i = 0; i < 60; ++i) {
    text += fmt::format("C{}:\n", i);
  }
  EXPECT_EQ(states_of(text, Preset::strict), States{LitmusState({{"x", 1}})});
}

TEST(LitmusRun, JsonSaysWhatCutTheSearchOff) {
  const std::string text = "litmus t\nvar x = 0\nP0:\n  write x 1\nP1:\n  r0 = read x\n";
  const std::array models = {Preset::strict};
  const auto bound = [&](const Options& options) {
    return to_json(run_litmus(text, "t.litmus", models, options).at(0)).at("bound");
  };
  EXPECT_TRUE(bound({}).is_null());
  EXPECT_THAT(bound({.max_executions = 1}).get<std::string>(), HasSubstr("1 execution"));
}

// The CPU's view of one WRITE of two lines depends on rule 3.
TEST(LitmusRun, AWriteOfTwoLinesBesideLoads) {
  const std::string text =
      "litmus t\n"
      "object D[2] = 0\n"
      "P0:\n"
      "  write D 1\n"
      "C0:\n"
      "  r0 = load D[1]\n"
      "  r1 = load D[0]\n";
  const auto state = [](std::int64_t second, std::int64_t first) {
    return LitmusState{{"C0:r0", second}, {"C0:r1", first}, {"D[0]", 1}, {"D[1]", 1}};
  };
  const States ascending = {state(0, 0), state(0, 1), state(1, 1)};
  States any = ascending;
  any.insert(state(1, 0));  // line 1 was placed first
  EXPECT_EQ(states_of(text, Preset::strict), ascending);
  EXPECT_EQ(states_of(text, Preset::observed), ascending);
  EXPECT_EQ(states_of(text, Preset::spec), any);
  EXPECT_EQ(states_of(text, Preset::relaxed), any);
}

// A test uses one word of each of an object's lines. So smaller pieces change nothing for it, and cost no more: with
// the other words of the lines between them, a WRITE and a READ of three lines have more than 100 000 orders.
TEST(LitmusRun, AnObjectHasOnePieceForEachLineInPiecesOfAnySize) {
  const auto text = [](std::string_view param) {
    return fmt::format(
        "litmus t\n"
        "var x = 5\n"
        "object D[3] = 0\n"
        "line L {{ a = 6, b = 7 }}\n"
        "{}\n"
        "P0:\n"
        "  write D 1\n"
        "P1:\n"
        "  r = read D\n"
        "  s = read x\n"
        "C0:\n"
        "  t = load D[1]\n",
        param);
  };
  for (const Preset model : kPresets) {
    const LitmusResult whole = run_one(text(""), model);
    ASSERT_EQ(whole.verdict.outcome, Outcome::safe);
    for (const std::string_view param : {"param atom 32", "param atom 16", "param atom 8"}) {
      // Whoever takes many more has pieces that nobody can tell apart; the search need not end to show it.
      const LitmusResult result =
          run_one(text(param), model, {.max_executions = 8 * (whole.verdict.executions + whole.verdict.redundant)});
      EXPECT_EQ(result.verdict.outcome, Outcome::safe) << name(model) << " " << param;
      EXPECT_EQ(result.states, whole.states) << name(model) << " " << param;
    }
  }
}

// A CPU thread sees what it loads and nothing else, and registers are none that others see. So what it does beside the
// requests of others, in other words, has no order with them.
TEST(LitmusRun, ACpuThreadThatTouchesOtherWordsTakesNoExecutions) {
  const std::string requests =
      "litmus t\n"
      "object D[3] = 0\n"
      "var x = 0\n"
      "P0:\n"
      "  write D 1\n"
      "P1:\n"
      "  r = read D\n";
  const std::string thread =
      "C0:\n"
      "  store x 1\n"
      "  s = load x\n";
  for (const Preset model : kPresets) {
    const LitmusResult alone = run_one(requests, model);
    const LitmusResult beside = run_one(requests + thread, model);
    EXPECT_EQ(beside.verdict.outcome, Outcome::safe);
    EXPECT_EQ(beside.states.size(), alone.states.size()) << name(model);
    EXPECT_LE(beside.verdict.executions, 2 * alone.verdict.executions) << name(model);
  }
}

// Two NICs, one word: each atomic finds 0 or the other's result, and a store may erase the other's.
TEST(LitmusRun, TwoAtomicsThroughTwoNics) {
  const std::string text =
      "litmus t\n"
      "var x = 0\n"
      "P0:\n"
      "  r0 = faa x 1\n"
      "  wait\n"
      "P1:\n"
      "  r1 = faa x 2\n"
      "  wait\n"
      "qp P1.qp0 nic1\n";
  const auto state = [](std::int64_t r0, std::int64_t r1, std::int64_t x) {
    return LitmusState{{"P0:r0", r0}, {"P1:r1", r1}, {"x", x}};
  };
  const States exclusive = {state(0, 1, 3), state(2, 0, 3)};
  States overlapping = exclusive;
  overlapping.insert(state(0, 0, 1));
  overlapping.insert(state(0, 0, 2));
  EXPECT_EQ(states_of(text, Preset::strict), exclusive);
  for (const Preset model : {Preset::observed, Preset::spec, Preset::relaxed}) {
    EXPECT_EQ(states_of(text, model), overlapping) << name(model);
    EXPECT_EQ(states_of("litmus t\nparam atomic_scope global\n" + text.substr(text.find("var")), model), exclusive);
  }
}

// A state lacks registers of a branch that was not taken, and of requests that were never posted.
TEST(LitmusRun, AStateHoldsTheRegistersThatWereAssigned) {
  const std::string text =
      "litmus t\n"
      "var x = 0\n"
      "P0:\n"
      "  r0 = cas x 0 1\n"
      "  wait\n"
      "  if r0 == 0 {\n"
      "    r2 = read x\n"
      "  }\n"
      "P1:\n"
      "  r1 = cas x 0 2\n"
      "  wait\n";
  for (const Preset model : kPresets) {
    EXPECT_EQ(states_of(text, model),
              (States{{{"P0:r0", 0}, {"P0:r2", 1}, {"P1:r1", 1}, {"x", 1}}, {{"P0:r0", 2}, {"P1:r1", 0}, {"x", 2}}}))
        << name(model);
  }
}

// ---- Expectations.

std::string store_buffering(const std::string& last) {
  return "litmus t\n"
         "var x = 0\n"
         "var y = 0\n"
         "C0:\n"
         "  store x 1\n"
         "  r0 = load y\n"
         "C1:\n"
         "  store y 1\n"
         "  r1 = load x\n" +
         last;
}

constexpr const char* kBothZero = "exists C0:r0 == 0 && C1:r1 == 0\n";

TEST(LitmusRun, AWrongExpectationIsNotOk) {
  const LitmusResult right =
      run_one(store_buffering(std::string(kBothZero) + "expect all allowed\n"), Preset::observed);
  EXPECT_EQ(right.reachable, true);
  EXPECT_EQ(right.expected, true);
  EXPECT_EQ(right.ok(), true);
  EXPECT_THAT(to_text(right), HasSubstr("reachable, expected allowed: ok"));
  const LitmusResult wrong =
      run_one(store_buffering(std::string(kBothZero) + "expect all forbidden\n"), Preset::observed);
  EXPECT_EQ(wrong.reachable, true);
  EXPECT_EQ(wrong.expected, false);
  EXPECT_EQ(wrong.ok(), false);
  EXPECT_THAT(to_text(wrong), HasSubstr("NOT AS EXPECTED"));
  const LitmusResult never = run_one(store_buffering("exists C0:r0 == 7\nexpect all allowed\n"), Preset::observed);
  EXPECT_EQ(never.reachable, false);
  EXPECT_EQ(never.ok(), false);
}

TEST(LitmusRun, WithoutExpectationNothingIsOkOrNot) {
  const LitmusResult open = run_one(store_buffering(kBothZero), Preset::observed);
  EXPECT_EQ(open.reachable, true);
  EXPECT_EQ(open.expected, std::nullopt);
  EXPECT_EQ(open.ok(), std::nullopt);
  const LitmusResult none = run_one(store_buffering(""), Preset::observed);
  EXPECT_EQ(none.reachable, std::nullopt);
  EXPECT_EQ(none.ok(), std::nullopt);
  EXPECT_THAT(to_text(none), HasSubstr("no condition"));
  const LitmusResult other =
      run_one(store_buffering(std::string(kBothZero) + "expect spec allowed\n"), Preset::observed);
  EXPECT_EQ(other.ok(), std::nullopt);
}

TEST(LitmusRun, WhatABudgetLeftOutIsNotForbidden) {
  Options one;
  one.max_executions = 1;
  // 5 is never stored, but one execution does not prove it.
  const LitmusResult result =
      run_one(store_buffering("exists C0:r0 == 5\nexpect all forbidden\n"), Preset::observed, one);
  EXPECT_EQ(result.verdict.outcome, Outcome::bounded);
  EXPECT_EQ(result.ok(), std::nullopt);
  EXPECT_THAT(to_text(result), HasSubstr("undecided"));
  EXPECT_THAT(to_text(result), HasSubstr("not reached so far"));
  EXPECT_TRUE(to_json(result)["reachable"].is_null());
  EXPECT_FALSE(to_json(run_one(store_buffering("exists C0:r0 == 5\n"), Preset::observed))["reachable"].is_null());
}

// A client that crashes has passed a wait for two queue pairs, or has not: it knows both values or none.
TEST(LitmusRun, AWaitForTwoQueuePairsIsOneStep) {
  for (const char* const first : {"qp0", "qp1"}) {
    const std::string second = std::string_view(first) == "qp0" ? "qp1" : "qp0";
    const LitmusResult result = run_one("litmus t\nvar x = 5\nvar y = 6\nP0:\nr0 = read @" + std::string(first) +
                                            " x\nr1 = read @" + second + " y\nwait\ncrash P0\n",
                                        Preset::observed);
    bool are_both = false;
    for (const LitmusState& state : result.states) {
      const auto knows = [&](std::string_view name) {
        return std::ranges::any_of(state, [&](const auto& pair) { return pair.first.find(name) != std::string::npos; });
      };
      EXPECT_EQ(knows("r0"), knows("r1"));
      are_both = are_both || knows("r0");
    }
    EXPECT_TRUE(are_both);
    EXPECT_GT(result.states.size(), 1U);
  }
}

TEST(LitmusRun, EachModelHasItsResultInTheOrderAsked) {
  const std::array models = {Preset::spec, Preset::strict};
  const std::vector<LitmusResult> results = run_litmus(store_buffering(kBothZero), "t.litmus", models, {});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].model, Preset::spec);
  EXPECT_EQ(results[1].model, Preset::strict);
  EXPECT_TRUE(run_litmus(store_buffering(kBothZero), "t.litmus", {}, {}).empty());
}

// ---- JSON.

std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    keys.push_back(key);
  }
  return keys;
}

TEST(LitmusRun, AResultAsJsonHasExactlyItsKeys) {
  const nlohmann::ordered_json json =
      to_json(run_one(store_buffering(std::string(kBothZero) + "expect all allowed\n"), Preset::observed));
  EXPECT_THAT(keys_of(json),
              ElementsAre("test", "model", "reachable", "expected", "ok", "states", "bound", "executions", "seconds"));
  EXPECT_EQ(json["test"], "t");
  EXPECT_EQ(json["model"], "observed");
  EXPECT_EQ(json["reachable"], true);
  EXPECT_EQ(json["expected"], "allowed");
  EXPECT_EQ(json["ok"], true);
  ASSERT_EQ(json["states"].size(), 4U);  // each load finds 0 or 1
  for (const auto& state : json["states"]) {
    EXPECT_THAT(keys_of(state), ElementsAre("C0:r0", "C1:r1", "x", "y"));
  }
  EXPECT_GE(json["executions"], 4);
  EXPECT_TRUE(json["seconds"].is_number());
}

TEST(LitmusRun, WhatIsNotKnownIsNull) {
  const nlohmann::ordered_json json = to_json(run_one(store_buffering(""), Preset::observed));
  EXPECT_TRUE(json["reachable"].is_null());
  EXPECT_TRUE(json["expected"].is_null());
  EXPECT_TRUE(json["ok"].is_null());
  EXPECT_EQ(
      to_json(run_one(store_buffering(std::string(kBothZero) + "expect all forbidden\n"), Preset::spec))["expected"],
      "forbidden");
}

// ---- Errors.

TEST(LitmusRun, AnErrorHasThePlaceInTheFile) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(run_litmus(text, "dir/t.litmus", kPresets, {}));
    } catch (const LitmusError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of("litmus t\nvar x = 0\nP0:\n  wirte x 1\n"), StartsWith("dir/t.litmus:4:3: error: "));
  EXPECT_THAT(error_of("litmus t\nvar x = 0\nP0:\n  write z 1\n"), StartsWith("dir/t.litmus:4:9: error: "));
  EXPECT_THAT(error_of(""), StartsWith("dir/t.litmus:1:1: error: "));
}

}  // namespace
}  // namespace sidelatch::explore
