// The program as its users meet it: output, files and exit statuses.
#include "tests/tools/program.h"
#include "common/sanitizers.h"
#include "tests/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sidelatch::tools {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kQuickCheck =
    "check --fabric sim --sizes 64,512 --reads 30000 --parts torn-reads,schemes,effects,lock-table,proofs ";
constexpr const char* kRates = "check --fabric sim --parts lock-table,rates ";

// As that of a variable that was not set.
TEST(Program, AnOptionWithAnEmptyValueIsAMistake) {
  for (const char* const option : {"--out", "--against", "--connect", "--profile"}) {
    const Outcome outcome = run(std::string("check --fabric sim --parts lock-table ") + option + " ''");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string(option) + " has an empty value"));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST(Program, CheckPrintsATableForPeople) {
  const Outcome outcome = run(kQuickCheck);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("what schemes do"), ContainsRegex("broken/bookend  +unsafe"),
                                 ContainsRegex("optimistic/farm  +safe  +no tear in 60000 chances; right in all"),
                                 ContainsRegex("kept +a READ waits for the WRITEs before it")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b[")));  // no colours into a pipe
  EXPECT_THAT(outcome.err, IsEmpty());                // nor a progress bar
}

TEST(Program, CheckPrintsOneJsonValueAndNothingElse) {
  const Outcome outcome = run(std::string(kQuickCheck) + "--json");
  EXPECT_EQ(outcome.status, 0);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["probes"].size(), 2U + 21U);
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

TEST(Program, CheckComparesWithAnEarlierDatasheet) {
  const std::string folder = ::testing::TempDir() + "/sidelatch_against";
  const std::string saved = folder + "/check.json";
  ASSERT_EQ(run(std::string(kRates) + "--out " + folder).status, 0);
  const Outcome same = run(std::string(kRates) + "--against " + saved);
  EXPECT_EQ(same.status, 0) << same.out;
  EXPECT_THAT(same.out, ContainsRegex("Against " + saved +
                                      " \\(sim:connectx5\\): of 0 verdicts none has changed, and of [1-9][0-9]* rates "
                                      "none is worse by more than 10 %"));

  auto json = nlohmann::json::parse(slurp(saved));
  json["lock_table"]["contended_mops"] = 4.0;
  std::ofstream(saved) << json;
  const Outcome worse = run(std::string(kRates) + "--json --against " + saved);
  EXPECT_EQ(worse.status, 1);
  const auto told = nlohmann::json::parse(worse.out)["against"];
  EXPECT_THAT(run(std::string(kRates) + "--against " + saved).out, HasSubstr("1 worse, of 0 verdicts and "));
  EXPECT_EQ(told["compared"]["verdicts"], 0);
  EXPECT_GT(told["compared"]["rates"], 2);
  ASSERT_EQ(told["worse"].size(), 1U);
  EXPECT_EQ(told["worse"][0]["what"], "lock table, one slot");
  EXPECT_EQ(run(std::string(kRates) + "--tolerance 0.5 --against " + saved).status, 0);

  // Detected before anything is measured.
  std::ofstream(saved) << "{";
  const Outcome broken = run(std::string(kRates) + "--against " + saved);
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.err, AllOf(HasSubstr(saved), HasSubstr("cut off")));
  EXPECT_THAT(broken.out, IsEmpty());
  std::filesystem::remove_all(folder);
}

// Else a test that compares nothing would pass for ever.
TEST(Program, CheckThatComparesNothingIsAMistake) {
  const std::string folder = scratch("nothing_in_common");
  const std::string saved = folder + "/check.json";
  ASSERT_EQ(run("check --fabric sim --parts lock-table --out " + folder).status, 0);
  // Known before anything is measured.
  const Outcome other = run("check --fabric sim --parts effects,rates --against " + saved);
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("--against " + saved + ": it has no verdict and no rate of --parts effects,rates"));
  EXPECT_THAT(other.out, IsEmpty());
  // Only known afterwards: what was measured is told.
  auto json = nlohmann::ordered_json::parse(slurp(saved));
  json["series"] = nlohmann::ordered_json::parse(
      R"([{"name": "rate/of-old", "x": "size", "unit": "Mops/s", "points": [{"x": 8, "y": 1}]}])");
  std::ofstream(saved) << json;
  const Outcome measured = run("check --fabric sim --parts rates --json --against " + saved);
  EXPECT_EQ(measured.status, 2);
  EXPECT_THAT(measured.err, HasSubstr("--against " + saved + ": this check measured nothing that the datasheet has"));
  const auto told = nlohmann::json::parse(measured.out, nullptr, false);
  ASSERT_TRUE(told.is_object());
  EXPECT_FALSE(told["series"].empty());
  EXPECT_EQ(told["against"]["compared"]["rates"], 0);
  std::filesystem::remove_all(folder);
}

