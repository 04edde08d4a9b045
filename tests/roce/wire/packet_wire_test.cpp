// Interfaces of the kernel: two ends of a veth pair in the test's own network. The user must be allowed to create one.
#include "roce/wire/packet_wire.h"

#include "roce/packet.h"
#include "tests/roce/wire/processes.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

namespace sidelatch::roce {
namespace {

// Makes veth0 and veth1 in a network namespace of this process. Both are up; veth0 has 10.9.0.1 and fd09::1.
bool make_network() {
  return ::unshare(::geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWNET | CLONE_NEWUSER) == 0 &&
         std::system(
             "ip link add veth0 mtu 5000 type veth peer name veth1 mtu 5000 2>/dev/null &&"
             "sysctl -qw net.ipv6.conf.veth1.disable_ipv6=1 2>/dev/null;"
             "ip addr add 10.9.0.1/24 dev veth0 && ip addr add fd09::1/64 dev veth0 nodad &&"
             "ip link set lo up && ip link set veth0 up && ip link set veth1 up") == 0;
}

// Runs in a child, with which the namespace ends. Failures there are printed to standard error.
void in_own_network(const std::function<void()>& work) {
  ChildProcess child([&] {
    if (!make_network()) {
      return kMayNot;
    }
    work();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  const int status = child.status();
  if (status == kMayNot) {
    GTEST_SKIP() << "this user may not make a network (or there is no iproute2)";
  }
  EXPECT_EQ(status, 0) << "see above";
}

constexpr Ipv4Address kFirstIpv4 = {10, 9, 0, 2};
constexpr Ipv4Address kSecondIpv4 = {10, 9, 0, 3};
constexpr Ipv6Address kFirstIpv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
constexpr Ipv6Address kSecondIpv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3};
constexpr Ipv4Address kKernelIpv4 = {10, 9, 0, 1};
constexpr Ipv6Address kKernelIpv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

std::optional<MacAddress> resolved(PacketWire& wire, const Gid& gid, PacketWire* answers = nullptr) {
  for (int i = 0; i < 1000; ++i) {
    if (const auto mac = wire.resolve(gid)) {
      return mac;
    }
    if (answers != nullptr) {
      EXPECT_TRUE(answers->receive().empty());
    }
    wire.wait(std::chrono::milliseconds(10));
    EXPECT_TRUE(wire.receive().empty());
  }
  return std::nullopt;
}

std::vector<std::byte> some_packet(const StationAddresses& from, const StationAddresses& to, int version) {
  Packet packet;
  packet.ethernet = Ethernet{.destination = to.mac, .source = from.mac};
  packet.ip = Ipv4{.source = from.ipv4, .destination = to.ipv4};
  if (version == 6) {
    packet.ip = Ipv6{.source = from.ipv6, .destination = to.ipv6};
  }
  const std::vector<std::byte> payload(4096, std::byte{0x55});
  packet.bth.opcode = Opcode::write_only;
  packet.reth.dma_length = 4096;
  packet.payload = payload;
  std::vector<std::byte> frame(kMostFrameBytes);
  frame.resize(std::get<std::size_t>(build(packet, frame)));
  return frame;
}

std::span<const std::byte> next_frame(PacketWire& wire) {
  auto frame = wire.receive();
  while (frame.empty()) {
    wire.wait(std::chrono::hours(1));
    frame = wire.receive();
  }
  return frame;
}

TEST(PacketWire, CarriesPacketsBetweenTwoOfOurs) {
  in_own_network([] {
    PacketWire first({.interface = "veth0", .ipv4 = kFirstIpv4, .ipv6 = kFirstIpv6});
    PacketWire second(
        {.interface = "veth1", .ipv4 = kSecondIpv4, .ipv6 = kSecondIpv6, .mac = MacAddress{2, 0, 0, 0, 0, 9}});
    EXPECT_EQ(resolved(first, gid_of(kSecondIpv4), &second), second.addresses().mac);
    EXPECT_EQ(resolved(first, kSecondIpv6, &second), second.addresses().mac);
    EXPECT_EQ(second.resolve(gid_of(kFirstIpv4)), first.addresses().mac);
    EXPECT_EQ(second.resolve(kFirstIpv6), first.addresses().mac);
    for (const int version : {4, 6}) {
      const auto there = some_packet(first.addresses(), second.addresses(), version);
      const auto back = some_packet(second.addresses(), first.addresses(), version);
      for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(first.send(there));
        const auto found = next_frame(second);
        ASSERT_TRUE(std::equal(found.begin(), found.end(), there.begin(), there.end()));
        ASSERT_TRUE(second.send(back));
        const auto answer = next_frame(first);
        ASSERT_TRUE(std::equal(answer.begin(), answer.end(), back.begin(), back.end()));
      }
    }
  });
}

// The kernel asks for our address and we ask for its address. Other ports do not reach us, and it sends us no ICMP.
TEST(PacketWire, SpeaksWithAKernel) {
  in_own_network([] {
    PacketWire wire({.interface = "veth1", .ipv4 = kSecondIpv4, .ipv6 = kSecondIpv6});
    ASSERT_TRUE(resolved(wire, gid_of(kKernelIpv4)));
    EXPECT_EQ(resolved(wire, kKernelIpv6), resolved(wire, gid_of(kKernelIpv4)));
    for (const int family : {AF_INET, AF_INET6}) {
      const FileDescriptor socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const auto send_to_port = [&](std::uint16_t port, char what) {
        sockaddr_storage to{};
        if (family == AF_INET) {
          auto& address = reinterpret_cast<sockaddr_in&>(to);
          address.sin_family = AF_INET;
          address.sin_port = htons(port);
          std::memcpy(&address.sin_addr, kSecondIpv4.data(), kSecondIpv4.size());
        } else {
          auto& address = reinterpret_cast<sockaddr_in6&>(to);
          address.sin6_family = AF_INET6;
          address.sin6_port = htons(port);
          std::memcpy(&address.sin6_addr, kSecondIpv6.data(), kSecondIpv6.size());
        }
        ASSERT_EQ(::sendto(socket.number(), &what, 1, 0, reinterpret_cast<const sockaddr*>(&to),
                           family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)),
                  1)
            << std::strerror(errno);
      };
      send_to_port(4790, 'a');
      send_to_port(kUdpPort, 'b');
      const auto frame = next_frame(wire);
      const std::size_t at = Ethernet::kBytes + (family == AF_INET ? Ipv4::kBytes : Ipv6::kBytes) + Udp::kBytes;
      ASSERT_GT(frame.size(), at);
      EXPECT_EQ(std::to_integer<char>(frame[at]), 'b');
      EXPECT_EQ(Udp::read(frame.data() + at - Udp::kBytes).destination_port, kUdpPort);
    }
  });
}

TEST(PacketWire, SendsPacketsThatAKernelTakes) {
  in_own_network([] {
    const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(kUdpPort);
    ASSERT_EQ(::bind(socket.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    PacketWire wire({.interface = "veth1", .ipv4 = kSecondIpv4});
    const StationAddresses kernel = {
        .mac = resolved(wire, gid_of(kKernelIpv4)).value(), .ipv4 = kKernelIpv4, .ipv6 = kKernelIpv6};
    const auto frame = some_packet(wire.addresses(), kernel, 4);
    ASSERT_TRUE(wire.send(frame));
    std::vector<std::byte> found(8192);
    const ssize_t bytes = ::recv(socket.number(), found.data(), found.size(), 0);
    constexpr std::size_t kHeaders = Ethernet::kBytes + Ipv4::kBytes + Udp::kBytes;
    ASSERT_EQ(static_cast<std::size_t>(bytes), frame.size() - kHeaders);
    EXPECT_TRUE(std::equal(frame.begin() + kHeaders, frame.end(), found.begin()));
  });
}

TEST(PacketWire, SaysWhatIsWrong) {
  in_own_network([] {
    const auto why_not = [](const PacketWireOptions& options) -> std::string {
      try {
        static_cast<void>(open_packet_wire(options));
      } catch (const std::exception& error) {
        return error.what();
      }
      return {};
    };
    EXPECT_THAT(why_not({.interface = "veth0", .ipv4 = kKernelIpv4}), ::testing::HasSubstr("10.9.0.1"));
    EXPECT_THAT(why_not({.interface = "veth0", .ipv6 = kKernelIpv6}), ::testing::HasSubstr("fd09::1"));
    EXPECT_THAT(why_not({.interface = "nothing", .ipv4 = kFirstIpv4}), ::testing::HasSubstr("interface nothing"));
    EXPECT_THAT(why_not({.interface = std::string(40, 'x')}), ::testing::HasSubstr("no name of an interface"));
    EXPECT_THAT(why_not({.interface = "veth0"}), ::testing::HasSubstr("needs an IP address"));
  });
}

TEST(PacketWire, SaysThatItNeedsARight) {
  ChildProcess child([] {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> none{};
    if (::syscall(SYS_capset, &header, none.data()) != 0) {
      return 1;
    }
    try {
      static_cast<void>(open_packet_wire({.interface = "lo", .ipv4 = kFirstIpv4}));
    } catch (const WireError& error) {
      return std::string_view(error.what()).find("CAP_NET_RAW") != std::string_view::npos ? 0 : 2;
    }
    return 3;
  });
  EXPECT_EQ(child.status(), 0);
}

}  // namespace
}  // namespace sidelatch::roce
