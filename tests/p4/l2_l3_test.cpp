// The forwarding program p4/l2_l3.p4 on packets, interpreted. tests/softnic/verbs runs RoCEv2 through it.
#include "tests/paths.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/stf.h>

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace sidelatch::p4 {
namespace {

StfResult run_on(const std::string& test) { return run_stf(compile_file(in_source_tree("p4/l2_l3.p4")), test, "test"); }

std::string packet_test() {
  std::ostringstream text;
  text << std::ifstream(in_source_tree("tests/p4/l2_l3.stf")).rdbuf();
  return text.str();
}

TEST(L2L3, SwitchesRoutesAndAnswersForWhatIsBehindIt) {
  const StfResult result = run_on(packet_test());
  EXPECT_EQ(result.sent, 12U);
  for (const std::string& failure : result.failures) {
    ADD_FAILURE() << failure;
  }
}

TEST(L2L3, TheTestSeesARouteToAWrongPort) {
  std::string test = packet_test();
  const std::string route = "0x0a000300/24 route(port:3";
  ASSERT_NE(test.find(route), std::string::npos);
  test.replace(test.find(route), route.size(), "0x0a000300/24 route(port:2");
  EXPECT_FALSE(run_on(test).passed());
}

}  // namespace
}  // namespace sidelatch::p4