TEST(Program, CheckEmitsAProfileThatTheSimulatorTakes) {
  const std::string file = ::testing::TempDir() + "/sidelatch_emitted.toml";
  const Outcome outcome = run(std::string(kRates) + "--emit-profile " + file);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(slurp(file), AllOf(HasSubstr("name = 'connectx5'"), HasSubstr("address_bits = 12")));
  const Outcome again = run("check --fabric sim --parts lock-table --json --profile " + file);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out)["lock_table"]["address_bits"], 12);
  std::filesystem::remove(file);
  // Detected before anything is measured.
  const Outcome lacking = run("check --fabric sim --parts lock-table --emit-profile " + file);
  EXPECT_EQ(lacking.status, 2);
  EXPECT_THAT(lacking.err, HasSubstr("--emit-profile needs the part rates"));
  EXPECT_THAT(lacking.out, IsEmpty());
}

TEST(Program, ReportsWhatCheckSaved) {
  const std::string folder = ::testing::TempDir() + "/sidelatch_report";
  const std::string page = folder + "/page.html";
  ASSERT_EQ(run(std::string(kQuickCheck) + "--out " + folder).status, 0);
  const Outcome outcome = run("report " + folder + " " + folder + "/check.json -o " + page);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(slurp(page), AllOf(HasSubstr(R"("file":")" + folder + R"(/check.json","datasheet":{)"),
                                 HasSubstr("sim:connectx5"), HasSubstr("</html>")));
  std::filesystem::remove(page);

  std::ofstream(folder + "/cut.json") << slurp(folder + "/check.json").substr(0, 1000);
  const Outcome cut = run("report " + folder + " " + folder + "/cut.json -o " + page);
  EXPECT_EQ(cut.status, 2);
  EXPECT_THAT(cut.err, AllOf(HasSubstr("cut.json"), HasSubstr("cut off")));
  EXPECT_FALSE(std::filesystem::exists(page)) << "a page of what is no datasheet";
  std::filesystem::remove_all(folder);

  const Outcome missing = run("report /no/such.json -o " + page);
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("/no/such.json"));
  EXPECT_EQ(run("report").status, 2);
}

TEST(Program, ReportTakesTheDatasheetOfAFolderAndThenItsExperimentsByName) {
  const std::string folder = ::testing::TempDir() + "/sidelatch_results_" + std::to_string(::getpid());
  const std::string page = folder + "/page.html";
  std::filesystem::create_directory(folder);
  const auto experiment = [&](const char* name) {
    std::ofstream(folder + "/" + name + ".json") << R"({"schema": 1, "experiment": ")" << name << R"("})";
  };
  // The position of a file's documents in the page.
  const auto place = [&](const std::string& file, const std::string& kind) {
    return slurp(page).find(R"({"file":")" + folder + "/" + file + R"(",")" + kind + R"(":{)");
  };
  experiment("latch-scaling");
  experiment("atomics-stride");
  std::ofstream(folder + "/targets.json") << R"([{"id": "N4"}])";
  std::ofstream(folder + "/notes.txt") << "{";
  ASSERT_EQ(run("report " + folder + " -o " + page).status, 0);
  EXPECT_LT(place("atomics-stride.json", "experiment"), place("latch-scaling.json", "experiment"));
  EXPECT_NE(place("latch-scaling.json", "experiment"), std::string::npos);
  EXPECT_THAT(slurp(page), AllOf(Not(HasSubstr("targets.json")), Not(HasSubstr("notes.txt"))));

  std::ofstream(folder + "/check.json") << R"({"schema": {"name": "sidelatch-datasheet", "version": 1}})";
  ASSERT_EQ(run("report " + folder + "/latch-scaling.json " + folder + " -o " + page).status, 0);
  EXPECT_LT(place("latch-scaling.json", "experiment"), place("check.json", "datasheet"));
  EXPECT_LT(place("check.json", "datasheet"), place("atomics-stride.json", "experiment"));
  EXPECT_NE(place("atomics-stride.json", "experiment"), std::string::npos);

  // Half a result is an error.
  std::ofstream(folder + "/kv-store.json") << R"({"schema": 1, "experi)";
  const Outcome cut = run("report " + folder + " -o " + page);
  EXPECT_EQ(cut.status, 2);
  EXPECT_THAT(cut.err, AllOf(HasSubstr(folder + "/kv-store.json"), HasSubstr("cut off")));
  std::filesystem::remove_all(folder);
}

