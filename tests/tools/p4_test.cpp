// `sidelatch p4`: options that files follow, warnings, and tests that check nothing.
#include "tests/tools/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sidelatch::tools {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace sidelatch::tools
