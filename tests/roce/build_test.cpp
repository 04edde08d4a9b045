// Packets that are built, and packets that are refused.
#include "tests/roce/samples.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::roce {
namespace {

std::optional<Refusal> refusal_of(const Packet& packet, std::size_t room = 10'000,
                                  std::optional<PathMtu> mtu = std::nullopt) {
  Bytes out(room, std::byte{0xee});
  const auto result = build(packet, out, mtu);
  const auto* const refusal = std::get_if<Refusal>(&result);
  if (refusal != nullptr) {
    EXPECT_EQ(out, Bytes(room, std::byte{0xee})) << "written to, though refused";
    return *refusal;
  }
  return std::nullopt;
}

// A WRITE of 5 bytes, with everything but the ICRC written by hand.
TEST(Build, AWriteIsAsTheFiguresHaveIt) {
  const Bytes payload = from_hex("68656c6c6f");
  Packet packet;
  packet.ip = Ipv4{.identification = 0, .time_to_live = 64, .source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}};
  packet.udp.source_port = 0xc000;
  packet.bth.opcode = Opcode::write_only;
  packet.bth.destination_qp = 0x11;
  packet.bth.ack_request = true;
  packet.bth.psn = Psn(0x123456);
  packet.reth = {.virtual_address = 0x7f0011223344, .r_key = 0x1337, .dma_length = 5};
  packet.payload = payload;
  const Bytes bytes = built(packet);
  // 20 + 8 + 12 + 16 + 5 + 3 + 4 = 68 bytes; UDP 48. The checksum: 4500 + 0044 + 4000 + 4011 + 0a00 + 0001 + 0a00 +
  // 0002 = d958; ~ is 26a7. MigReq is set and the pad count 3: 0x70.
  EXPECT_EQ(to_hex(std::span(bytes).first(64)), to_hex(from_hex("45000044 00004000 401126a7 0a000001 0a000002"
                                                                "c00012b7 00300000"
                                                                "0a70ffff 00000011 80123456"
                                                                "00007f0011223344 00001337 00000005"
                                                                "68656c6c6f 000000")));
  EXPECT_EQ(bytes.size(), 68U);
}

TEST(Build, AllButTheOpcodesOwnHeadersIsLeftOut) {
  for (const int version : {4, 6}) {
    for (const Opcode opcode : all_opcodes()) {
      const Bytes payload = payload_of(some_length(opcode));
      const Packet packet = sample(version, opcode, payload);
      const std::size_t headers = 14 + (version == 4 ? 20U : 40U) + 8 + 12 + traits_of(opcode)->extension_bytes();
      EXPECT_EQ(payload_offset(packet), headers);
      EXPECT_EQ(encoded_bytes(packet), headers + (payload.size() + 3) / 4 * 4 + 4);
      EXPECT_FALSE(built(packet).empty());
    }
  }
}

TEST(Build, TakesTheRoomItNeedsAndNoMore) {
  for (const Opcode opcode : all_opcodes()) {
    const Bytes payload = payload_of(some_length(opcode));
    const Packet packet = sample(4, opcode, payload);
    const std::size_t bytes = encoded_bytes(packet);
    for (std::size_t room = 0; room < bytes; ++room) {
      ASSERT_EQ(refusal_of(packet, room), Refusal::buffer_too_small) << name(opcode) << " " << room;
    }
    Bytes out(bytes + 8, std::byte{0xee});
    EXPECT_EQ(std::get<std::size_t>(build(packet, out)), bytes);
    EXPECT_EQ(to_hex(std::span(out).subspan(bytes)), "eeeeeeeeeeeeeeee");
  }
}

TEST(Build, APayloadInItsPlaceStaysThere) {
  const Bytes payload = payload_of(777);
  Packet packet = sample(6, Opcode::read_response_last, payload);
  const Bytes expected = built(packet);
  Bytes out(expected.size());
  const auto place = std::span(out).subspan(payload_offset(packet), payload.size());
  std::copy(payload.begin(), payload.end(), place.begin());
  packet.payload = place;
  EXPECT_EQ(std::get<std::size_t>(build(packet, out)), expected.size());
  EXPECT_EQ(out, expected);
}

TEST(Build, WhatFollowsFromTheRestIsSet) {
  const Bytes payload = payload_of(6);
  const Packet packet = sample(4, Opcode::write_only, payload);
  Packet other = packet;
  other.ethernet->ether_type = 0x1234;
  auto& ip = std::get<Ipv4>(other.ip);
  ip.version_and_length = 0x99;
  ip.total_length = 7;
  ip.protocol = 6;
  ip.checksum = 0xabcd;
  other.udp.destination_port = 53;
  other.udp.length = 3;
  other.bth.pad_count = 1;
  other.bth.transport_version = 9;
  EXPECT_EQ(built(other), built(packet));
  const Packet sixth = sample(6, Opcode::write_only, payload);
  other = sixth;
  std::get<Ipv6>(other.ip).version = 4;
  std::get<Ipv6>(other.ip).payload_length = 1;
  std::get<Ipv6>(other.ip).next_header = 59;
  EXPECT_EQ(built(other), built(sixth));
}

