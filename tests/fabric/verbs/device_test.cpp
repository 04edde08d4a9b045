// Devices of every kind: selection, limits, and refusals with their advice.
#include "stub_provider.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Device : public ::testing::Test {
 protected:
  void SetUp() override { stub_device() = StubDevice(); }

  static std::string error_of(const DeviceOptions& options = {}) {
    try {
      const VerbsFabric fabric(options);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "no error";
  }
  static ibv_gid_entry gid(ibv_gid_type type, std::string_view prefix) {
    ibv_gid_entry entry{};
    entry.gid_type = static_cast<std::uint32_t>(type);
    std::memcpy(entry.gid.raw, prefix.data(), prefix.size());
    entry.gid.raw[15] = 1;
    return entry;
  }
  // Connects two nodes; stub_device() records the requests to the device.
  static QueuePairOptions connect(const DeviceOptions& device = {}, const QueuePairOptions& options = {}) {
    VerbsFabric fabric(device);
    Node& storage = fabric.add_node("storage");
    return fabric.add_node("client").connect(storage, options)->options();
  }

  static constexpr std::string_view kLinkLocal{"\xfe\x80", 2};
  static constexpr std::string_view kIpv4{"\0\0\0\0\0\0\0\0\0\0\xff\xff", 12};
};

TEST_F(Device, ThatIsPlainIsTaken) {
  EXPECT_EQ(error_of(), "no error");
  EXPECT_THAT(device_names(), ::testing::ElementsAre("stub0"));
}

TEST_F(Device, ThatIsMissingIsAnError) {
  stub_device().present = false;
  EXPECT_THAT(error_of(), HasSubstr("no RDMA device"));
}

TEST_F(Device, WithoutAtomicsIsRefused) {
  stub_device().limits.atomic_cap = IBV_ATOMIC_NONE;
  EXPECT_THAT(error_of(), AllOf(HasSubstr("stub0"), HasSubstr("atomics")));
}

TEST_F(Device, ThatServesNoReadsIsRefused) {
  stub_device().limits.max_qp_rd_atom = 0;
  EXPECT_THAT(error_of(), AllOf(HasSubstr("stub0"), HasSubstr("atomics")));
}

TEST_F(Device, WithoutAnActivePortIsRefused) {
  stub_device().ports[0].state = IBV_PORT_DOWN;
  EXPECT_THAT(error_of(), AllOf(HasSubstr("no port of stub0 is active"), HasSubstr("bring a link up")));
  EXPECT_THAT(error_of({.device = "stub0"}), AllOf(HasSubstr("no port of stub0"), HasSubstr("bring a link up")));
  EXPECT_THAT(error_of({.device = "stub0", .port = 1}), AllOf(HasSubstr("port 1 of stub0"), HasSubstr("link up")));
}

TEST_F(Device, UsesTheFirstActivePort) {
  stub_device().limits.phys_port_cnt = 2;
  stub_device().ports.push_back(stub_device().ports[0]);
  stub_device().ports[0].state = IBV_PORT_INIT;
  stub_device().ports[1].active_mtu = IBV_MTU_512;
  connect();
  EXPECT_EQ(stub_device().path_mtu, IBV_MTU_512);
  EXPECT_THAT(error_of({.port = 1}), HasSubstr("port 1 of stub0 is init"));
}

TEST_F(Device, PassesOverPortsWithoutAGid) {
  stub_device().limits.phys_port_cnt = 3;
  stub_device().ports.resize(3, stub_device().ports[0]);
  stub_device().ports_without_gids = {1};
  connect();
  EXPECT_EQ(stub_device().port_number, 2);
  connect({.gid_index = 0});
  EXPECT_EQ(stub_device().port_number, 2);
  connect({.port = 3});
  EXPECT_EQ(stub_device().port_number, 3);
  EXPECT_THAT(error_of({.port = 1}), HasSubstr("port 1 of stub0 has no GID"));
  EXPECT_THAT(error_of({.gid_index = 1}), HasSubstr("has no GID 1"));
  stub_device().ports_without_gids = {1, 2, 3};
  EXPECT_THAT(error_of(), AllOf(HasSubstr("has no GID"), HasSubstr("IP address")));
}

TEST_F(Device, WithoutAGidOnRoceIsRefused) {
  stub_device().gids.clear();
  EXPECT_THAT(error_of(), AllOf(HasSubstr("has no GID"), HasSubstr("IP address")));
  stub_device().gids.push_back({});  // an empty place in the table
  EXPECT_THAT(error_of(), HasSubstr("has no GID"));
}

