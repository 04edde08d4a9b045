// The scripts, as their users meet them, as far as that needs no build.
#include "tests/paths.h"
#include "tests/tools/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sidelatch::tools {
namespace {

ShellResult shell(const std::string& what) {
  return run_shell("cd '" + in_source_tree("") + "' && timeout 60 " + what + " 2>&1");
}

// libFuzzer takes "abc" for 0, and runs nothing but its corpus.
TEST(Scripts, FuzzRefusesWhatIsNoNumber) {
  for (const std::string option :
       {"--runs abc", "--runs 0", "--runs -1", "--runs 1e6", "--runs 10x", "--seconds x", "--runs ''"}) {
    const auto [status, printed] = shell("scripts/fuzz p4-compiler " + option);
    EXPECT_NE(status, 0) << option;
    EXPECT_THAT(printed, ::testing::HasSubstr(option.substr(0, option.find(' ')))) << option;
  }
}

TEST(Scripts, FuzzNamesItsTargets) {
  const auto [status, printed] = shell("scripts/fuzz nosuch --runs 3");
  EXPECT_EQ(status, 2);
  EXPECT_THAT(printed, ::testing::AllOf(::testing::HasSubstr("'nosuch'"), ::testing::HasSubstr("p4-compiler")));
}

TEST(Scripts, MeasurementsRefuseWhatIsNoNumber) {
  for (const std::string wrong : {"measure-flows x", "measure-flows 0", "measure-flows 1 -8", "measure-softnic x"}) {
    const auto [status, printed] = shell("scripts/" + wrong);
    EXPECT_EQ(status, 2) << wrong;
    EXPECT_THAT(printed, ::testing::HasSubstr("whole number above 0")) << wrong;
  }
}

TEST(Scripts, HelpIsTheCommentAtTheirHeads) {
  for (const std::string name : {"build", "check", "format", "fuzz", "install-deps", "lint", "measure-flows",
                                 "measure-softnic", "test", "verify"}) {
    const auto [status, printed] = shell("scripts/" + name + " --help");
    EXPECT_EQ(status, 0) << name;
    EXPECT_THAT(printed, ::testing::AllOf(::testing::StartsWith("scripts/" + name),
                                          ::testing::Not(::testing::HasSubstr("source \""))))
        << name;
  }
}

}  // namespace
}  // namespace sidelatch::tools
