// Which port of a device a unit's NIC takes. tests/tools/flow_join_test.cpp and tests/vm have devices that send.
#include "tests/fabric/verbs/stub_provider.h"

#include <sidelatch/flows/nic/flow_nic.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace sidelatch::flows {
namespace {
namespace nics {

using fabric::verbs::stub_device;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The stub's device, with two active ports of different MTUs.
class FlowNicTest : public ::testing::Test {
 protected:
  void SetUp() override {
    stub_device() = fabric::verbs::StubDevice();
    stub_device().limits.phys_port_cnt = 2;
    stub_device().ports.resize(2, stub_device().ports[0]);
    stub_device().ports[1].active_mtu = IBV_MTU_1024;
  }
  static std::string error() {
    try {
      const FlowNic nic;
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  }
};

TEST_F(FlowNicTest, TakesTheFirstActivePort) {
  EXPECT_EQ(FlowNic().largest_path_mtu(), 4096U);
  stub_device().ports[0].state = IBV_PORT_INIT;
  EXPECT_EQ(FlowNic().largest_path_mtu(), 1024U);
}

TEST_F(FlowNicTest, PassesOverAnActivePortWithoutAnAddress) {
  stub_device().ports_without_gids = {1};
  const FlowNic nic;
  EXPECT_EQ(nic.largest_path_mtu(), 1024U);
  EXPECT_EQ(nic.ip(), (Ipv4Address{10, 0, 0, 1}));
}

TEST_F(FlowNicTest, NamesWhatIsMissing) {
  stub_device().ports_without_gids = {1, 2};
  EXPECT_THAT(error(), AllOf(HasSubstr("stub0"), HasSubstr("IPv4 address")));
  for (ibv_port_attr& port : stub_device().ports) {
    port.state = IBV_PORT_DOWN;
  }
  EXPECT_THAT(error(), HasSubstr("no port of stub0 is active"));
  stub_device().present = false;
  EXPECT_THAT(error(), HasSubstr("no RDMA device"));
}

}  // namespace nics
}  // namespace
}  // namespace sidelatch::flows
