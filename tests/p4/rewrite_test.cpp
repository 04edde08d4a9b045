// The invariant CRC (ICRC) of RoCEv2 packets whose headers a program rewrites, and Congestion Experienced. The ICRC is
// checked against one computed bit by bit, which shares no code with the switch. A packet that is damaged, before the
// switch, in it or after it, must not be taken for a good one by its receiver.
#include "p4/switch/rewrite.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/switch.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {

using Frame = std::vector<std::byte>;

// DEPTH: what the parser reads: 0 IP, 1 also UDP, 2 also the base transport header, 3 also the RETH.
constexpr const char* kRewriting = R"(
#include <core.p4>
#include <v1model.p4>
header eth_t { bit<48> to; bit<48> from; bit<16> type; }
header ipv4_t { bit<8> vihl; bit<8> tos; bit<16> len; bit<16> id; bit<16> frag; bit<8> ttl; bit<8> protocol;
                bit<16> csum; bit<32> from; bit<32> to; }
header ipv6_t { bit<4> version; bit<8> tclass; bit<20> flow; bit<16> len; bit<8> next; bit<8> hops;
                bit<128> from; bit<128> to; }
header udp_t { bit<16> from; bit<16> to; bit<16> len; bit<16> csum; }
header bth_t { bit<8> opcode; bit<8> flags; bit<16> pkey; bit<8> resv; bit<24> qp; bit<8> ack; bit<24> psn; }
header reth_t { bit<64> address; bit<32> key; bit<32> length; }
header vlan_t { bit<16> tag; bit<16> type; }
struct H { eth_t eth; vlan_t vlan; vlan_t vlan2; ipv4_t ip; ipv6_t ip6; udp_t udp; bth_t bth; reth_t reth; }
struct M {}
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
  state start { b.extract(h.eth); transition select(h.eth.type) { 0x0800: v4; 0x86dd: v6; 0x8100: tag; 0x88a8: tag; default: accept; } }
  state tag { b.extract(h.vlan); transition select(h.vlan.type) { 0x0800: v4; 0x86dd: v6; 0x8100: tag2; default: accept; } }
  state tag2 { b.extract(h.vlan2); transition select(h.vlan2.type) { 0x0800: v4; 0x86dd: v6; default: accept; } }
  state v4 { b.extract(h.ip); transition select(h.ip.protocol) { 17: udp; default: accept; } }
  state v6 { b.extract(h.ip6); transition select(h.ip6.next) { 17: udp; default: accept; } }
  state udp { transition select(8w DEPTH) { 0: accept; default: udp2; } }
  state udp2 { b.extract(h.udp); transition select(8w DEPTH, h.udp.to) { (1, _): accept; (_, 4791): bth; default: accept; } }
  state bth { b.extract(h.bth); transition select(8w DEPTH, h.bth.opcode) { (3, 0x0a): reth; default: accept; } }
  state reth { b.extract(h.reth); transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  apply {
    s.egress_spec = 2;
    h.eth.to = 0x020000000063;
    if (h.ip.isValid()) { h.ip.ttl = h.ip.ttl - 1; h.ip.from = 0x0a000063; h.ip.to = h.ip.to + 1; }
    if (h.ip6.isValid()) { h.ip6.hops = h.ip6.hops - 1; h.ip6.to = h.ip6.to + 1; }
    if (h.udp.isValid()) { h.udp.from = h.udp.from ^ 0x1111; }
    if (h.bth.isValid()) { h.bth.qp = 0x123456; h.bth.psn = h.bth.psn + 100; }
    if (h.reth.isValid()) { h.reth.address = h.reth.address + 0x1000; }
  }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control C(inout H h, inout M m) {
  apply {
    update_checksum(h.ip.isValid(), { h.ip.vihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.frag, h.ip.ttl, h.ip.protocol,
                                      h.ip.from, h.ip.to }, h.ip.csum, HashAlgorithm.csum16);
  }
}
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
)";

std::shared_ptr<const Program> rewriting(int depth) {
  std::string text = kRewriting;
  for (std::size_t at = text.find("8w DEPTH"); at != std::string::npos; at = text.find("8w DEPTH")) {
    text.replace(at, 8, "8w" + std::to_string(depth));
  }
  return compile(text, "rewriting.p4");
}