// Version 1 does not pass a router; most switches are set up for IPv4.
TEST_F(Device, TakesAGidOfVersion2AndIpv4IfThereIsOne) {
  stub_device().gids = {gid(IBV_GID_TYPE_ROCE_V1, kLinkLocal), gid(IBV_GID_TYPE_ROCE_V2, kLinkLocal),
                        gid(IBV_GID_TYPE_ROCE_V1, kIpv4), gid(IBV_GID_TYPE_ROCE_V2, kIpv4),
                        gid(IBV_GID_TYPE_ROCE_V2, kIpv4)};
  connect();
  EXPECT_EQ(stub_device().gid_index, 3);
  stub_device().gids.resize(3);
  connect();
  EXPECT_EQ(stub_device().gid_index, 1);
  stub_device().gids.resize(1);
  connect();
  EXPECT_EQ(stub_device().gid_index, 0);
}

TEST_F(Device, TakesTheGidThatItIsTold) {
  stub_device().gids = {gid(IBV_GID_TYPE_ROCE_V1, kLinkLocal), gid(IBV_GID_TYPE_ROCE_V2, kIpv4)};
  connect({.gid_index = 0});
  EXPECT_EQ(stub_device().gid_index, 0);
  EXPECT_THAT(error_of({.gid_index = 2}), HasSubstr("GID 2"));
}

TEST_F(Device, RefusesAnMtuThatItsPortDoesNotHave) {
  stub_device().ports[0].active_mtu = IBV_MTU_1024;
  EXPECT_THAT(error_of({.mtu = 2048}), AllOf(HasSubstr("2048"), HasSubstr("1024"), HasSubstr("MTU")));
  connect({.mtu = 512});
  EXPECT_EQ(stub_device().path_mtu, IBV_MTU_512);
  connect();
  EXPECT_EQ(stub_device().path_mtu, IBV_MTU_1024);
}

TEST_F(Device, LimitsReadsAndAtomicsInFlight) {
  EXPECT_EQ(connect({}, {.max_rd_atomic = 8}).max_rd_atomic, 8U);
  EXPECT_EQ(stub_device().most_rd_atomic, 8U);
  stub_device().limits.max_qp_rd_atom = 4;  // what it serves
  EXPECT_EQ(connect({}, {.max_rd_atomic = 8}).max_rd_atomic, 4U);
  EXPECT_EQ(stub_device().most_rd_atomic, 4U);
  stub_device().limits.max_qp_init_rd_atom = 2;  // what it sends
  EXPECT_EQ(connect({}, {.max_rd_atomic = 8}).max_rd_atomic, 2U);
  EXPECT_EQ(stub_device().most_rd_atomic, 2U);
}

TEST_F(Device, LimitsInlinedPayloads) {
  EXPECT_EQ(connect({}, {.max_inline = 220}).max_inline, 220U);
  stub_device().most_inline = 60;
  EXPECT_EQ(connect({}, {.max_inline = 220}).max_inline, 55U);  // halves of 220 until it is taken
  stub_device().most_inline = 0;
  EXPECT_EQ(connect({}, {.max_inline = 220}).max_inline, 0U);
}

TEST_F(Device, ThatMayLockNoMoreMemorySaysWhichLimitToRaise) {
  VerbsFabric fabric;
  Node& node = fabric.add_node("storage");
  stub_device().registration_error = ENOMEM;
  try {
    static_cast<void>(node.allocate(12288, Access::remote_all));
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("12288 bytes"), HasSubstr("stub0"), HasSubstr(std::strerror(ENOMEM)),
                                    HasSubstr("ulimit -l")));
  }
  EXPECT_THROW(static_cast<void>(node.connect(node)), DeviceError);
  stub_device().registration_error = 0;
  const MemoryRegion region = node.allocate(12288, Access::remote_all);
  EXPECT_EQ(region.length(), 12288U);
}

// Entries of a connection that has ended may lie in the queue while as many requests of the next complete.
TEST_F(Device, ThatAllowsLessThanTwoCompletionsForEachRequestIsNamed) {
  stub_device().limits.max_cqe = 100;
  EXPECT_THAT(error_of(), AllOf(HasSubstr("completion_queue_depth is 4096"), HasSubstr("stub0 allows 100 (max_cqe)"),
                                HasSubstr("to 50 at most")));
  EXPECT_THAT(error_of({.completion_queue_depth = 51}), HasSubstr("completion_queue_depth is 51"));
  EXPECT_EQ(error_of({.completion_queue_depth = 50}), "no error");
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
