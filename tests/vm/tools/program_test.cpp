// The program on a real driver: one machine, a server and clients, several clients of one experiment, and the errors
// when one of them is missing.
#include <sidelatch/checker/check.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace sidelatch::tools {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string program() {
  const char* const path = std::getenv("SIDELATCH_PROGRAM");
  if (path == nullptr) {
    throw std::runtime_error("SIDELATCH_PROGRAM is not set: tests/vm/run sets it");
  }
  return path;
}

// The program as a process of its own; output and errors come through a pipe.
class Program {
 public:
  explicit Program(const std::string& arguments, const std::string& environment = {}) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
      throw std::runtime_error("pipe failed");
    }
    const std::string command = "exec env " + environment + " " + program() + " " + arguments;
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    from_ = ::fdopen(ends[0], "r");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    std::fclose(from_);
  }
  std::string line() {
    std::array<char, 1024> text{};
    return std::fgets(text.data(), text.size(), from_) == nullptr ? std::string() : std::string(text.data());
  }
  // Waits for its end; returns its exit status.
  int wait() {
    std::array<char, 4096> text{};
    for (std::size_t n = 0; (n = std::fread(text.data(), 1, text.size(), from_)) > 0;) {
      output.append(text.data(), n);
    }
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void interrupt() const { ::kill(process_, SIGINT); }
  void kill() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

  std::string output;

 private:
  pid_t process_ = 0;
  FILE* from_ = nullptr;
};

// No time limit matters: the guest is emulated, on a machine with other work.
constexpr const char* kQuick = "--seconds 3600 --sizes 64,512 --reads 200 --json ";

void expect_a_full_report(const json& report, const std::string& memory) {
  EXPECT_EQ(report["fabric"], "verbs");
  EXPECT_EQ(report["device"], "rxe0");
  EXPECT_EQ(report["memory"], memory);
  EXPECT_TRUE(report["complete"]);
  EXPECT_FALSE(report["environment"]["kernel"].is_null());
  ASSERT_EQ(report["probes"].size(), 2U + 21U);
  for (const json& probe : report["probes"]) {
    // A CPU can observe memory only if it is this machine's.
    const std::string name = probe["name"];
    if (name == "atomics/two-ports") {
      EXPECT_TRUE(probe.contains("skipped"));
    } else if (name == "order/write-write" || name == "lines/within-write" || name == "visibility/after-completion" ||
               name == "atomics/cpu") {
      EXPECT_EQ(probe.contains("skipped"), memory != "this machine") << name;
    } else {
      EXPECT_FALSE(probe.contains("skipped")) << name;
    }
    if (name != "torn-read") {
      continue;
    }
    EXPECT_EQ(probe["reads"], 200);
    EXPECT_EQ(probe["consistent"].get<int>() + probe["detected"].get<int>() + probe["undetected"].get<int>(), 200);
    EXPECT_GT(probe["writes"], 0);
  }
  EXPECT_EQ(report["environment"]["mtu"], "4096");
  if (memory == "this machine") {
    EXPECT_EQ(report["environment"]["relaxed_ordering"], "off");
  } else {
    EXPECT_TRUE(report["environment"]["relaxed_ordering"].is_null()) << "the server's is not known";
  }
  EXPECT_GT(report["lock_table"]["uncontended_mops"], 0);
  for (const json& series : report["series"]) {
    EXPECT_FALSE(series["points"].empty()) << series["name"];
  }
  for (const json& scheme : report["schemes"]) {
    for (const json& size : scheme["sizes"]) {
      EXPECT_EQ(size["reads"], 200) << scheme["scheme"];
    }
    if (!scheme["known_broken"]) {
      EXPECT_NE(scheme["verdict"], "unsafe") << scheme["scheme"] << ": " << scheme["evidence"];
      EXPECT_EQ(scheme["verdict"] == "safe", !scheme["assuming"].empty()) << scheme["scheme"];
    }
  }
}

TEST(ProgramOnVerbs, ListsTheDevice) {
  Program devices("devices --json");
  EXPECT_EQ(devices.wait(), 0);
  const json all = json::parse(devices.output);
  const auto rxe = std::ranges::find_if(all, [](const json& one) { return one["name"] == "rxe0"; });
  ASSERT_NE(rxe, all.end());
  EXPECT_EQ((*rxe)["kind"], "verbs");
  EXPECT_EQ((*rxe)["state"], "active");
  EXPECT_EQ((*rxe)["mtu"], 4096);
  EXPECT_EQ((*rxe)["atomic_scope"], "nic");
}

// If there is a NIC, a check without options checks it.
TEST(ProgramOnVerbs, ChecksTheNicAloneOnOneMachine) {
  // The check between two processes measures rates.
  Program check(std::string("check --parts torn-reads,schemes,latches,effects,lock-table,proofs ") + kQuick);
  ASSERT_EQ(check.wait(), 0) << check.output;
  expect_a_full_report(json::parse(check.output), "this machine");
}

TEST(ProgramOnVerbs, ChecksBetweenAServerAndAClient) {
  Program server("check --server 127.0.0.1:18600 --lend 128 --token secret --once");
  EXPECT_THAT(server.line(), HasSubstr("rxe0 lends 128 MiB at 127.0.0.1:18600"));
  Program stranger("check --connect 127.0.0.1:18600 --token guess");
  EXPECT_EQ(stranger.wait(), 3);
  EXPECT_THAT(stranger.output, HasSubstr("token"));
  Program client(std::string("check --connect 127.0.0.1:18600 --token secret ") + kQuick);
  ASSERT_EQ(client.wait(), 0) << client.output;
  const json report = json::parse(client.output);
  expect_a_full_report(report, "127.0.0.1:18600");
  EXPECT_EQ(report["series"].size(), 10U);
  EXPECT_EQ(server.wait(), 0) << server.output;
}

