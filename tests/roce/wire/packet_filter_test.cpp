// The frames that the kernel gives to a wire on an interface. A UNIX socket runs the same program without privileges.
#include "roce/wire/packet_filter.h"

#include "common/file_descriptor.h"
#include "tests/roce/samples.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

namespace sidelatch::roce {
namespace {

class Filter {
 public:
  explicit Filter(const StationAddresses& own) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    from_ = FileDescriptor(ends[0]);
    to_ = FileDescriptor(ends[1]);
    std::vector<sock_filter> code = packet_filter(own);
    const sock_fprog program = {.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
    EXPECT_EQ(::setsockopt(to_.number(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  }
  [[nodiscard]] bool takes(const Bytes& frame) const {
    EXPECT_EQ(::send(from_.number(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    Bytes found(frame.size() + 1);
    const ssize_t bytes = ::recv(to_.number(), found.data(), found.size(), 0);
    EXPECT_TRUE(bytes < 0 || static_cast<std::size_t>(bytes) == frame.size()) << "it is not cut";
    return bytes >= 0;
  }

 private:
  FileDescriptor from_;
  FileDescriptor to_;
};

Packet packet_for(int version) {
  static const Bytes kPayload = payload_of(64);
  return sample(version, Opcode::write_only, kPayload);
}

StationAddresses receiver() {
  return {.mac = {2, 0, 0, 0, 0, 1},
          .ipv4 = std::get<Ipv4>(packet_for(4).ip).destination,
          .ipv6 = std::get<Ipv6>(packet_for(6).ip).destination};
}

Bytes changed(Bytes frame, std::size_t at, std::uint8_t value) {
  frame[at] = std::byte{value};
  return frame;
}

TEST(PacketFilter, TakesRoceForOurAddresses) {
  const Filter filter(receiver());
  EXPECT_TRUE(filter.takes(built(packet_for(4))));
  EXPECT_TRUE(filter.takes(built(packet_for(6))));
}

TEST(PacketFilter, RefusesOtherAddressesPortsAndProtocols) {
  const Filter filter(receiver());
  const Bytes v4 = built(packet_for(4));
  const Bytes v6 = built(packet_for(6));
  for (const std::size_t at : {std::size_t{12}, std::size_t{23}, std::size_t{30}, std::size_t{33}, std::size_t{37}}) {
    EXPECT_FALSE(filter.takes(changed(v4, at, 0x99))) << "byte " << at;
  }
  EXPECT_FALSE(filter.takes(changed(v4, 21, 1))) << "not the first fragment";
  for (const std::size_t at : {std::size_t{12}, std::size_t{20}, std::size_t{38}, std::size_t{53}, std::size_t{57}}) {
    EXPECT_FALSE(filter.takes(changed(v6, at, 0x99))) << "byte " << at;
  }
}

// parse() refuses options with a reason; the filter must find the port behind them.
TEST(PacketFilter, FindsThePortBehindIpv4Options) {
  const Filter filter(receiver());
  Bytes frame = built(packet_for(4));
  frame[14] = std::byte{0x46};
  EXPECT_FALSE(filter.takes(frame));
  frame.insert(frame.begin() + 34, 4, std::byte{1});
  EXPECT_TRUE(filter.takes(frame));
}

TEST(PacketFilter, TakesArpAndNeighbourDiscovery) {
  const Filter filter(receiver());
  Bytes arp(60);
  arp[12] = std::byte{0x08};
  arp[13] = std::byte{0x06};
  EXPECT_TRUE(filter.takes(arp));
  Bytes discovery(86);
  discovery[12] = std::byte{0x86};
  discovery[13] = std::byte{0xdd};
  discovery[20] = std::byte{58};
  for (const auto& [type, taken] : {std::pair{134, false}, {135, true}, {136, true}, {137, false}, {128, false}}) {
    EXPECT_EQ(filter.takes(changed(discovery, 54, static_cast<std::uint8_t>(type))), taken) << type;
  }
}

TEST(PacketFilter, TakesNothingOfAKindWithoutAnAddress) {
  StationAddresses only_ipv6 = receiver();
  only_ipv6.ipv4 = {};
  EXPECT_FALSE(Filter(only_ipv6).takes(built(packet_for(4))));
  EXPECT_TRUE(Filter(only_ipv6).takes(built(packet_for(6))));
  StationAddresses only_ipv4 = receiver();
  only_ipv4.ipv6 = {};
  EXPECT_FALSE(Filter(only_ipv4).takes(built(packet_for(6))));
  EXPECT_TRUE(Filter(only_ipv4).takes(built(packet_for(4))));
}

TEST(PacketFilter, RefusesShortFrames) {
  const Filter filter(receiver());
  const Bytes frame = built(packet_for(4));
  for (std::size_t bytes = 1; bytes < 38; ++bytes) {
    EXPECT_FALSE(filter.takes({frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes)})) << bytes;
  }
}

}  // namespace
}  // namespace sidelatch::roce
