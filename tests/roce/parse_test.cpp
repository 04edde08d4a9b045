// Valid packets are parsed to their original values; all others are refused with a reason.
#include "tests/roce/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

namespace sidelatch::roce {
namespace {

constexpr std::size_t kIp = 14;    // offsets in an Ethernet frame
constexpr std::size_t kUdp4 = 34;  // over IPv4
constexpr std::size_t kBth4 = 42;

Packet parsed(std::span<const std::byte> frame) {
  const auto result = parse_frame(frame);
  if (const auto* const refusal = std::get_if<Refusal>(&result)) {
    ADD_FAILURE() << text(*refusal);
    return {};
  }
  return std::get<Packet>(result);
}

std::optional<Refusal> refusal_of(const Bytes& frame, IcrcCheck check = IcrcCheck::yes) {
  // Exactly as many bytes: a truncated vector has room left, where AddressSanitizer may miss a byte too many.
  const std::unique_ptr<std::byte[]> exact(new std::byte[frame.size()]);
  std::copy(frame.begin(), frame.end(), exact.get());
  const auto result = parse_frame({exact.get(), frame.size()}, check);
  const auto* const refusal = std::get_if<Refusal>(&result);
  return refusal != nullptr ? std::optional(*refusal) : std::nullopt;
}

Bytes frame_of(int version, Opcode opcode, std::size_t payload_bytes) {
  const Bytes payload = payload_of(payload_bytes);
  return built(sample(version, opcode, payload));
}

// Corrects the checksum, so that it does not cause a refusal.
void mend_ipv4_checksum(Bytes& frame) {
  const std::uint16_t checksum = ipv4_checksum(frame.data() + kIp);
  frame[kIp + 10] = static_cast<std::byte>(checksum >> 8);
  frame[kIp + 11] = static_cast<std::byte>(checksum & 0xff);
}

TEST(Parse, FieldsComeOutAsTheyWentIn) {
  for (const int version : {4, 6}) {
    for (const Opcode opcode : all_opcodes()) {
      SCOPED_TRACE(name(opcode));
      const Bytes payload = payload_of(some_length(opcode));
      const Packet sent = sample(version, opcode, payload);
      const Bytes frame = built(sent);
      const Packet packet = parsed(frame);
      const OpcodeTraits traits = traits_of(opcode).value();
      EXPECT_EQ(packet.ethernet->destination, sent.ethernet->destination);
      EXPECT_EQ(packet.ethernet->source, sent.ethernet->source);
      EXPECT_EQ(packet.udp.source_port, sent.udp.source_port);
      EXPECT_EQ(packet.bth.solicited_event, sent.bth.solicited_event);
      EXPECT_EQ(packet.bth.migration, sent.bth.migration);
      EXPECT_EQ(packet.bth.pad_count, (4 - payload.size() % 4) % 4);
      EXPECT_EQ(packet.bth.p_key, sent.bth.p_key);
      EXPECT_EQ(packet.bth.resv8a, sent.bth.resv8a);
      EXPECT_EQ(packet.bth.destination_qp, sent.bth.destination_qp);
      EXPECT_EQ(packet.bth.ack_request, sent.bth.ack_request);
      EXPECT_EQ(packet.bth.psn, sent.bth.psn);
      EXPECT_EQ(packet.deth == sent.deth, traits.deth);
      EXPECT_EQ(packet.reth == sent.reth, traits.reth);
      EXPECT_EQ(packet.atomic == sent.atomic, traits.atomic_eth);
      EXPECT_EQ(packet.aeth == sent.aeth, traits.aeth);
      EXPECT_EQ(packet.atomic_ack == sent.atomic_ack, traits.atomic_ack_eth);
      EXPECT_EQ(packet.immediate == sent.immediate, traits.immediate);
      EXPECT_EQ(packet.ieth == sent.ieth, traits.ieth);
      EXPECT_EQ(to_hex(packet.payload), to_hex(payload));
      EXPECT_TRUE(packet.payload.empty() || packet.payload.data() == frame.data() + payload_offset(packet))
          << "the payload was copied";
      if (version == 4) {
        EXPECT_EQ(std::get<Ipv4>(packet.ip).source, std::get<Ipv4>(sent.ip).source);
        EXPECT_EQ(std::get<Ipv4>(packet.ip).destination, std::get<Ipv4>(sent.ip).destination);
      } else {
        EXPECT_EQ(std::get<Ipv6>(packet.ip).source, std::get<Ipv6>(sent.ip).source);
        EXPECT_EQ(std::get<Ipv6>(packet.ip).destination, std::get<Ipv6>(sent.ip).destination);
      }
      EXPECT_EQ(to_hex(built(packet)), to_hex(frame));
    }
  }
}

TEST(Parse, ADatagramIsAFrameWithoutItsLink) {
  for (const int version : {4, 6}) {
    const Bytes frame = frame_of(version, Opcode::write_only_with_immediate, 33);
    const Bytes datagram(frame.begin() + kIp, frame.end());
    const auto result = parse_datagram(datagram);
    ASSERT_TRUE(std::holds_alternative<Packet>(result));
    EXPECT_FALSE(std::get<Packet>(result).ethernet);
    EXPECT_EQ(built(std::get<Packet>(result)), datagram);
  }
  EXPECT_EQ(std::get<Refusal>(parse_datagram({})), Refusal::truncated_ip);
  EXPECT_EQ(std::get<Refusal>(parse_datagram(from_hex("55"))), Refusal::ip_version);
}

TEST(Parse, NoBeginningIsAPacket) {
  for (const int version : {4, 6}) {
    for (const Opcode opcode : all_opcodes()) {
      const Bytes frame = frame_of(version, opcode, some_length(opcode));
      for (std::size_t length = 0; length < frame.size(); ++length) {
        const Bytes part(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length));
        ASSERT_NE(refusal_of(part, IcrcCheck::no), std::nullopt) << name(opcode) << " " << length;
      }
    }
  }
}

TEST(Parse, WhatTheLinkAddsBehindThePacketIsNoPartOfIt) {
  const Bytes frame = frame_of(4, Opcode::send_only, 0);
  Bytes padded = frame;
  padded.resize(60);  // the shortest Ethernet frame
  const Packet packet = parsed(padded);
  EXPECT_TRUE(packet.payload.empty());
  EXPECT_EQ(built(packet), frame);
}

TEST(Parse, PadBytesAreKept) {
  const Bytes payload = payload_of(5);
  Packet packet = sample(4, Opcode::send_only, payload);
  packet.pad = {std::byte{1}, std::byte{2}, std::byte{3}};
  const Bytes frame = built(packet);
  EXPECT_EQ(parsed(frame).pad, packet.pad);
  EXPECT_EQ(built(parsed(frame)), frame);
}

TEST(Parse, BothZerosAreAnIpv4Checksum) {
  Bytes frame = frame_of(4, Opcode::send_only, 8);
  // This identification makes the sum of all other words ffff, so that the checksum is 0.
  frame[kIp + 4] = frame[kIp + 5] = std::byte{0};
  const std::uint16_t without = ipv4_checksum(frame.data() + kIp);
  frame[kIp + 4] = static_cast<std::byte>(without >> 8);
  frame[kIp + 5] = static_cast<std::byte>(without & 0xff);
  for (const std::byte zero : {std::byte{0}, std::byte{0xff}}) {
    frame[kIp + 10] = frame[kIp + 11] = zero;
    EXPECT_EQ(refusal_of(frame, IcrcCheck::no), std::nullopt);
  }
  frame[kIp + 11] = std::byte{0xfe};
  EXPECT_EQ(refusal_of(frame, IcrcCheck::no), Refusal::ipv4_checksum);
}

// Only fields that routers may change, and those that IP does not protect by a checksum of its own.
TEST(Parse, NoChangedBitGoesUnnoticedButThoseThatMayChange) {
  for (const int version : {4, 6}) {
    const std::size_t udp = kIp + (version == 4 ? 20U : 40U);
    std::set<std::size_t> expected;  // bytes
    for (std::size_t offset = 0; offset < 12; ++offset) {
      expected.insert(offset);  // the addresses of Ethernet
    }
    expected.insert({udp + 6, udp + 7});  // UDP's checksum
    expected.insert(udp + 8 + 4);         // resv8a
    if (version == 6) {
      expected.insert({kIp, kIp + 1, kIp + 2, kIp + 3});  // traffic class and flow label
      expected.insert(kIp + 7);                           // hop limit
    }
    const Bytes frame = frame_of(version, Opcode::write_only_with_immediate, 70);
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      Bytes changed = frame;
      changed[bit / 8] ^= std::byte{static_cast<unsigned char>(0x80U >> bit % 8)};
      const bool is_version = version == 6 && bit / 8 == kIp && bit % 8 < 4;
      EXPECT_EQ(refusal_of(changed) == std::nullopt, expected.contains(bit / 8) && !is_version) << bit / 8;
    }
  }
}