void put(Frame& frame, std::uint64_t value, int bytes) {
  for (int i = bytes; i-- > 0;) {
    frame.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

unsigned at(const Frame& frame, std::size_t which) { return std::to_integer<unsigned>(frame.at(which)); }
unsigned two_at(const Frame& frame, std::size_t which) { return at(frame, which) << 8 | at(frame, which + 1); }

// RFC 1071, with the field itself included: 0xffff if it is right.
unsigned sum_of_ipv4_header(const Frame& frame) {
  unsigned sum = 0;
  for (std::size_t i = 14; i < 34; i += 2) {
    sum += two_at(frame, i);
  }
  while (sum > 0xffff) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

// Offsets in a frame, if it is a RoCEv2 packet in Ethernet with an IP header without options.
struct RocePlaces {
  bool v6 = false;
  std::size_t udp = 0;
  std::size_t bth = 0;
  std::size_t icrc = 0;
};

std::optional<RocePlaces> places_in(const Frame& frame) {
  RocePlaces places;
  if (frame.size() < 14 + 20 + 8 + 12 + 4) {
    return std::nullopt;
  }
  std::size_t end = 0;
  if (two_at(frame, 12) == 0x0800 && at(frame, 14) == 0x45 && at(frame, 23) == 17) {
    places.udp = 34;
    end = 14 + two_at(frame, 16);
  } else if (two_at(frame, 12) == 0x86dd && at(frame, 14) >> 4 == 6 && at(frame, 20) == 17) {
    places.v6 = true;
    places.udp = 54;
    end = 54 + two_at(frame, 18);
  } else {
    return std::nullopt;
  }
  places.bth = places.udp + 8;
  places.icrc = end - 4;
  if (end > frame.size() || end < places.bth + 16 || two_at(frame, places.udp + 2) != 4791) {
    return std::nullopt;
  }
  return places;
}

// The fields that routers change count as all ones (InfiniBand Architecture Specification, Annex A17).
bool is_variant(const RocePlaces& places, std::size_t byte) {
  return byte < 14 || (!places.v6 && (byte == 15 || byte == 22 || byte == 24 || byte == 25)) ||
         (places.v6 && (byte == 15 || byte == 16 || byte == 17 || byte == 21)) || byte == places.udp + 6 ||
         byte == places.udp + 7 || byte == places.bth + 4;
}

std::uint32_t icrc_bit_by_bit(const Frame& frame, const RocePlaces& places) {
  std::uint32_t crc = 0xffffffff;
  const auto take = [&](unsigned byte) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
  };
  for (int i = 0; i < 8; ++i) {
    take(0xff);
  }
  for (std::size_t i = 14; i < places.icrc; ++i) {
    const unsigned traffic_class = places.v6 && i == 14 ? 0x0fU : 0U;
    take(is_variant(places, i) ? 0xff : at(frame, i) | traffic_class);
  }
  return ~crc;
}

// Whether a receiver takes it for a good RoCEv2 packet.
bool is_good(const Frame& frame) {
  const std::optional<RocePlaces> places = places_in(frame);
  if (!places) {
    return false;
  }
  const std::uint32_t crc = icrc_bit_by_bit(frame, *places);
  for (unsigned i = 0; i < 4; ++i) {
    if (at(frame, places->icrc + i) != ((crc >> (8 * i)) & 0xff)) {
      return false;
    }
  }
  return true;
}

void sign(Frame& frame) {
  const RocePlaces places = places_in(frame).value();
  const std::uint32_t crc = icrc_bit_by_bit(frame, places);
  for (unsigned i = 0; i < 4; ++i) {
    frame.at(places.icrc + i) = static_cast<std::byte>(crc >> (8 * i));
  }
}

// An RDMA write with `payload` bytes, signed. `link_padding`: bytes after the packet.
Frame rdma_write(bool v6, std::size_t payload, std::size_t link_padding = 0, unsigned ecn = 0) {
  const std::size_t transport = 8 + 12 + 16 + payload + 4;
  Frame frame;
  put(frame, 0x020000000002, 6);
  put(frame, 0x020000000001, 6);
  if (v6) {
    put(frame, 0x86dd, 2);
    put(frame, 0x60000000 | std::uint64_t{ecn} << 20 | 0x12345, 4);
    put(frame, transport, 2);
    put(frame, 17 << 8 | 64, 2);
    put(frame, 0xfe80, 8);
    put(frame, 1, 8);
    put(frame, 0xfe80, 8);
    put(frame, 2, 8);
  } else {
    put(frame, 0x0800, 2);
    put(frame, 0x4500 | ecn, 2);
    put(frame, 20 + transport, 2);
    put(frame, 0x00014000, 4);
    put(frame, 64 << 8 | 17, 2);
    put(frame, 0, 2);
    put(frame, 0x0a000001, 4);
    put(frame, 0x0a000002, 4);
    const unsigned sum = ~sum_of_ipv4_header(frame) & 0xffff;
    frame[24] = static_cast<std::byte>(sum >> 8);
    frame[25] = static_cast<std::byte>(sum);
  }
  put(frame, 0xc001, 2);
  put(frame, 4791, 2);
  put(frame, transport, 2);
  put(frame, 0, 2);
  put(frame, 0x0a40ffff00000011, 8);
  put(frame, 0x80000007, 4);
  put(frame, 0x00007f0012345000, 8);
  put(frame, 0x00001234, 4);
  put(frame, payload, 4);
  std::mt19937 random(static_cast<unsigned>(payload));
  for (std::size_t i = 0; i < payload; ++i) {
    put(frame, random(), 1);
  }
  put(frame, 0, 4);
  sign(frame);
  frame.resize(frame.size() + link_padding);
  return frame;
}

void flip(Frame& frame, std::size_t bit) { frame.at(bit / 8) ^= static_cast<std::byte>(1U << (bit % 8)); }

std::optional<Frame> through(Switch& device, const Frame& frame) {
  device.receive(1, frame);
  EXPECT_TRUE(device.run());
  const std::optional<Departure> departed = device.departed();
  if (!departed) {
    return std::nullopt;
  }
  Frame left(departed->bytes.begin(), departed->bytes.end());
  EXPECT_FALSE(device.departed());
  return left;
}

class Icrc : public testing::TestWithParam<int> {
 protected:
  Switch device_{rewriting(GetParam()), SwitchOptions{.ports = 4, .icrc = true}};
};

// The ICRC does not cover VLAN tags.
TEST_P(Icrc, IsRightBehindVlanTags) {
  const Frame inner{std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{5}};
  const Frame outer{std::byte{0x88}, std::byte{0xa8}, std::byte{0}, std::byte{7}};
  for (const bool v6 : {false, true}) {
    for (const std::ptrdiff_t tags : {1, 2}) {
      Frame sent = rdma_write(v6, 500);
      sent.insert(sent.begin() + 12, inner.begin(), inner.end());
      if (tags == 2) {
        sent.insert(sent.begin() + 12, outer.begin(), outer.end());
      }
      std::optional<Frame> left = through(device_, sent);
      ASSERT_TRUE(left);
      EXPECT_NE(*left, sent);
      left->erase(left->begin() + 12, left->begin() + 12 + 4 * tags);
      EXPECT_TRUE(is_good(*left)) << tags << " tags, IPv" << (v6 ? 6 : 4);
      flip(sent, 8 * sent.size() - 100);
      EXPECT_FALSE(through(device_, sent));
    }
  }
  EXPECT_EQ(device_.drops(Drop::bad_icrc), 4U);
}

TEST_P(Icrc, IsRightAfterTheProgramHasRewrittenHeaders) {
  for (const bool v6 : {false, true}) {
    for (const std::size_t payload : {0U, 4U, 500U, 512U, 516U, 1024U, 4096U}) {
      const Frame sent = rdma_write(v6, payload, payload == 4 ? 10 : 0);
      ASSERT_TRUE(is_good(sent));
      const std::optional<Frame> left = through(device_, sent);
      ASSERT_TRUE(left) << payload;
      EXPECT_NE(*left, sent);
      EXPECT_TRUE(is_good(*left)) << "payload " << payload << ", IPv" << (v6 ? 6 : 4);
    }
  }
  EXPECT_EQ(device_.drops(Drop::bad_icrc), 0U);
}

TEST_P(Icrc, WhatIsDamagedBeforeTheSwitchDoesNotLeaveItAsGood) {
  for (const bool v6 : {false, true}) {
    const Frame sent = rdma_write(v6, 20);
    const RocePlaces places = places_in(sent).value();
    for (std::size_t bit = 0; bit < 8 * sent.size(); ++bit) {
      Frame damaged = sent;
      flip(damaged, bit);
      const std::optional<Frame> left = through(device_, damaged);
      const bool traffic_class = v6 && bit / 8 == 14 && bit % 8 < 4;
      if (bit / 8 < 12 || (bit / 8 > 13 && (is_variant(places, bit / 8) || traffic_class))) {
        // Not protected: every hop may change it.
        EXPECT_TRUE(left && is_good(*left)) << "IPv" << (v6 ? 6 : 4) << ", byte " << bit / 8;
      } else {
        EXPECT_FALSE(left && is_good(*left)) << "IPv" << (v6 ? 6 : 4) << ", byte " << bit / 8 << ", bit " << bit % 8;
      }
    }
  }
  EXPECT_GT(device_.drops(Drop::bad_icrc), 0U);
}

TEST_P(Icrc, WhatIsDamagedAfterTheSwitchIsSeen) {
  const std::optional<Frame> left = through(device_, rdma_write(false, 20));
  ASSERT_TRUE(left);
  const RocePlaces places = places_in(*left).value();
  for (std::size_t bit = std::size_t{8} * 14; bit < 8 * left->size(); ++bit) {
    Frame damaged = *left;
    flip(damaged, bit);
    EXPECT_EQ(is_good(damaged), is_variant(places, bit / 8)) << "byte " << bit / 8;
    EXPECT_TRUE(!places_in(damaged) || has_wrong_icrc(damaged) != is_good(damaged)) << "byte " << bit / 8;
  }
}

INSTANTIATE_TEST_SUITE_P(Depths, Icrc, testing::Values(0, 1, 2, 3));

// Damage between arrival and departure, in the memory of the switch: the headers that the program has made are those of
// the packet as it came; everything else of the frame is damaged.
TEST(Rewrite, WhatIsDamagedInTheSwitchDoesNotLeaveItAsGood) {
  const Frame sent = rdma_write(false, 20);
  const RocePlaces places = places_in(sent).value();
  for (const std::size_t parsed : {std::size_t{34}, std::size_t{42}, std::size_t{54}, std::size_t{70}}) {
    Frame headers(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(parsed));
    headers[33] ^= std::byte{3};   // the destination's address
    headers[27] ^= std::byte{17};  // the source's
    const auto leave = [&](const Frame& in_the_switch) {
      Frame left = headers;
      left.insert(left.end(), in_the_switch.begin() + static_cast<std::ptrdiff_t>(parsed), in_the_switch.end());
      const std::uint32_t difference = icrc_difference(in_the_switch, parsed, headers);
      mend_icrc(left, difference);
      return left;
    };
    EXPECT_TRUE(is_good(leave(sent)));
    for (std::size_t bit = 8 * parsed; bit < 8 * sent.size(); ++bit) {
      Frame damaged = sent;
      flip(damaged, bit);
      EXPECT_EQ(is_good(leave(damaged)), is_variant(places, bit / 8)) << "parsed " << parsed << ", byte " << bit / 8;
    }
  }
}

TEST(Rewrite, WithoutTheOptionNothingIsCheckedOrMended) {
  Switch device(rewriting(3), {.ports = 4});
  Frame sent = rdma_write(false, 20);
  const std::optional<Frame> left = through(device, sent);
  ASSERT_TRUE(left);
  EXPECT_FALSE(is_good(*left));
  EXPECT_TRUE(std::equal(sent.end() - 4, sent.end(), left->end() - 4));
  flip(sent, 8 * sent.size() - 1);
  EXPECT_TRUE(through(device, sent));
}

TEST(Rewrite, PacketsThatAreNotRoceAreLeftAlone) {
  Switch device(rewriting(1), {.ports = 4, .icrc = true});
  for (const bool v6 : {false, true}) {
    Frame sent = rdma_write(v6, 20);
    const std::size_t udp = places_in(sent).value().udp;
    sent[udp + 3] ^= std::byte{1};
    const std::optional<Frame> left = through(device, sent);
    ASSERT_TRUE(left);
    EXPECT_TRUE(std::equal(sent.begin() + static_cast<std::ptrdiff_t>(udp) + 2, sent.end(),
                           left->begin() + static_cast<std::ptrdiff_t>(udp) + 2));
  }
  const Frame whole = rdma_write(false, 0);
  for (std::size_t bytes = 0; bytes < 42; ++bytes) {  // it could be anything
    EXPECT_FALSE(has_wrong_icrc(std::span(whole).first(bytes))) << bytes;
  }
}

// What says that it is shorter than RoCEv2's headers, or longer than its frame, has no ICRC that could be right.
TEST(Rewrite, ADatagramToRocesPortWithoutRoomForAnIcrcIsWrong) {
  const Frame whole = rdma_write(false, 0);
  for (std::size_t bytes = 42; bytes < whole.size(); ++bytes) {
    EXPECT_TRUE(has_wrong_icrc(std::span(whole).first(bytes))) << bytes;
  }
  for (std::size_t length = 0; length < 0x200; ++length) {
    Frame lying = whole;
    lying[16] = static_cast<std::byte>(length >> 8);
    lying[17] = static_cast<std::byte>(length);
    EXPECT_EQ(has_wrong_icrc(lying), length != whole.size() - 14) << length;
  }
  Frame fragment = whole;
  fragment[20] = std::byte{0x20};  // more of them follow
  fragment[16] = std::byte{0x01};
  EXPECT_FALSE(has_wrong_icrc(fragment));
}

// RFC 3168: of a transport that is capable, 01 and 10, a congested queue makes 11; 00 stays.
TEST(Congestion, MarksWhatCanBeMarked) {
  for (const bool v6 : {false, true}) {
    for (const unsigned ecn : {0U, 1U, 2U, 3U}) {
      Frame frame = rdma_write(v6, 20, 0, ecn);
      ASSERT_TRUE(is_good(frame));
      mark_congestion(frame);
      const unsigned now = v6 ? at(frame, 15) >> 4 & 3 : at(frame, 15) & 3;
      EXPECT_EQ(now, ecn == 0 ? 0U : 3U);
      Frame expected = rdma_write(v6, 20, 0, ecn == 0 ? 0U : 3U);
      if (!v6) {  // one's complement has two zeros
        EXPECT_EQ(sum_of_ipv4_header(frame), 0xffffU) << ecn;
        std::copy_n(frame.begin() + 24, 2, expected.begin() + 24);
      }
      EXPECT_EQ(frame, expected) << "IPv" << (v6 ? 6 : 4) << ", " << ecn;
      EXPECT_TRUE(is_good(frame));  // the ICRC does not cover it
    }
  }
}

TEST(Congestion, TheChecksumStaysRightForEveryHeader) {
  Frame frame = rdma_write(false, 0);
  for (unsigned id = 0; id < 0x10000; ++id) {
    Frame one(frame.begin(), frame.begin() + 34);
    one[15] = std::byte{2};
    one[18] = static_cast<std::byte>(id >> 8);
    one[19] = static_cast<std::byte>(id);
    one[24] = one[25] = std::byte{0};
    const unsigned sum = ~sum_of_ipv4_header(one) & 0xffff;
    one[24] = static_cast<std::byte>(sum >> 8);
    one[25] = static_cast<std::byte>(sum);
    mark_congestion(one);
    ASSERT_EQ(sum_of_ipv4_header(one), 0xffffU) << id;
    ASSERT_EQ(at(one, 15), 3U);
  }
}

TEST(Congestion, APacketThatFindsAFullQueueIsMarkedAndOthersAreNot) {
  const Frame sent = rdma_write(false, 20, 0, 2);
  Switch device(rewriting(3), {.ports = 4, .ecn_bytes = 2 * sent.size(), .icrc = true});
  for (int i = 0; i < 4; ++i) {
    device.receive(1, sent);
  }
  ASSERT_TRUE(device.run());
  std::vector<unsigned> marks;
  while (const std::optional<Departure> departed = device.departed()) {
    const Frame left(departed->bytes.begin(), departed->bytes.end());
    EXPECT_TRUE(is_good(left));
    EXPECT_EQ(sum_of_ipv4_header(left), 0xffffU);
    marks.push_back(at(left, 15) & 3);
  }
  EXPECT_EQ(marks, (std::vector<unsigned>{2, 2, 3, 3}));
}

}  // namespace
}  // namespace sidelatch::p4
