#include "softnic/nic/path.h"

#include <gtest/gtest.h>

namespace sidelatch::softnic::nic {
namespace {

const Gid kFour = gid_of({10, 1, 2, 3});
const Gid kOtherFour = gid_of({10, 1, 2, 4});
const Gid kSix{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
const Gid kOtherSix{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
constexpr MacAddress kOtherMac{1, 2, 3, 4, 5, 6};
constexpr MacAddress kOwnMac{2, 2, 2, 2, 2, 2};

TEST(Path, WritesTheHeadersOfIpv4) {
  const Path path({.mac = kOtherMac, .gid = kOtherFour, .hop_limit = 9, .traffic_class = 0x68}, kOwnMac, kFour, 5, 6);
  const Packet& packet = path.packet();
  ASSERT_TRUE(packet.ethernet);
  EXPECT_EQ(packet.ethernet->destination, kOtherMac);
  EXPECT_EQ(packet.ethernet->source, kOwnMac);
  const auto& ip = std::get<Ipv4>(packet.ip);
  EXPECT_EQ(ip.source, (Ipv4Address{10, 1, 2, 3}));
  EXPECT_EQ(ip.destination, (Ipv4Address{10, 1, 2, 4}));
  EXPECT_EQ(ip.time_to_live, 9);
  EXPECT_EQ(ip.type_of_service, 0x68);
  EXPECT_EQ(packet.bth.destination_qp, 6U);
  EXPECT_GE(packet.udp.source_port, 0xc000);
}

TEST(Path, WritesTheHeadersOfIpv6) {
  const Path path({.mac = kOtherMac, .gid = kOtherSix, .traffic_class = 3, .flow_label = 0x54321}, kOwnMac, kSix, 5, 6);
  const auto& ip = std::get<Ipv6>(path.packet().ip);
  EXPECT_EQ(ip.source, kSix);
  EXPECT_EQ(ip.destination, kOtherSix);
  EXPECT_EQ(ip.flow_label, 0x54321U);
  EXPECT_EQ(ip.traffic_class, 3);
  // Like Linux's rdma_flow_label_to_udp_sport(): the lower 14 bits with the upper 6 folded in.
  EXPECT_EQ(path.packet().udp.source_port, 0xc000U | ((0x54321U & 0x3fff) ^ (0x54321U >> 14)));
}

TEST(Path, TakesOnlyWhatComesAlongIt) {
  const Path there({.gid = kOtherFour}, kOwnMac, kFour, 5, 6);
  const Path back({.gid = kFour}, kOtherMac, kOtherFour, 6, 5);
  const Path six({.gid = kSix}, kOtherMac, kOtherSix, 6, 5);
  EXPECT_TRUE(there.accepts(back.packet()));
  EXPECT_FALSE(there.accepts(there.packet()));
  EXPECT_FALSE(there.accepts(six.packet()));
}

TEST(Path, TheTwoEndsAreOfOneKind) {
  EXPECT_TRUE(Path::is_possible({.gid = kFour}, kOtherFour));
  EXPECT_TRUE(Path::is_possible({.gid = kSix}, kOtherSix));
  EXPECT_FALSE(Path::is_possible({.gid = kSix}, kFour));
  EXPECT_FALSE(Path::is_possible({.gid = kFour}, kSix));
}

}  // namespace
}  // namespace sidelatch::softnic::nic