struct Refused {
  const char* name;
  Refusal refusal;
  int version;
  Opcode opcode;
  std::size_t payload_bytes;
  std::function<void(Bytes&)> change;
};

void PrintTo(const Refused& refused, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << refused.name;
}

class ParseRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(ParseRefuses, WithThatReason) {
  const Refused& refused = GetParam();
  Bytes frame = frame_of(refused.version, refused.opcode, refused.payload_bytes);
  ASSERT_EQ(refusal_of(frame), std::nullopt);
  refused.change(frame);
  EXPECT_EQ(refusal_of(frame), refused.refusal) << text(refusal_of(frame).value_or(refused.refusal));
}

std::function<void(Bytes&)> set(std::size_t offset, unsigned value) {
  return [=](Bytes& frame) { frame[offset] = static_cast<std::byte>(value); };
}

// Changes a byte of the IPv4 header and corrects its checksum.
std::function<void(Bytes&)> set_ip(std::size_t offset, unsigned value) {
  return [=](Bytes& frame) {
    frame[kIp + offset] = static_cast<std::byte>(value);
    mend_ipv4_checksum(frame);
  };
}

std::function<void(Bytes&)> cut_to(std::size_t length) {
  return [=](Bytes& frame) { frame.resize(length); };
}

// Removes `bytes` from an IPv4 packet before its ICRC and corrects all lengths and checksums.
std::function<void(Bytes&)> take_out(std::size_t bytes) {
  return [=](Bytes& frame) {
    frame.erase(frame.end() - 4 - static_cast<std::ptrdiff_t>(bytes), frame.end() - 4);
    const std::size_t ip = frame.size() - kIp;
    const std::size_t udp = frame.size() - kUdp4;
    frame[kIp + 2] = static_cast<std::byte>(ip >> 8);
    frame[kIp + 3] = static_cast<std::byte>(ip & 0xff);
    frame[kUdp4 + 4] = static_cast<std::byte>(udp >> 8);
    frame[kUdp4 + 5] = static_cast<std::byte>(udp & 0xff);
    mend_ipv4_checksum(frame);
  };
}

