// The program as its users meet it: output, files and exit statuses.
#include "tests/paths.h"
#include "tests/tools/shell.h"

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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

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
  const std::string command = "cd '" + in_source_tree("") + "' && " + program_path() + " " + arguments + " 2>" + errors;
  const ShellResult result = run_shell(command);
  Outcome outcome{.status = result.status, .out = result.printed, .err = slurp(errors)};
  std::filesystem::remove(errors);
  return outcome;
}

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
  EXPECT_THAT(same.out, HasSubstr("Against " + saved + " (sim:connectx5): no other verdict, and no rate worse"));

  auto json = nlohmann::json::parse(slurp(saved));
  json["lock_table"]["contended_mops"] = 4.0;
  std::ofstream(saved) << json;
  const Outcome worse = run(std::string(kRates) + "--json --against " + saved);
  EXPECT_EQ(worse.status, 1);
  const auto told = nlohmann::json::parse(worse.out)["against"];
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

class WrongInput : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(WrongInput, ExitsWith2AndNamesTheArgument) {
  const Outcome outcome = run(GetParam().first);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().second));
  EXPECT_THAT(outcome.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Program, WrongInput,
    ::testing::Values(
        std::pair{"", "give a command: the commands are check"},
        std::pair{"p4", "give a command of p4: the commands are check, test"},
        std::pair{"p4 chek x", "there is no command chek of p4: the commands are check, test"},
        std::pair{"softnic rum -- true", "there is no command rum of softnic: the commands are run"},
        std::pair{"p4 --fit tofino check x", "--fit: options follow a command of p4; the commands are check, test"},
        std::pair{"--bogus check", "--bogus: options follow a command"},
        std::pair{"check --tolerance 0.2", "--against"}, std::pair{"check --fabric sim --order relaxed", "--order"},
        std::pair{"check --torn-bias 0.1", "--torn-bias"}, std::pair{"check --wire shm:x", "--wire"},
        std::pair{"check --profile /dev/zero", "/dev/zero: it has more than"},
        std::pair{"litmus /dev/zero", "/dev/zero: it has more than"}, std::pair{"p4 check /no/such.p4", "No such file"},
        std::pair{"p4 check /tmp", "it is a folder"}, std::pair{"p4 check p4/l2_l3.p4 -I /no/folder", "-I /no/folder"},
        std::pair{"p4 check p4/l2_l3.p4 -D =3", "-D =3"}, std::pair{"p4 check p4/l2_l3.p4 -D 1X", "-D 1X"},
        std::pair{"chekc", "chekc"}, std::pair{"check --sizes 100", "100"}, std::pair{"check --sizes -64", "-64"},
        std::pair{"check --sizes 64,x", "x"}, std::pair{"check --seconds 0", "--seconds 0"},
        std::pair{"check --fabric tcp", "--fabric tcp"}, std::pair{"check --profile nosuch", "nosuch"},
        std::pair{"check --reads 0", "--reads 0"}, std::pair{"check --profile /no/file.toml", "/no/file.toml"},
        std::pair{"check --out /proc/none", "/proc/none"},
        std::pair{"check --parts speed", "--parts speed: the parts are"},
        std::pair{"check --against /no/such.json", "/no/such.json"},
        std::pair{"check --against /no/such.json --tolerance 2", "--tolerance 2"},
        std::pair{"check --profile /tmp", "/tmp, which is a folder"}, std::pair{"check --sizes 64,,128", "64,,128"},
        std::pair{"check --sizes 64,", "--sizes"}, std::pair{"check --parts torn-reads,", "--parts"},
        std::pair{"check --seed 99999999999999999999", "--seed: 99999999999999999999"},
        std::pair{"bench atomics-stride --milliseconds 5", "--connect"},
        std::pair{"check --emit-profile /no/dir/p.toml", "/no/dir/p.toml"}, std::pair{"check --bogus", "--bogus"},
        std::pair{"bench", "an experiment"}, std::pair{"bench nosuch", "nosuch"},
        std::pair{"bench latch-scaling --fabric tcp", "--fabric tcp"},
        std::pair{"bench latch-scaling --fabric verbs", "--connect"},
        // What would be ignored is refused.
        std::pair{"check --fabric sim --token x", "--token: it is for --server"},
        std::pair{"bench latch-ablation --token x", "--device and --token are for"},
        std::pair{"bench latch-ablation --device mlx5_0", "--device and --token are for"},
        std::pair{"bench list --strict", "--strict: `bench list` runs nothing"},
        std::pair{"bench list --out /tmp", "--out: `bench list` runs nothing"},
        std::pair{"bench list --practice bogus", "--practice bogus"},
        std::pair{"bench list --practice paper", "--practice: `bench list` runs nothing"},
        std::pair{"bench list --longest-wait-us 5", "--longest-wait-us: `bench list` runs nothing"},
        std::pair{"bench list --profile connectx7", "--profile: `bench list` runs nothing"},
        std::pair{"bench list --seed 7", "--seed: `bench list` runs nothing"},
        std::pair{"bench list --fabric sim", "--fabric: `bench list` runs nothing"},
        std::pair{"bench latch-scaling --server", "latch-scaling: --server lends memory and runs nothing"},
        std::pair{"bench --server --strict", "--strict: --server lends memory and runs nothing"},
        std::pair{"bench --server --fabric tcp", "--fabric tcp"},
        std::pair{"bench --server --fabric sim", "--fabric sim"},
        std::pair{"bench targets --only atomics-stride --practice advised", "--practice: bench atomics-stride"},
        std::pair{"bench targets --only latch-scaling --longest-wait-us 5", "--longest-wait-us: it is for the stores"},
        std::pair{"bench atomics-stride --practice advised", "--practice: bench atomics-stride"},
        std::pair{"bench switch-optimistic --practice paper", "--practice: bench switch-optimistic"},
        std::pair{"bench latch-scaling --longest-wait-us 5", "--longest-wait-us: it is for the stores"},
        std::pair{"check --connect localhost --at-switch --parts effects,rates",
                  "--parts effects,rates: with --at-switch there are only torn-reads and schemes"},
        // What is wrong, in words of the command line.
        std::pair{"check --seconds abc", "--seconds: abc: it must be a number"},
        std::pair{"check --seconds ' 1'", "--seconds:  1: it must be a number"},
        std::pair{"check --seconds 0x10", "--seconds: 0x10: it must be a number"},
        std::pair{"check --seconds 1 --seconds 2", "--seconds: give it once, with one value; 2 were given"},
        std::pair{"check --seed", "--seed: its value is missing"}));