TEST(ProgramOnVerbs, WhatThereIsTooLittleMemoryForIsSkipped) {
  Program server("check --server 127.0.0.1:18605 --lend 1 --once");
  EXPECT_THAT(server.line(), HasSubstr("lends 1 MiB"));
  Program client(
      "check --connect 127.0.0.1:18605 --seconds 3600 --sizes 64 --reads 50 --parts torn-reads,effects --json");
  EXPECT_EQ(client.wait(), 0) << client.output;
  const json report = json::parse(client.output);
  EXPECT_FALSE(report["complete"]);
  EXPECT_FALSE(report.contains("failure")) << report["failure"];
  std::size_t skipped = 0;
  std::size_t measured = 0;
  for (const json& probe : report["probes"]) {
    if (probe["name"] == "torn-read, 64 B") {
      EXPECT_THAT(probe["skipped"], HasSubstr("it lends 1048576 bytes"));
      ++skipped;
    } else if (probe["name"] == "order/write-read") {
      EXPECT_EQ(probe["chances"], 50);
      ++measured;
    }
  }
  EXPECT_EQ(skipped, 1U);
  EXPECT_EQ(measured, 1U);
  EXPECT_EQ(server.wait(), 0) << server.output;
}

// Earlier measurements are reported, with the reason for the end.
TEST(ProgramOnVerbs, ACheckOutlivesItsServer) {
  Program server("check --server 127.0.0.1:18604 --lend 128");
  EXPECT_THAT(server.line(), HasSubstr("lends"));
  checker::CheckOptions options;
  options.server = "127.0.0.1:18604";
  options.sizes = {64};
  options.reads = 50;
  options.seconds = 300;
  options.progress = [&](std::size_t done, std::size_t /*all*/) {
    if (done == 1) {
      server.kill();
    }
  };
  const checker::CheckReport report = checker::run_check(options);
  EXPECT_THAT(report.failure, HasSubstr("127.0.0.1:18604"));
  EXPECT_FALSE(report.complete);
  ASSERT_EQ(report.torn_reads.size(), 1U);
  EXPECT_EQ(report.torn_reads[0].reads, 50U);
  EXPECT_THAT(checker::to_table(report, checker::Colour::off), HasSubstr("Ended by: "));
}

TEST(ProgramOnVerbs, AServerEndsByCtrlC) {
  Program server("check --server 127.0.0.1:18601 --lend 1");
  EXPECT_THAT(server.line(), HasSubstr("127.0.0.1:18601"));
  server.interrupt();
  EXPECT_EQ(server.wait(), 130);
}

TEST(ProgramOnVerbs, NamesWhatIsNotThere) {
  Program no_server("check --connect 127.0.0.1:18602");
  EXPECT_EQ(no_server.wait(), 3);
  EXPECT_THAT(no_server.output, HasSubstr("cannot connect to 127.0.0.1:18602"));
  Program no_device("check --device mlx5_77");
  EXPECT_EQ(no_device.wait(), 3);
  EXPECT_THAT(no_device.output, HasSubstr("mlx5_77"));
  EXPECT_THAT(no_device.output, HasSubstr("rxe0"));
}

class Bench : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_THAT(server.line(), HasSubstr("lends")); }
  static std::string client(const std::string& rest) {
    return "bench latch-ablation --connect 127.0.0.1:18603 --milliseconds 500 --json " + rest;
  }
  static void expect_points(const std::string& output) {
    const json result = json::parse(output);
    EXPECT_EQ(result["fabric"], "verbs");
    EXPECT_EQ(result["device"], "rxe0");
    EXPECT_EQ(result["series"][0]["points"].size(), 5U);
    for (const json& series : result["series"]) {
      for (const json& point : series["points"]) {
        EXPECT_GT(point["y"], 0);
      }
    }
  }
  Program server{"bench --server 127.0.0.1:18603 --lend 64"};
};

TEST_F(Bench, RunsWithClientsStartedByHand) {
  Program second(client("--rank 1 --ranks 2"));
  Program first(client("--rank 0 --ranks 2"));
  ASSERT_EQ(first.wait(), 0) << first.output;
  expect_points(first.output);
  EXPECT_EQ(second.wait(), 0) << second.output;
  EXPECT_EQ(second.output, "");  // only one of them prints
}

TEST_F(Bench, TakesRanksFromMpirunAndSrun) {
  Program first(client(""), "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2");
  Program second(client(""), "SLURM_PROCID=1 SLURM_NTASKS=2");
  ASSERT_EQ(first.wait(), 0) << first.output;
  expect_points(first.output);
  EXPECT_EQ(second.wait(), 0) << second.output;
}

TEST_F(Bench, RefusesARankThatIsThereAlready) {
  Program first(client("--rank 0 --ranks 3"));
  Program second(client("--rank 1 --ranks 3"));
  Program other(client("--rank 1 --ranks 2"));
  EXPECT_EQ(other.wait(), 3);
  EXPECT_THAT(other.output, HasSubstr("rank 0 counts 3"));
  Program again(client("--rank 0 --ranks 3"));
  EXPECT_EQ(again.wait(), 3);
  EXPECT_THAT(again.output, HasSubstr("is used already"));
}

}  // namespace
}  // namespace sidelatch::tools
