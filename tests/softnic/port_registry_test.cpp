#include "softnic/port_registry.h"

#include "softnic/cm/rdma_ids.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>

namespace sidelatch::softnic {
namespace {

const roce::Gid kFirst = roce::gid_of({10, 0, 0, 1});
const roce::Gid kSecond = roce::gid_of({10, 0, 0, 2});
const roce::Gid kAnyIp = roce::gid_of({0, 0, 0, 0});
const roce::Gid kLoopbackIp = roce::gid_of({127, 0, 0, 1});

class Ports : public ::testing::Test {
 protected:
  WireSettings wire = roce::SharedMemoryWireOptions{.name = fmt::format("ports-{}", ::getpid())};
  PortRegistry first{wire, {kFirst}};
  PortRegistry second{wire, {kSecond}};

  static bool is_in_use(PortRegistry& ports, const cm::SocketAddress& address, cm::PortSharing sharing = {},
                        std::uint64_t owner = 99) {
    try {
      static_cast<void>(ports.take(cm::kTcp, address, sharing, owner));
      return false;
    } catch (const cm::IdError& error) {
      EXPECT_EQ(error.error(), EADDRINUSE);
      return true;
    }
  }
};

TEST_F(Ports, APortHasOneOwner) {
  EXPECT_EQ(first.take(cm::kTcp, {.ip = kLoopbackIp, .port = 7000}, {}, 1), 7000);
  EXPECT_TRUE(is_in_use(second, {.ip = kLoopbackIp, .port = 7000}));
  EXPECT_TRUE(is_in_use(second, {.ip = kAnyIp, .port = 7000}));
  EXPECT_TRUE(is_in_use(first, {.ip = kAnyIp, .port = 7000}));
  EXPECT_EQ(second.take(cm::kUdp, {.ip = kAnyIp, .port = 7000}, {}, 2), 7000) << "another port space";
  EXPECT_EQ(second.take(cm::kTcp, {.ip = roce::gid_of({127, 0, 0, 2}), .port = 7000}, {}, 3), 7000);
  first.give(1);
  EXPECT_FALSE(is_in_use(second, {.ip = kLoopbackIp, .port = 7000}));
}

TEST_F(Ports, AnAddressOfAStationIsItsOwn) {
  EXPECT_FALSE(is_in_use(first, {.ip = kFirst, .port = 7000}, {}, 1));
  EXPECT_FALSE(is_in_use(second, {.ip = kAnyIp, .port = 7000}, {}, 2));
  EXPECT_TRUE(is_in_use(first, {.ip = kFirst, .port = 7000}, {}, 3));
  EXPECT_EQ(second.station_at(cm::kTcp, {.ip = kLoopbackIp, .port = 7000}), kSecond);
}

// rdma_set_option(3): an identifier of IPv6 with RDMA_OPTION_ID_AFONLY leaves IPv4 to others. Servers that listen at
// the wildcards of both families do so.
TEST_F(Ports, FamiliesAreApartWhereBothAreAlone) {
  const cm::SocketAddress any4{.ip = kAnyIp, .port = 7000};
  const cm::SocketAddress any6{.port = 7000};
  EXPECT_FALSE(is_in_use(first, any4, {}, 1));
  EXPECT_TRUE(is_in_use(first, any6, {}, 2)) << "it would take connections of IPv4, too";
  EXPECT_FALSE(is_in_use(second, any6, {.only_family = true}, 3));
  EXPECT_TRUE(is_in_use(first, any6, {.only_family = true}, 4));
  EXPECT_EQ(first.station_at(cm::kTcp, {.ip = kLoopbackIp, .port = 7000}), kFirst);
  first.give(1);
  EXPECT_FALSE(second.station_at(cm::kTcp, {.ip = kLoopbackIp, .port = 7000}));
  roce::Gid loopback6{};
  loopback6.back() = 1;
  EXPECT_EQ(first.station_at(cm::kTcp, {.ip = loopback6, .port = 7000}), kSecond);
  EXPECT_FALSE(is_in_use(first, any4, {}, 5));
}

TEST_F(Ports, TheOwnerMayShareItsPortLater) {
  const cm::SocketAddress at{.ip = kLoopbackIp, .port = 7000};
  EXPECT_FALSE(is_in_use(first, at, {}, 1));
  EXPECT_TRUE(is_in_use(second, at, {.reuses_address = true}, 2));
  first.share(1, {.reuses_address = true});
  EXPECT_TRUE(is_in_use(second, at, {}, 2));
  EXPECT_FALSE(is_in_use(second, at, {.reuses_address = true}, 2));
  EXPECT_THROW(first.share(2, {.reuses_address = true}), cm::IdError) << "that one is of another process";
  const cm::SocketAddress any4{.ip = kAnyIp, .port = 7001};
  const cm::SocketAddress any6{.port = 7001};
  EXPECT_FALSE(is_in_use(first, any6, {}, 3));
  EXPECT_TRUE(is_in_use(second, any4, {}, 3));
  first.share(3, {.only_family = true});
  EXPECT_FALSE(is_in_use(second, any4, {}, 3));
}

TEST_F(Ports, FreePortsDiffer) {
  const std::uint16_t one = first.take(cm::kTcp, {.ip = kAnyIp}, {}, 1);
  const std::uint16_t other = second.take(cm::kTcp, {.ip = kAnyIp}, {}, 1);
  EXPECT_NE(one, other);
  EXPECT_GE(std::min(one, other), 32768);
}

TEST_F(Ports, TheStationThatListensIsFound) {
  const cm::SocketAddress at{.ip = kLoopbackIp, .port = 7000};
  EXPECT_FALSE(first.station_at(cm::kTcp, at));
  static_cast<void>(first.take(cm::kTcp, {.ip = kAnyIp, .port = 7000}, {.reuses_address = true}, 1));
  static_cast<void>(second.take(cm::kTcp, at, {.reuses_address = true}, 1));
  EXPECT_EQ(first.station_at(cm::kTcp, at), kSecond) << "the exact address goes first";
  EXPECT_FALSE(first.is_open(cm::kTcp, at));
  first.open(1);
  EXPECT_EQ(second.station_at(cm::kTcp, at), kFirst) << "who listens goes first";
  EXPECT_TRUE(second.is_open(cm::kTcp, at));
  EXPECT_THROW(second.open(1), cm::IdError) << "one listens only";
  // A wildcard of IPv6 takes IPv4, too; one of IPv4 does not take IPv6.
  roce::Gid loopback6{};
  loopback6.back() = 1;
  EXPECT_FALSE(first.station_at(cm::kTcp, {.ip = loopback6, .port = 7000}));
  static_cast<void>(second.take(cm::kTcp, {.port = 7001}, {}, 2));
  EXPECT_EQ(first.station_at(cm::kTcp, {.ip = kLoopbackIp, .port = 7001}), kSecond);
  EXPECT_EQ(first.station_at(cm::kTcp, {.ip = loopback6, .port = 7001}), kSecond);
}

TEST_F(Ports, ThePortsOfAKilledProcessAreFree) {
  const pid_t child = ::fork();
  if (child == 0) {
    first.abandon();
    second.abandon();
    PortRegistry third(wire, {roce::gid_of({10, 0, 0, 3})});
    static_cast<void>(third.take(cm::kTcp, {.ip = kAnyIp, .port = 7000}, {}, 1));
    third.open(1);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(first.station_at(cm::kTcp, {.ip = kLoopbackIp, .port = 7000}));
  EXPECT_FALSE(is_in_use(first, {.ip = kAnyIp, .port = 7000}));
}

TEST_F(Ports, ForeignBytesInTheFileDoNoHarm) {
  ASSERT_FALSE(first.path().empty());
  std::filesystem::resize_file(first.path(), 777);
  static_cast<void>(first.station_at(cm::kTcp, {.ip = kLoopbackIp, .port = 0}));
  EXPECT_FALSE(is_in_use(first, {.ip = kAnyIp, .port = 7000}));
}

TEST(PortRegistry, TheLastOneRemovesTheFile) {
  const WireSettings wire = roce::SharedMemoryWireOptions{.name = fmt::format("last-{}", ::getpid())};
  auto one = std::make_unique<PortRegistry>(wire, std::vector{kFirst});
  auto other = std::make_unique<PortRegistry>(wire, std::vector{kSecond});
  const std::string path = one->path();
  one.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  other.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PortRegistry, AHostOnItsOwnHasItsOwnPorts) {
  const WireSettings wire = roce::PacketWireOptions{.interface = "eth0"};
  PortRegistry one(wire, {kFirst});
  PortRegistry other(wire, {kSecond});
  EXPECT_EQ(one.take(cm::kTcp, {.ip = kAnyIp, .port = 7000}, {}, 1), 7000);
  EXPECT_EQ(other.take(cm::kTcp, {.ip = kAnyIp, .port = 7000}, {}, 1), 7000);
  EXPECT_FALSE(other.station_at(cm::kTcp, {.ip = kLoopbackIp, .port = 1}));
}

}  // namespace
}  // namespace sidelatch::softnic