// Refused before anything is connected.
INSTANTIATE_TEST_SUITE_P(
    Remote, WrongInput,
    ::testing::Values(std::pair{"check --server --connect localhost", "--connect"},
                      std::pair{"check --fabric sim --connect localhost", "--connect"},
                      std::pair{"check --fabric sim --device mlx5_0", "--device"},
                      std::pair{"check --profile connectx7 --connect localhost", "--profile"},
                      std::pair{"check --profile connectx7 --device mlx5_0", "--device"},
                      std::pair{"check --profile connectx7 --fabric softnic", "--profile is of the simulator"},
                      std::pair{"bench latch-scaling --profile connectx7 --connect localhost", "--profile"},
                      std::pair{"check --server --parts rates", "--parts"},
                      std::pair{"check --server --seconds 5", "--seconds"},
                      std::pair{"check --server --sizes 64", "--sizes"},
                      std::pair{"check --server --reads 5", "--reads"},
                      std::pair{"check --server --at-switch", "--at-switch"}, std::pair{"check --lend 1", "--server"},
                      std::pair{"check --server --lend 0", "--lend 0"}, std::pair{"check --server --lend -1", "-1"},
                      std::pair{"bench nosuch --connect localhost", "nosuch"},
                      std::pair{"bench smartnic-latch --connect localhost", "simulator only"},
                      std::pair{"bench targets --only smartnic-latch --connect localhost", "simulator only"},
                      std::pair{"bench latch-scaling --fabric sim --connect localhost", "--connect"},
                      std::pair{"bench latch-scaling --rank 1", "--connect"},
                      std::pair{"bench latch-scaling --connect localhost --rank 1", "--ranks"},
                      std::pair{"bench latch-scaling --connect localhost --rank 2 --ranks 2", "--rank 2"},
                      std::pair{"bench latch-scaling --connect localhost --rank 0 --ranks 257", "--ranks 257"},
                      std::pair{"bench latch-scaling --connect localhost --run ''", "--run"},
                      std::pair{"bench latch-scaling --connect localhost --milliseconds 0", "--milliseconds 0"}));

