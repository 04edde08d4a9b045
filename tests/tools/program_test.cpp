// The program as its users meet it: output, files and exit statuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sidelatch::tools {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome run(const std::string& arguments) {
  const std::string errors = ::testing::TempDir() + "/sidelatch_stderr_" + std::to_string(::getpid());
  const std::string command = std::string(SIDELATCH_PROGRAM) + " " + arguments + " 2>" + errors;
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> chunk{};
  for (std::size_t n = 0; (n = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    outcome.out.append(chunk.data(), n);
  }
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.err = slurp(errors);
  std::filesystem::remove(errors);
  return outcome;
}

constexpr const char* kQuickCheck = "check --fabric sim --sizes 64,512 --reads 30000 ";

TEST(Program, CheckPrintsATableForPeople) {
  const Outcome outcome = run(kQuickCheck);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("what schemes do"), ContainsRegex("broken/bookend  +unsafe"),
                                 ContainsRegex("optimistic/farm  +not exercised  no tear in 60000 chances")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b[")));  // no colours into a pipe
  EXPECT_THAT(outcome.err, IsEmpty());                // nor a progress bar
}

TEST(Program, CheckPrintsOneJsonValueAndNothingElse) {
  const Outcome outcome = run(std::string(kQuickCheck) + "--json");
  EXPECT_EQ(outcome.status, 0);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["probes"].size(), 2U);
  EXPECT_EQ(json["probes"][0]["undetected"], 0);
  EXPECT_GT(json["probes"][1]["undetected"], 0);
}

TEST(Program, CheckSavesWhatItPrinted) {
  const std::string folder = ::testing::TempDir() + "/sidelatch_out/deep";
  const Outcome outcome = run(std::string(kQuickCheck) + "--out " + folder);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(slurp(folder + "/check.txt"), outcome.out);
  EXPECT_EQ(nlohmann::json::parse(slurp(folder + "/check.json"))["fabric"], "sim");
  std::filesystem::remove_all(::testing::TempDir() + "/sidelatch_out");
}

TEST(Program, VerbsWithoutANicSaysWhatItLookedForAndExitsWith3) {
  if (std::filesystem::exists("/sys/class/infiniband") && !std::filesystem::is_empty("/sys/class/infiniband")) {
    GTEST_SKIP() << "this machine has an RDMA device";
  }
  const Outcome outcome = run("check --fabric verbs");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no RDMA device"), HasSubstr("/dev/infiniband")));
  EXPECT_THAT(outcome.out, IsEmpty());
}

class WrongInput : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(WrongInput, ExitsWith2AndNamesTheArgument) {
  const Outcome outcome = run(GetParam().first);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().second));
  EXPECT_THAT(outcome.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Program, WrongInput,
    ::testing::Values(std::pair{"", "subcommand"}, std::pair{"chekc", "chekc"}, std::pair{"check --sizes 100", "100"},
                      std::pair{"check --sizes -64", "-64"}, std::pair{"check --sizes 64,x", "x"},
                      std::pair{"check --seconds 0", "--seconds 0"}, std::pair{"check --fabric tcp", "--fabric tcp"},
                      std::pair{"check --profile nosuch", "nosuch"}, std::pair{"check --reads 0", "0 reads"},
                      std::pair{"check --profile /no/file.toml", "/no/file.toml"},
                      std::pair{"check --out /proc/none", "/proc/none"}, std::pair{"check --bogus", "--bogus"},
                      std::pair{"bench", "name"}, std::pair{"bench nosuch", "nosuch"},
                      std::pair{"bench list --fabric verbs", "--fabric verbs"}));

TEST(Program, AProfileWithAnUnknownKeyIsRefusedWithItsPlace) {
  const std::string path = ::testing::TempDir() + "/bad_" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << "[link]\nspeed = 3\n";
  const Outcome outcome = run("check --profile " + path);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(path + ":2:1: error: unknown key link.speed"));
  std::filesystem::remove(path);
}

TEST(Program, BenchTargetsCarryTheContract) {
  const Outcome outcome = run("bench targets --json");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  const auto json = nlohmann::json::parse(outcome.out);
  for (const auto& row : json) {
    EXPECT_TRUE(row.contains("id") && row.contains("expected") && row.contains("measured") && row.contains("unit") &&
                row.contains("ratio") && row.contains("ok"));
  }
}

TEST(Program, AMissedTargetFailsOnlyWithStrict) {
  const std::string path = ::testing::TempDir() + "/slow_" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << "[lock_table]\nservice_ns = 800\n";
  EXPECT_EQ(run("bench atomics-stride --profile " + path).status, 0);
  EXPECT_EQ(run("bench atomics-stride --strict --profile " + path).status, 1);
  std::filesystem::remove(path);
}

TEST(Program, ListsExperimentsAndDevices) {
  EXPECT_THAT(run("bench list").out, AllOf(HasSubstr("atomics-contention"), HasSubstr("atomics-stride")));
  const auto json = nlohmann::json::parse(run("devices --json").out);
  EXPECT_TRUE(std::ranges::any_of(json, [](const auto& device) { return device["name"] == "sim:connectx5"; }));
  EXPECT_EQ(run("--version").out, "sidelatch 0.1.0\n");
}

}  // namespace
}  // namespace sidelatch::tools