TEST(Program, ReportOfAFolderWithoutResultsSaysHowToMakeSome) {
  const std::string folder = ::testing::TempDir() + "/sidelatch_nothing_" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/targets.json") << "[]";
  const Outcome outcome = run("report " + folder + " -o " + folder + "/page.html");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("no check.json and no result of an experiment"),
                    HasSubstr("sidelatch check --out " + folder), HasSubstr("sidelatch bench NAME --out " + folder)));
  EXPECT_FALSE(std::filesystem::exists(folder + "/page.html"));
  std::filesystem::remove_all(folder);
}

// What is read, and what is written by another option, is not overwritten.
TEST(Program, NoFileIsOverwrittenByMistake) {
  const std::string folder = ::testing::TempDir() + "/sidelatch_twice_" + std::to_string(::getpid());
  const std::string datasheet = folder + "/check.json";
  const std::string rates = "check --fabric sim --parts lock-table,rates ";
  ASSERT_EQ(run(rates + "--out " + folder + " --emit-profile " + folder + "/nic.toml").status, 0);
  const std::string explore = "explore --scheme broken/naive --model observed ";
  ASSERT_EQ(run(explore + "--trace " + folder + "/trace.json").status, 0);
  std::filesystem::create_symlink(datasheet, folder + "/other.json");
  const std::string before = slurp(datasheet);
  for (const std::string& arguments :
       {"report " + folder + " -o " + datasheet, "report " + datasheet + " -o " + folder + "/./check.json",
        "report " + datasheet + " -o " + folder + "/other.json", rates + "--against " + datasheet + " --out " + folder,
        rates + "--against " + datasheet + " --emit-profile " + datasheet,
        rates + "--out " + folder + "/new --emit-profile " + folder + "/new/check.json",
        "check --parts lock-table,rates --profile " + folder + "/nic.toml --emit-profile " + folder + "/nic.toml",
        "explore --replay " + folder + "/trace.json --svg " + folder + "/trace.json",
        explore + "--trace " + folder + "/new.json --svg " + folder + "/new.json",
        explore + "--trace new_" + std::to_string(::getpid()) + " --svg ./new_" + std::to_string(::getpid()),
        rates + "--out " + folder + " --emit-profile " + folder + "/check.txt"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("this would overwrite")) << arguments;
    EXPECT_THAT(outcome.out, IsEmpty()) << arguments;
  }
  EXPECT_EQ(slurp(datasheet), before);
  EXPECT_EQ(run(explore + "--trace /dev/null --svg /dev/null").status, 0);
  std::filesystem::remove_all(folder);
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

// The NIC is there already, with the options of `softnic run`.
TEST(SoftNic, OptionsOfANicThatSoftnicRunHasStartedAreRefused) {
  if (SIDELATCH_IS_SANITIZED) {
    GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
  }
  const std::string check = " check --fabric softnic --parts lock-table --seconds 1 ";
  const std::string inside = "softnic run --wire shm:" + std::to_string(::getpid()) + " -- " + program_path() + check;
  for (const std::string option : {"--order bogus", "--order spec", "--torn-bias 0.5", "--wire shm:other"}) {
    const Outcome outcome = run(inside + option);
    EXPECT_EQ(outcome.status, 2) << option;
    EXPECT_THAT(outcome.err, HasSubstr(option.substr(0, option.find(' ')) + ": give it to `softnic run`"));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  // Alone it starts its NIC itself, with them.
  const Outcome alone = run(check + "--json --order spec --torn-bias 0.5 --wire shm:" + std::to_string(::getpid()));
  EXPECT_EQ(alone.status, 0) << alone.err;
  const auto json = nlohmann::json::parse(alone.out, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_THAT(json["environment"]["driver"].get<std::string>(), HasSubstr("order spec, seed 1, torn bias 0.5"));
}

// Before any page is taken, and before a device is looked for.
TEST(Program, MoreSharedMemoryThanTheMachineHasIsAnErrorThatNamesBoth) {
  std::string shares;
  for (int i = 0; i < 64; ++i) {
    shares += " --share part" + std::to_string(i) + "=1048576";
  }
  for (const char* const server : {"check --server", "bench --server"}) {
    const Outcome outcome = run(server + shares);
    EXPECT_EQ(outcome.status, 3);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--share part0=1048576, part1="), HasSubstr("67108864 MiB are to be"),
                                   ContainsRegex("has [0-9]+ MiB available")));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

// Whoever is root would lose a device that way, /dev/null say.
TEST(SoftNic, ACaptureReplacesOrdinaryFilesOnly) {
  const std::string pipe = ::testing::TempDir() + "/sidelatch_pipe_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Outcome outcome = run("softnic run --pcap " + pipe + " -- true");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(pipe), HasSubstr("no ordinary file")));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::filesystem::remove(pipe);
}

// Neither there nor not there: a status of its own, not that of what went wrong inside.
TEST(SoftNic, APathThatCannotBeLookedAtIsWrongInput) {
  const std::string path = "/tmp/" + std::string(300, 'x');
  for (const std::string& option :
       {"--wire folder:" + path, "--wire folder:" + path + "/wire", "--pcap " + path + "/frames.pcap"}) {
    const Outcome outcome = run("softnic run " + option + " -- true");
    EXPECT_EQ(outcome.status, 2) << option;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(option.substr(0, 6)), HasSubstr(path + ": File name too long"))) << option;
  }
}

TEST(SoftNic, ACommandThatIsNotThereCostsNoCapture) {
  const std::string file = ::testing::TempDir() + "/sidelatch_kept_" + std::to_string(::getpid());
  std::ofstream(file) << "kept";
  for (const char* const command : {"/no/such/command", "no-such-command", "/"}) {
    const Outcome outcome = run("softnic run --pcap " + file + " -- " + command);
    EXPECT_EQ(outcome.status, 3) << command;
    EXPECT_THAT(outcome.err, HasSubstr(std::string("cannot run ") + command));
    EXPECT_EQ(std::filesystem::file_size(file), 4U) << command;
  }
  std::filesystem::remove(file);
}

TEST(SoftNic, ACaptureDoesNotReplaceTheProgramThatIsToRun) {
  const std::string folder = scratch("own_program");
  std::filesystem::create_directory(folder);
  const std::string program = folder + "/prog";
  std::ofstream(program) << "#!/bin/sh\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("prog", folder + "/link");
  for (const std::string& capture : {program, folder + "/./prog", folder + "/link"}) {
    for (const std::string& command : {program, folder + "/link", std::string("prog"), std::string("link")}) {
      const Outcome outcome = run("softnic run --pcap " + capture + " -- " + command, "PATH=" + folder + ":$PATH");
      EXPECT_EQ(outcome.status, 2) << capture << ' ' << command;
      EXPECT_THAT(outcome.err, HasSubstr("--pcap " + capture + ": this would overwrite the program that is to run"));
      EXPECT_EQ(slurp(program), "#!/bin/sh\n");
      EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
    }
  }
  std::filesystem::remove_all(folder);
}

// Whatever is printed, a device that takes nothing must not look like success.
class FullDevice : public ::testing::TestWithParam<const char*> {};

TEST_P(FullDevice, IsAnErrorThatSaysSo) {
  const Outcome outcome = run(std::string(GetParam()) + " > /dev/full");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write"));
}

INSTANTIATE_TEST_SUITE_P(Program, FullDevice,
                         ::testing::Values("devices", "devices --json", "bench list", "bench list --json",
                                           "litmus tests/litmus/load-buffering.litmus",
                                           "litmus --json tests/litmus/load-buffering.litmus",
                                           "explore --scheme broken/naive --model observed",
                                           "explore --scheme broken/naive --model observed --json",
                                           "check --fabric sim --sizes 64 --reads 100 --parts torn-reads",
                                           "check --fabric sim --sizes 64 --reads 100 --parts torn-reads --json",
                                           "bench atomics-stride --json", "--help", "--version", "bench --help"));

TEST(Program, AProfileWithAnUnknownKeyIsRefusedWithItsPlace) {
  const std::string path = ::testing::TempDir() + "/bad_" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << "[link]\nspeed = 3\n";
  const Outcome outcome = run("check --profile " + path);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(path + ":2:1: error: unknown key link.speed"));
  std::filesystem::remove(path);
}