constexpr Opcode kWrite = Opcode::write_only;

INSTANTIATE_TEST_SUITE_P(
    Parse, ParseRefuses,
    ::testing::Values(
        Refused{"ShortEthernet", Refusal::truncated_ethernet, 4, kWrite, 8, cut_to(13)},
        Refused{"NoIpHeader", Refusal::truncated_ip, 4, kWrite, 8, cut_to(14)},
        Refused{"ShortIpv4", Refusal::truncated_ip, 4, kWrite, 8, cut_to(14 + 19)},
        Refused{"ShortIpv6", Refusal::truncated_ip, 6, kWrite, 8, cut_to(14 + 39)},
        Refused{"Tagged", Refusal::not_ip, 4, kWrite, 8, set(12, 0x81)},
        Refused{"Arp", Refusal::not_ip, 4, kWrite, 8, set(13, 0x06)},
        Refused{"Version5", Refusal::ip_version, 4, kWrite, 8, set_ip(0, 0x55)},
        Refused{"Version6BehindTypeIpv4", Refusal::ip_version, 4, kWrite, 8, set_ip(0, 0x65)},
        Refused{"Version4BehindTypeIpv6", Refusal::ip_version, 6, kWrite, 8, set(kIp, 0x45)},
        Refused{"IpOptions", Refusal::ipv4_header_length, 4, kWrite, 8, set_ip(0, 0x46)},
        Refused{"HeaderOfFourWords", Refusal::ipv4_header_length, 4, kWrite, 8, set_ip(0, 0x44)},
        Refused{"IpChecksum", Refusal::ipv4_checksum, 4, kWrite, 8, set(kIp + 11, 0x01)},
        Refused{"IpLengthBeyondTheEnd", Refusal::ip_length, 4, kWrite, 8, set_ip(2, 0x40)},
        Refused{"IpLengthWithoutUdp", Refusal::ip_length, 4, kWrite, 8, set_ip(3, 27)},
        Refused{"Ipv6LengthBeyondTheEnd", Refusal::ip_length, 6, kWrite, 8, set(kIp + 4, 0x40)},
        Refused{"Ipv6LengthWithoutUdp", Refusal::ip_length, 6, kWrite, 8, set(kIp + 5, 7)},
        Refused{"CutOff", Refusal::ip_length, 4, kWrite, 8, cut_to(80)},
        Refused{"FirstFragment", Refusal::ip_fragment, 4, kWrite, 8, set_ip(6, 0x20)},
        Refused{"LaterFragment", Refusal::ip_fragment, 4, kWrite, 8, set_ip(7, 1)},
        Refused{"Ipv6Fragment", Refusal::ip_fragment, 6, kWrite, 8, set(kIp + 6, 44)},
        Refused{"Tcp", Refusal::not_udp, 4, kWrite, 8, set_ip(9, 6)},
        Refused{"Ipv6HopByHopOptions", Refusal::not_udp, 6, kWrite, 8, set(kIp + 6, 0)},
        Refused{"OtherPort", Refusal::udp_port, 4, kWrite, 8, set(kUdp4 + 3, 0xb8)},
        Refused{"UdpLonger", Refusal::udp_length, 4, kWrite, 8, set(kUdp4 + 5, 0xff)},
        Refused{"UdpShorter", Refusal::udp_length, 4, kWrite, 8, set(kUdp4 + 5, 44)},
        Refused{"NoRoomForIcrc", Refusal::truncated_transport, 4, Opcode::send_only, 0, take_out(4)},
        Refused{"TransportVersion", Refusal::transport_version, 4, kWrite, 8, set(kBth4 + 1, 0x41)},
        Refused{"ReservedOpcode", Refusal::unknown_opcode, 4, kWrite, 8, set(kBth4, 0x15)},
        Refused{"ReliableDatagram", Refusal::unknown_opcode, 4, kWrite, 8, set(kBth4, 0x4a)},
        Refused{"AReservedOpcode", Refusal::unknown_opcode, 4, kWrite, 8, set(kBth4, 0x82)},
        Refused{"ShortReth", Refusal::truncated_extension, 4, Opcode::read_request, 0, take_out(4)},
        Refused{"ShortAtomicEth", Refusal::truncated_extension, 4, Opcode::compare_swap, 0, take_out(4)},
        Refused{"HalfAWord", Refusal::unaligned_length, 4, kWrite, 8, take_out(2)},
        Refused{"PadWithoutBytes", Refusal::bad_pad, 4, kWrite, 0, set(kBth4 + 1, 0x10)},
        Refused{"PadWhereNoPayloadIs", Refusal::bad_pad, 4, Opcode::acknowledge, 0, set(kBth4 + 1, 0x30)},
        Refused{"PadOfAFirstPacket", Refusal::payload_not_path_mtu, 4, Opcode::send_first, 256, set(kBth4 + 1, 0x10)},
        Refused{"PayloadOfAReadRequest", Refusal::payload_not_allowed, 4, kWrite, 8, set(kBth4, 0x0c)},
        Refused{"LastWithoutPayload", Refusal::payload_missing, 4, Opcode::send_last, 4, take_out(4)},
        Refused{"ShortFirst", Refusal::payload_not_path_mtu, 4, Opcode::send_first, 256, take_out(4)},
        Refused{"Icrc", Refusal::icrc, 4, kWrite, 8, [](Bytes& frame) { frame.back() ^= std::byte{1}; }},
        Refused{"IcrcOverIpv6", Refusal::icrc, 6, kWrite, 8, [](Bytes& frame) { frame[80] ^= std::byte{1}; }}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Parse, APayloadAboveEveryPathMtuIsRefused) {
  // Built as two parts, 4096 bytes and 4 more, so that none of our checks is involved.
  Bytes frame = frame_of(6, Opcode::send_only, 4096);
  frame.insert(frame.end() - 4, 4, std::byte{0});
  const std::size_t udp = frame.size() - kIp - 40;
  for (const std::size_t offset : {kIp + 4, kIp + 40 + 4}) {
    frame[offset] = static_cast<std::byte>(udp >> 8);
    frame[offset + 1] = static_cast<std::byte>(udp & 0xff);
  }
  EXPECT_EQ(refusal_of(frame), Refusal::payload_too_long);
}

TEST(Parse, EveryRefusalHasATextOfItsOwn) {
  std::set<std::string_view> texts;
  for (std::size_t i = 0; i < kRefusals; ++i) {
    texts.insert(text(static_cast<Refusal>(i)));
  }
  EXPECT_EQ(texts.size(), kRefusals);
  EXPECT_FALSE(texts.contains("no refusal"));
  EXPECT_EQ(text(static_cast<Refusal>(kRefusals)), "no refusal");
}

}  // namespace
}  // namespace sidelatch::roce
