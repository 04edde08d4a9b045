// `sidelatch litmus`: states, expectations, and the place of a mistake.
#include "tests/tools/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace sidelatch::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string litmus_file(const std::string& name, const std::string& text) {
  const std::string path = scratch(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// Under every model, both loads may come before both stores drain.
std::string store_buffering(const std::string& expectation) {
  return "litmus t\nvar x = 0\nvar y = 0\nC0:\n  store x 1\n  r0 = load y\nC1:\n  store y 1\n  r1 = load x\n"
         "exists C0:r0 == 0 && C1:r1 == 0\n" +
         expectation;
}

TEST(Litmus, TestsAsExpectedExitWith0) {
  const std::string folder = "tests/litmus/";
  const Outcome outcome =
      run("litmus --json " + folder + "load-buffering.litmus " + folder + "cpu-store-buffering.litmus");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  const auto json = nlohmann::ordered_json::parse(outcome.out);
  ASSERT_EQ(json.size(), 8U);  // two files, four models
  for (const auto& result : json) {
    EXPECT_THAT(keys_of(result), ElementsAre("test", "model", "reachable", "expected", "ok", "states", "bound",
                                             "executions", "seconds"));
    EXPECT_TRUE(result["bound"].is_null());
    EXPECT_EQ(result["ok"], true);
  }
  EXPECT_EQ(json[0]["test"], "load-buffering");
  EXPECT_EQ(json[0]["model"], "strict");
  EXPECT_EQ(json[7]["test"], "cpu-store-buffering");
  EXPECT_EQ(json[7]["model"], "relaxed");
}

TEST(Litmus, PrintsStatesForPeople) {
  const std::string path = litmus_file("right.litmus", store_buffering("expect all allowed\n"));
  const Outcome outcome = run("litmus --model observed " + path);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("t under observed: reachable, expected allowed: ok"),
                                 HasSubstr("* C0:r0=0 C1:r1=0 x=1 y=1")));
  std::filesystem::remove(path);
}

TEST(Litmus, AWrongExpectationExitsWith1) {
  const std::string path = litmus_file("wrong.litmus", store_buffering("expect all forbidden\n"));
  const Outcome outcome = run("litmus " + path);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("NOT AS EXPECTED"));
  const auto json = nlohmann::ordered_json::parse(run("litmus --json --model spec " + path).out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["ok"], false);
  EXPECT_EQ(json[0]["expected"], "forbidden");
  // One wrong file among right ones is enough.
  EXPECT_EQ(run("litmus tests/litmus/load-buffering.litmus " + path).status, 1);
  std::filesystem::remove(path);
}

TEST(Litmus, WithoutExpectationATestIsAsExpected) {
  const std::string path = litmus_file("open.litmus", store_buffering(""));
  EXPECT_EQ(run("litmus " + path).status, 0);
  std::filesystem::remove(path);
}

// Without an expectation the list of states is the answer, and this one is not whole.
TEST(Litmus, StatesThatWereNotAllFoundExitWith1) {
  const std::string path =
      litmus_file("large.litmus",
                  "litmus t\nobject D[4] = 0\nobject E[4] = 0\nP0:\n  write D 1\n  write E 2\nP1:\n"
                  "  r0 = read D\n  r1 = read E\nP2:\n  r0 = read E\n  r1 = read D\n");
  const Outcome outcome = run("litmus --json --model relaxed --budget 0.01 " + path);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(nlohmann::json::parse(outcome.out).at(0).at("bound").get<std::string>(), HasSubstr("0.01"));
  std::filesystem::remove(path);
}

TEST(Litmus, ItsFilesMayFollowAModel) {
  const std::string test = "tests/litmus/load-buffering.litmus";
  const Outcome outcome = run("litmus --json --model strict " + test + " " + test);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out).size(), 2U);
}

TEST(Litmus, ASyntaxErrorExitsWith2AndItsPlaceBeforeAnythingIsExplored) {
  const std::string path = litmus_file("bad.litmus", "litmus t\nvar x = 0\nP0:\n  wirte x 1\n");
  for (const char* json : {"", "--json "}) {
    const Outcome outcome = run(std::string("litmus ") + json + "tests/litmus/load-buffering.litmus " + path);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, StartsWith(path + ":4:3: error: "));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sidelatch::tools