TEST(Program, BenchTargetsCarryTheContract) {
  // All experiments together take minutes.
  const Outcome outcome = run("bench targets --json --only atomics-stride --only optimistic-size");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  const auto json = nlohmann::json::parse(outcome.out);
  const auto has = [&](const char* id) {
    return std::ranges::any_of(json, [&](const auto& row) { return row["id"] == id; });
  };
  EXPECT_TRUE(has("N4"));
  EXPECT_TRUE(std::ranges::any_of(
      json, [](const auto& row) { return row["id"].template get<std::string>().starts_with("N14"); }));
  EXPECT_FALSE(has("N3"));
  EXPECT_EQ(run("bench targets --only nothing").status, 2);
  EXPECT_EQ(run("bench atomics-stride --only atomics-stride").status, 2);
  for (const auto& row : json) {
    EXPECT_TRUE(row.contains("id") && row.contains("expected") && row.contains("measured") && row.contains("unit") &&
                row.contains("ratio") && row.contains("ok"));
  }
}

TEST(Program, BenchSavesItsResults) {
  const std::string folder = ::testing::TempDir() + "/figures_" + std::to_string(::getpid());
  const Outcome outcome = run("bench targets --only latch-ablation --only latch-scaling --out " + folder);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const std::string name : {"latch-ablation", "latch-scaling"}) {
    std::ifstream file(folder + "/" + name + ".json");
    ASSERT_TRUE(file) << name;
    EXPECT_EQ(nlohmann::json::parse(file)["experiment"], name);
  }
  std::filesystem::remove_all(folder);
  EXPECT_EQ(run("bench latch-ablation --out /dev/null/x").status, 2);
  EXPECT_THAT(run("bench latch-ablation --out /dev/null/x").err, HasSubstr("--out /dev/null/x"));
  EXPECT_THAT(run("bench kv-store --longest-wait-us 0").err, HasSubstr("--longest-wait-us 0"));
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
  EXPECT_TRUE(std::ranges::any_of(json, [](const auto& device) { return device["kind"] == "softnic"; }));
  EXPECT_EQ(run("--version").out, "sidelatch 0.1.0\n");
}