// In the words of the command line, not in those of the variables that carry the settings.
INSTANTIATE_TEST_SUITE_P(
    SoftNic, WrongInput,
    ::testing::Values(std::pair{"softnic run --order foo -- true", "--order foo: "},
                      std::pair{"softnic run --torn-bias 2 --order relaxed -- true", "--torn-bias is \"2\""},
                      std::pair{"softnic run --torn-bias 0.5 -- true", "--torn-bias needs --order"},
                      std::pair{"softnic run --seed 2 -- true", "--seed requires --order"},
                      std::pair{"softnic run --atomics all -- true", "--atomics is \"all\""},
                      std::pair{"softnic run --atomics glob --order spec -- true", "--atomics glob: with --order spec"},
                      std::pair{"softnic run --loss nan -- true", "--loss is \"nan\""},
                      std::pair{"softnic run --delay -1 -- true", "--delay is \"-1\""},
                      std::pair{"softnic run --seed 99999999999999999999 -- true", "--seed: 99999999999999999999"},
                      std::pair{"softnic run --fault-seed 18446744073709551616 -- true", "--fault-seed"},
                      std::pair{"softnic run --wire foo -- true", "\"foo\""},
                      std::pair{"softnic run --wire shm:a/b -- true", "\"shm:a/b\": 'a/b' is no name of a wire"},
                      std::pair{"softnic run --wire switch:../x,10.0.0.1 -- true", "'../x' is no name of a wire"},
                      std::pair{"switch p4/l2_l3.p4 --port 1=shm:a/b", "'a/b' is no name of a wire"},
                      std::pair{"softnic run --wire folder:/no/such/folder -- true", "/no/such"},
                      std::pair{"softnic run --wire folder:/etc/passwd -- true", "/etc/passwd: this is a file"},
                      std::pair{"softnic run --pcap /no/such/file.pcap -- true", "--pcap /no/such/file.pcap"},
                      std::pair{"softnic run ibv_devices -v", "Put --"}, std::pair{"softnic run", "command"}));

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

INSTANTIATE_TEST_SUITE_P(Explore, WrongInput,
                         ::testing::Values(std::pair{"explore --scheme nosuch", "nosuch"},
                                           std::pair{"explore --scheme broken/naive --scheme nosuch", "nosuch"},
                                           std::pair{"explore --model nosuch", "nosuch"},
                                           std::pair{"explore --scheme broken/naive --param nosuch=1", "nosuch"},
                                           std::pair{"explore --scheme broken/naive --param atom=7", "atom = '7'"},
                                           std::pair{"explore --scheme broken/naive --param atom", "--param atom"},
                                           std::pair{"explore --scheme broken/naive --param atom=8 --param atom=16",
                                                     "--param atom=16: atom is set already"},
                                           std::pair{"explore --scheme broken/naive --clients 1", "1 clients"},
                                           std::pair{"explore --scheme broken/naive --seed 1", "--seed is for --mode"},
                                           std::pair{"explore --scheme broken/naive --clients 9", "9 clients"},
                                           std::pair{"explore --scheme broken/naive --lines 0", "lines is 0"},
                                           std::pair{"explore --scheme broken/naive --nics 17", "nics is 17"},
                                           std::pair{"explore --scheme broken/naive --executions x", "--executions"},
                                           std::pair{"explore --scheme broken/naive --threads -1", "--threads"},
                                           std::pair{"explore --mode plain", "--mode plain"},
                                           std::pair{"explore --budget -1", "--budget -1"},
                                           std::pair{"explore --budget inf", "--budget inf"},
                                           std::pair{"explore --budget nan", "--budget nan"},
                                           std::pair{"explore --budget 1e11", "--budget 100000000000"},
                                           std::pair{"explore --executions 99999999999999999999", "--executions"},
                                           std::pair{"explore --threads 4294967296", "--threads"},
                                           std::pair{"explore --scheme broken/naive --threads 4097", "threads is 4097"},
                                           std::pair{"explore --without-revocation", "--without-revocation"},
                                           std::pair{"explore --scheme broken/naive --trace t.json", "--trace t.json"},
                                           std::pair{"explore --trace t.json", "--trace t.json"},
                                           std::pair{"explore --svg t.svg", "--svg t.svg"},
                                           std::pair{"explore --scheme broken/naive --model observed --svg "
                                                     "/proc/none/t.svg",
                                                     "/proc/none/t.svg"},
                                           std::pair{"explore --replay /no/such/file", "/no/such/file"},
                                           std::pair{"explore --replay /tmp", "/tmp"},
                                           std::pair{"explore --scheme broken/naive --model observed --trace "
                                                     "/proc/none/t.json",
                                                     "/proc/none/t.json"},
                                           // No cell runs if another one is impossible.
                                           std::pair{"explore --executions 1 --crash --model observed --scheme "
                                                     "latch-exclusive/basic --scheme latch-mcs/combined",
                                                     "stand in a queue"},
                                           std::pair{"explore --executions 1 --model observed --scheme "
                                                     "latch-exclusive/basic --scheme optimistic/switch",
                                                     "the explorer has no switch"},
                                           std::pair{"explore --bogus", "--bogus"}));

