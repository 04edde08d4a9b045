// `sidelatch explore`: verdicts, traces and replays, and their exit statuses.
#include "tests/tools/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace sidelatch::tools {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Explore, ASafeCellThatShouldBeExitsWith0) {
  const Outcome outcome = run("explore --scheme latch-exclusive/basic --model spec --json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  const auto json = nlohmann::ordered_json::parse(outcome.out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_THAT(keys_of(json[0]),
              ElementsAre("scheme", "model", "verdict", "expected", "executions", "seconds", "violation"));
  EXPECT_EQ(json[0]["scheme"], "latch-exclusive/basic");
  EXPECT_EQ(json[0]["model"], "spec");
  EXPECT_EQ(json[0]["verdict"], "safe");
  EXPECT_EQ(json[0]["expected"], "safe");
  EXPECT_GE(json[0]["executions"], 2);
  EXPECT_TRUE(json[0]["violation"].is_null());
}

TEST(Explore, ABrokenCellThatShouldBeExitsWith0AndHasATrace) {
  const Outcome outcome = run("explore --scheme broken/naive --model observed --json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::ordered_json::parse(outcome.out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["verdict"], "broken");
  EXPECT_EQ(json[0]["expected"], "broken");
  const auto& violation = json[0]["violation"];
  EXPECT_THAT(keys_of(violation), ElementsAre("kind", "what", "trace"));
  EXPECT_EQ(violation["kind"], "torn-read");
  ASSERT_FALSE(violation["trace"].empty());
  EXPECT_THAT(keys_of(violation["trace"][0]), ElementsAre("actor", "action", "wr", "target", "value", "rule", "note"));
}

TEST(Explore, PrintsATimelineForPeople) {
  const Outcome outcome = run("explore --scheme broken/naive --model observed");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("broken/naive under observed: broken: torn-read"), HasSubstr("writer 0"),
                                 HasSubstr("reader 0"), HasSubstr("rule 4")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b[")));
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(Explore, SeveralCellsAreALineEach) {
  const Outcome outcome =
      run("explore --scheme broken/naive --scheme latch-exclusive/basic --model strict --model observed");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 4);
  EXPECT_THAT(outcome.out,
              AllOf(ContainsRegex("broken/naive +strict +safe"), ContainsRegex("broken/naive +observed +broken"),
                    ContainsRegex("latch-exclusive/basic +strict +safe"),
                    ContainsRegex("latch-exclusive/basic +observed +safe")));
}

TEST(Explore, AVerdictThatIsNotAsExpectedExitsWith1) {
  // Only the presets are documented, so any violation is unexpected.
  const Outcome outcome = run("explore --scheme latch-exclusive/basic --model observed --nics 2 --json");
  EXPECT_EQ(outcome.status, 1);
  const auto json = nlohmann::ordered_json::parse(outcome.out);
  EXPECT_EQ(json[0]["verdict"], "broken");
  EXPECT_TRUE(json[0]["expected"].is_null());
  EXPECT_EQ(run("explore --scheme latch-exclusive/basic --model observed --nics 2 --param atomic_scope=global").status,
            0);
}

TEST(Explore, ABoundExitsWith1UnlessItIsAllowed) {
  const std::string bounded = "explore --scheme latch-rw/async --model observed --json --executions 3";
  const Outcome outcome = run(bounded);
  EXPECT_EQ(outcome.status, 1);
  const auto json = nlohmann::ordered_json::parse(outcome.out);
  EXPECT_EQ(json[0]["verdict"], "bounded");
  EXPECT_THAT(json[0]["bound"].get<std::string>(), HasSubstr("3 executions"));
  EXPECT_EQ(run(bounded + " --allow-bounded").status, 0);
  EXPECT_EQ(run("explore --scheme optimistic/two-read --model observed --mode random --executions 100").status, 1);
}

TEST(Explore, ATraceReplaysToTheSameViolation) {
  const std::string path = scratch("trace.json");
  const Outcome found = run("explore --scheme broken/naive --model observed --json --trace " + path);
  EXPECT_EQ(found.status, 0) << found.err;
  const auto violation = nlohmann::ordered_json::parse(found.out)[0]["violation"];
  const Outcome again = run("explore --json --replay " + path);
  EXPECT_EQ(again.status, 1) << again.err;  // a violation that nothing expects
  const auto replayed = nlohmann::ordered_json::parse(again.out);
  EXPECT_EQ(replayed["kind"], violation["kind"]);
  EXPECT_EQ(replayed["what"], violation["what"]);
  EXPECT_EQ(replayed["trace"].size(), violation["trace"].size());
  EXPECT_THAT(run("explore --replay " + path).out, HasSubstr("broken: torn-read"));
  std::filesystem::remove(path);
}

TEST(Explore, ATraceHasAPicture) {
  const std::string picture = scratch("trace.svg");
  const std::string path = scratch("drawn.json");
  EXPECT_EQ(run("explore --scheme broken/naive --model observed --svg " + picture + " --trace " + path).status, 0);
  const std::string svg = slurp(picture);
  EXPECT_THAT(svg, ::testing::AllOf(::testing::StartsWith("<svg "), HasSubstr("broken/naive under observed"),
                                    HasSubstr("torn-read"), ::testing::EndsWith("</svg>\n")));
  std::filesystem::remove(picture);
  EXPECT_EQ(run("explore --replay " + path + " --svg " + picture).status, 1);
  EXPECT_EQ(slurp(picture), svg);
  std::filesystem::remove(picture);
  std::filesystem::remove(path);
  const Outcome safe = run("explore --scheme optimistic/two-read --model strict --svg " + picture);
  EXPECT_EQ(safe.status, 0);
  EXPECT_THAT(safe.err, HasSubstr("was not written"));
  std::filesystem::remove(picture);
}

// After a search that was cut, nobody knows that nothing is broken.
TEST(Explore, ACutSearchThatFoundNothingSaysNoMore) {
  const std::string path = scratch("not_found.json");
  const Outcome cut = run("explore --scheme broken/naive --model observed --executions 1 --trace " + path);
  EXPECT_EQ(cut.status, 1);
  EXPECT_THAT(cut.out, HasSubstr("bounded"));
  EXPECT_EQ(cut.err, "sidelatch: no violation was found, so " + path + " was not written\n");
  EXPECT_FALSE(std::filesystem::exists(path));
}

// What a trace says itself cannot be said otherwise.
TEST(Explore, AReplayTakesNoOtherProgram) {
  const std::string path = scratch("alone.json");
  ASSERT_EQ(run("explore --scheme broken/naive --model observed --trace " + path).status, 0);
  for (const std::string option :
       {"--scheme optimistic/farm", "--model strict", "--param atom=8", "--clients 3", "--lines 4", "--nics 2",
        "--crash", "--budget 3", "--executions 3", "--retries 3", "--mode pct", "--seed 3", "--trace t.json"}) {
    const Outcome outcome = run("explore --replay " + path + " " + option);
    EXPECT_EQ(outcome.status, 2) << option;
    EXPECT_THAT(outcome.err, HasSubstr("leave " + option.substr(0, option.find(' ')) + " out"));
  }
  EXPECT_EQ(run("explore --replay " + path + " --threads 1").status, 1);
  std::filesystem::remove(path);
}

TEST(Explore, ATraceKeepsItsParameters) {
  const std::string path = scratch("atom.json");
  EXPECT_EQ(run("explore --scheme optimistic/farm --model observed --param atom=32 --executions 100000 --trace " + path)
                .status,
            1);
  EXPECT_THAT(run("explore --replay " + path).out, HasSubstr("broken: torn-read"));
  std::filesystem::remove(path);
}

TEST(Explore, ATraceKeepsItsRetries) {
  const std::string path = scratch("retries.json");
  ASSERT_EQ(run("explore --scheme broken/rw-async-cas-unlatch --model spec --retries 0 --trace " + path).status, 0);
  EXPECT_EQ(run("explore --replay " + path).status, 1);
  std::filesystem::remove(path);
}

// The trace says that something is broken, and it is not: whoever relies on the status must learn that.
TEST(Explore, ATraceWhoseViolationIsGoneExitsWith1) {
  const std::string path = scratch("gone.json");
  ASSERT_EQ(run("explore --scheme broken/naive --model observed --trace " + path).status, 0);
  auto json = nlohmann::ordered_json::parse(slurp(path));
  json["choices"] = nlohmann::ordered_json::array();
  std::ofstream(path, std::ios::binary) << json.dump();
  const Outcome outcome = run("explore --replay " + path);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("gone: these choices no longer end in torn-read"));
  const Outcome as_json = run("explore --json --replay " + path);
  EXPECT_EQ(as_json.status, 1);
  EXPECT_TRUE(nlohmann::ordered_json::parse(as_json.out).is_null());
  std::filesystem::remove(path);
}

TEST(Explore, ADamagedTraceIsRefusedWithItsName) {
  const std::string path = scratch("damaged.json");
  ASSERT_EQ(run("explore --scheme broken/naive --model observed --trace " + path).status, 0);
  const std::string whole = slurp(path);
  const auto json = nlohmann::ordered_json::parse(whole);
  const auto expect_refused = [&](const std::string& text, const std::string& part) {
    std::ofstream(path, std::ios::binary) << text;
    const Outcome outcome = run("explore --replay " + path);
    EXPECT_EQ(outcome.status, 2) << text;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(path), HasSubstr(part)));
    EXPECT_THAT(outcome.out, IsEmpty());
  };
  EXPECT_THAT(run("explore --replay tests/litmus/load-buffering.litmus").err, Not(HasSubstr("json.exception")));
  expect_refused(whole.substr(0, whole.size() / 2), "parse error");
  expect_refused("", "parse error");
  expect_refused("[]", "no trace");
  expect_refused("3", "no trace");
  for (const nlohmann::ordered_json& wrong : {nlohmann::ordered_json(-1), nlohmann::ordered_json(1e30)}) {
    auto other = json;
    other["retries"] = wrong;
    expect_refused(other.dump(), "\"retries\"");
    other = json;
    other["workload"]["writers"] = wrong;
    expect_refused(other.dump(), "\"writers\"");
  }
  for (const std::string key : {"scheme", "model", "parameters", "workload", "choices", "violation"}) {
    auto without = json;
    without.erase(key);
    expect_refused(without.dump(), key);
    auto other = json;
    other[key] = 3;
    expect_refused(other.dump(), "");
  }
  auto changed = json;
  changed["choices"][1] = "nosuch:0:0:0";
  expect_refused(changed.dump(), "'nosuch:0:0:0'");
  changed = json;
  changed["choices"][1] = changed["choices"][0];
  expect_refused(changed.dump(), changed["choices"][0].get<std::string>());
  changed = json;
  changed["scheme"] = "broken/none";
  expect_refused(changed.dump(), "broken/none");
  changed = json;
  changed["workload"].erase("lines");
  expect_refused(changed.dump(), "\"lines\"");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sidelatch::tools