// The disk may be full, which a limit on the size of files stands for here.
TEST(Program, AFileThatCannotBeWrittenKeepsWhatWasInIt) {
  const std::string folder = scratch("full");
  ASSERT_EQ(run("check --fabric sim --sizes 64 --reads 100 --parts torn-reads --out " + folder).status, 0);
  const std::string page = folder + "/page.html";
  std::ofstream(page) << "the page of yesterday";
  std::filesystem::create_symlink("page.html", folder + "/link.html");
  const std::string report = std::string(program_path()) + " report " + folder + " -o " + folder + "/link.html";
  const std::string limited = "trap '' XFSZ; ulimit -f 8; " + report + " 2>" + folder + "/errors";
  const int status = std::system(limited.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_THAT(slurp(folder + "/errors"), HasSubstr("cannot write " + folder + "/link.html: File too large"));
  EXPECT_EQ(slurp(page), "the page of yesterday");
  EXPECT_EQ(std::system(report.c_str()), 0);
  EXPECT_THAT(slurp(page), HasSubstr("<html"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link.html"));
  const auto files = std::distance(std::filesystem::directory_iterator(folder), {});
  EXPECT_EQ(files, 5);  // the datasheet twice, the page, its link, the errors: nothing is left over
  std::filesystem::remove_all(folder);
}

// As editors of Windows save a text.
TEST(Program, TextsMayBeginWithAByteOrderMark) {
  const std::string file = ::testing::TempDir() + "/sidelatch_marked_" + std::to_string(::getpid());
  std::ofstream(file) << "\xEF\xBB\xBF"
                      << "litmus marked\r\nvar x = 0\r\nP0:\r\n  write x 1\r\n";
  EXPECT_EQ(run("litmus --model strict " + file).status, 0);
  std::ofstream(file) << "\xEF\xBB\xBF"
                      << "packet 1 00\r\n";
  EXPECT_EQ(run("p4 test p4/l2_l3.p4 " + file).status, 0);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace sidelatch::tools
