// The program's streams: closed ones, devices that are full, files that may not grow.
#include "common/sanitizers.h"
#include "tests/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

namespace sidelatch::tools {
namespace streams {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Ended {
  int status = -1;  // 128 and more: a signal
  std::string printed;
};

// What a shell prints that runs this in the source tree; $P is the program.
Ended shell(const std::string& script) {
  const std::string command = "exec 2>&1; cd '" + in_source_tree("") + "' && P=" + program_path() + " && " + script;
  Ended ended;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> chunk{};
  for (std::size_t n = 0; (n = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    ended.printed.append(chunk.data(), n);
  }
  const int status = ::pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

std::string own_file(const std::string& name) {
  return ::testing::TempDir() + "/sidelatch_" + name + "_" + std::to_string(::getpid());
}

class ClosedStreams : public ::testing::TestWithParam<std::pair<const char*, int>> {};

// What cannot be told must not end the program in another way.
TEST_P(ClosedStreams, ChangeNoExitStatus) {
  const auto& [script, status] = GetParam();
  const Ended ended = shell(script);
  EXPECT_EQ(ended.status, status) << ended.printed;
}

INSTANTIATE_TEST_SUITE_P(
    Program, ClosedStreams,
    ::testing::Values(std::pair{"$P check --bogus 2>&-", 2}, std::pair{"$P check --bogus 2>/dev/full", 2},
                      std::pair{"$P p4 check /no/such.p4 2>&-", 2}, std::pair{"$P litmus /no/such <&- >&- 2>&-", 2},
                      std::pair{"$P devices <&- >&- 2>&-", 3}, std::pair{"$P devices >/dev/full 2>/dev/full", 3},
                      std::pair{"$P explore --scheme optimistic/farm --model strict --svg t.svg 2>&-", 0},
                      std::pair{"$P switch p4/l2_l3.p4 --port 1=pcap:,/dev/null 2>&-", 0},
                      std::pair{"$P switch p4/l2_l3.p4 --port 1=pcap:,/dev/null 2>/dev/full", 0}));

// A command that takes the program's place finds its streams as they were.
TEST(Program, LeavesClosedStreamsToTheCommand) {
  if (SIDELATCH_IS_SANITIZED) {
    GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
  }
  EXPECT_EQ(shell("$P softnic run -- test -e /proc/self/fd/0 <&-").status, 1);
  EXPECT_EQ(shell("$P softnic run -- test -e /proc/self/fd/0 </dev/null").status, 0);
}

TEST(Program, AFileThatMayNotGrowIsAnErrorThatSaysSo) {
  const std::string file = own_file("limited");
  const std::string explore = "ulimit -f 1; $P explore --scheme broken/naive --model observed";
  const Ended printed = shell(explore + " --json > " + file);
  EXPECT_EQ(printed.status, 3);
  EXPECT_THAT(printed.printed, HasSubstr("cannot write to standard output: File too large"));
  const Ended saved = shell(explore + " --trace " + file);
  EXPECT_EQ(saved.status, 2);
  EXPECT_THAT(saved.printed, AllOf(HasSubstr(file), HasSubstr("File too large")));
  std::filesystem::remove(file);
}

// The signal of that limit is the command's own again.
TEST(Program, LeavesTheLimitOfFilesToTheCommand) {
  if (SIDELATCH_IS_SANITIZED) {
    GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
  }
  const Ended alone = shell("grep SigIgn /proc/self/status");
  const Ended run = shell("$P softnic run -- grep SigIgn /proc/self/status");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.printed, alone.printed);
}

}  // namespace
}  // namespace streams
}  // namespace sidelatch::tools