INSTANTIATE_TEST_SUITE_P(
    Litmus, WrongInput,
    ::testing::Values(std::pair{"litmus", "files"}, std::pair{"litmus /no/such.litmus", "/no/such.litmus"},
                      std::pair{"litmus /tmp", "/tmp"}, std::pair{"litmus ''", "whose name is empty"},
                      std::pair{"litmus --threads 4294967295 tests/litmus/load-buffering.litmus",
                                "threads is 4294967295"},
                      std::pair{"litmus --model nosuch tests/litmus/load-buffering.litmus", "nosuch"},
                      std::pair{"litmus --budget -1 tests/litmus/load-buffering.litmus", "--budget -1"},
                      std::pair{"litmus --budget nan tests/litmus/load-buffering.litmus", "--budget nan"},
                      std::pair{"litmus --budget inf tests/litmus/load-buffering.litmus", "--budget inf"},
                      // All files are read before the first is explored.
                      std::pair{"litmus tests/litmus/load-buffering.litmus /no/such.litmus", "/no/such.litmus"}));

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

// ---- explore.

std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    keys.push_back(key);
  }
  return keys;
}

// Each test has a file of its own.
std::string scratch(const std::string& name) {
  return ::testing::TempDir() + "/sidelatch_" + std::to_string(::getpid()) + "_" + name;
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

// ---- litmus.

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
    EXPECT_THAT(keys_of(result),
                ElementsAre("test", "model", "reachable", "expected", "ok", "states", "executions", "seconds"));
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

TEST(Litmus, ItsFilesMayFollowAModel) {
  const std::string test = "tests/litmus/load-buffering.litmus";
  const Outcome outcome = run("litmus --json --model strict " + test + " " + test);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out).size(), 2U);
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

TEST(P4, AnEstimateWarnsToo) {
  for (const char* const how : {"", " --fit tofino", " --print"}) {
    EXPECT_THAT(run(std::string("p4 check tests/p4/corpus/wide.p4") + how).err, HasSubstr("warning: -2 does not fit"))
        << how;
  }
}

TEST(P4, ItsFilesMayFollowAFolderOrAMacro) {
  EXPECT_EQ(run("switch -I p4 -D X=1 p4/l2_l3.p4 --port 1=pcap:,/dev/null").status, 0);
  EXPECT_EQ(run("p4 check -D X -I p4 -I tests p4/l2_l3.p4").status, 0);
}

TEST(P4, ATestThatChecksNothingSaysSo) {
  const std::string path = scratch("nothing.stf");
  std::ofstream(path) << "# to be written\n";
  const Outcome outcome = run("p4 test p4/l2_l3.p4 " + path);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("it checks nothing"));
  std::ofstream(path) << "packet 0 00\n";
  EXPECT_EQ(run("p4 test p4/l2_l3.p4 " + path).err, "");
  std::filesystem::remove(path);
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