TEST(Build, RefusesValuesThatDoNotFitTheirFields) {
  const Bytes payload = payload_of(8);
  const auto changed = [&](Opcode opcode, int version, auto change) {
    Packet packet = sample(version, opcode, std::span(payload).first(some_length(opcode)));
    EXPECT_EQ(refusal_of(packet), std::nullopt);
    change(packet);
    return refusal_of(packet);
  };
  EXPECT_EQ(changed(Opcode::send_only, 4, [](Packet& p) { p.bth.destination_qp = 1 << 24; }), Refusal::field_too_large);
  EXPECT_EQ(changed(Opcode::send_only, 4, [](Packet& p) { p.bth.resv7 = 0x80; }), Refusal::field_too_large);
  EXPECT_EQ(changed(Opcode::acknowledge, 4, [](Packet& p) { p.aeth.msn = 1 << 24; }), Refusal::field_too_large);
  EXPECT_EQ(changed(Opcode::ud_send_only, 4, [](Packet& p) { p.deth.source_qp = 1 << 24; }), Refusal::field_too_large);
  EXPECT_EQ(changed(Opcode::send_only, 6, [](Packet& p) { std::get<Ipv6>(p.ip).flow_label = 1 << 20; }),
            Refusal::field_too_large);
  EXPECT_EQ(changed(Opcode::send_only, 4, [](Packet& p) { std::get<Ipv4>(p.ip).flags = 8; }), Refusal::field_too_large);
  EXPECT_EQ(changed(Opcode::send_only, 4, [](Packet& p) { std::get<Ipv4>(p.ip).flags = Ipv4::kMoreFragments; }),
            Refusal::ip_fragment);
  EXPECT_EQ(changed(Opcode::send_only, 4, [](Packet& p) { std::get<Ipv4>(p.ip).fragment_offset = 1; }),
            Refusal::ip_fragment);
  EXPECT_EQ(changed(Opcode::send_only, 4, [](Packet& p) { p.bth.opcode = static_cast<Opcode>(0x15); }),
            Refusal::unknown_opcode);
  // Headers that are not sent do not matter.
  EXPECT_EQ(changed(Opcode::send_only, 4, [](Packet& p) { p.aeth.msn = p.deth.source_qp = 1 << 24; }), std::nullopt);
}

TEST(Build, HoldsThePathMtu) {
  const Bytes payload = payload_of(5000);
  const auto refused = [&](Opcode opcode, std::size_t bytes, std::optional<PathMtu> mtu) {
    return refusal_of(sample(4, opcode, std::span(payload).first(bytes)), 10'000, mtu);
  };
  for (const PathMtu mtu : {PathMtu::b256, PathMtu::b512, PathMtu::b1024, PathMtu::b2048, PathMtu::b4096}) {
    const std::size_t bytes = bytes_of(mtu);
    for (const Opcode opcode :
         {Opcode::send_only, Opcode::write_last, Opcode::read_response_only, Opcode::ud_send_only}) {
      EXPECT_EQ(refused(opcode, bytes, mtu), std::nullopt);
      EXPECT_EQ(refused(opcode, 1, mtu), std::nullopt);
      EXPECT_EQ(refused(opcode, bytes + 1, mtu), Refusal::payload_too_long);
    }
    for (const Opcode opcode : {Opcode::send_first, Opcode::write_middle, Opcode::read_response_middle}) {
      EXPECT_EQ(refused(opcode, bytes, mtu), std::nullopt);
      EXPECT_EQ(refused(opcode, bytes, std::nullopt), std::nullopt);
      EXPECT_EQ(refused(opcode, bytes - 1, mtu), Refusal::payload_not_path_mtu);
      EXPECT_EQ(refused(opcode, bytes + 1, mtu), Refusal::payload_too_long);
    }
    EXPECT_EQ(refused(Opcode::write_last, 0, mtu), Refusal::payload_missing);
    EXPECT_EQ(refused(Opcode::write_only, 0, mtu), std::nullopt);
    EXPECT_EQ(refused(Opcode::acknowledge, 1, mtu), Refusal::payload_not_allowed);
    EXPECT_EQ(refused(Opcode::read_request, 4, mtu), Refusal::payload_not_allowed);
  }
  EXPECT_EQ(refused(Opcode::send_middle, 128, std::nullopt), Refusal::payload_not_path_mtu);
  EXPECT_EQ(refused(Opcode::send_middle, 768, std::nullopt), Refusal::payload_not_path_mtu);
  EXPECT_EQ(refused(Opcode::send_middle, 0, std::nullopt), Refusal::payload_not_path_mtu);
  EXPECT_EQ(refused(Opcode::send_only, 4097, std::nullopt), Refusal::payload_too_long);
}

}  // namespace
}  // namespace sidelatch::roce
