// The program's streams: closed ones, devices that are full, files that may not grow.
#include "common/sanitizers.h"
#include "tests/paths.h"
#include "tests/tools/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

namespace sidelatch::tools {
namespace streams {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What a shell prints that runs this in the source tree; $P is the program.
ShellResult shell(const std::string& script) {
  return run_shell("exec 2>&1; cd '" + in_source_tree("") + "' && P=" + program_path() + " && " + script);
}

std::string own_file(const std::string& name) {
  return ::testing::TempDir() + "/sidelatch_" + name + "_" + std::to_string(::getpid());
}

class ClosedStreams : public ::testing::TestWithParam<std::pair<const char*, int>> {};

// What cannot be told must not end the program in another way.
TEST_P(ClosedStreams, ChangeNoExitStatus) {
  const auto& [script, status] = GetParam();
  const ShellResult ended = shell(script);
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
  const ShellResult printed = shell(explore + " --json > " + file);
  EXPECT_EQ(printed.status, 3);
  EXPECT_THAT(printed.printed, HasSubstr("cannot write to standard output: File too large"));
  const ShellResult saved = shell(explore + " --trace " + file);
  EXPECT_EQ(saved.status, 2);
  EXPECT_THAT(saved.printed, AllOf(HasSubstr(file), HasSubstr("File too large")));
  std::filesystem::remove(file);
}

// A line that the terminal breaks would be two of its lines, and the next table would be printed one line too low.
TEST(Program, WhatIsShownAgainAndAgainFitsTheTerminal) {
  const auto on_terminal = [](const std::string& size) {
    return shell("env -u NO_COLOR SHELL=/bin/sh script -qc \"stty " + size +
                 "; $P switch p4/l2_l3.p4 --port 1=pcap:,/dev/null\" /dev/null </dev/null")
        .printed;
  };
  const std::string header = "port  wire               packets in        bytes in";
  const std::string wide = on_terminal("cols 200 rows 24");
  EXPECT_THAT(wide, AllOf(HasSubstr(header), Not(HasSubstr(header.substr(0, 40) + "\r\n"))));
  const std::string narrow = on_terminal("cols 40 rows 24");
  EXPECT_THAT(narrow, AllOf(HasSubstr(header.substr(0, 40) + "\r\n"), HasSubstr("drops in the switch: none\r\nport")));
  const std::string low = on_terminal("cols 200 rows 2");
  EXPECT_THAT(low, HasSubstr("dropped\r\nport"));  // the first line, and then what is printed at the end
}

// The reader has gone before anything is printed, as `head` may: the first print ends the program.
TEST(Program, WhatIsSavedIsThereAlthoughNobodyReadsTheOutput) {
  const std::string folder = own_file("unread");
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const std::string gone = folder + "/gone";
  const auto unread = [&](const std::string& arguments) {
    static_cast<void>(shell("mkfifo " + gone + "; { read _ < " + gone + "; env --default-signal=PIPE $P " + arguments +
                            "; } | { exec 0<&-; echo > " + gone + "; }; rm " + gone));
  };
  unread("check --fabric sim --parts lock-table,rates --out " + folder + " --emit-profile " + folder + "/p.toml");
  unread("explore --scheme broken/naive --model observed --trace " + folder + "/trace --svg " + folder + "/svg");
  for (const char* const saved : {"check.json", "check.txt", "p.toml", "trace", "svg"}) {
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + saved)) << saved;
  }
  std::filesystem::remove_all(folder);
}

// The signal of that limit is the command's own again.
TEST(Program, LeavesTheLimitOfFilesToTheCommand) {
  if (SIDELATCH_IS_SANITIZED) {
    GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
  }
  const ShellResult alone = shell("grep SigIgn /proc/self/status");
  const ShellResult run = shell("$P softnic run -- grep SigIgn /proc/self/status");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.printed, alone.printed);
}

}  // namespace
}  // namespace streams
}  // namespace sidelatch::tools
