// Each header against bytes written by hand, field by field from the figures of the specification and the RFCs.
#include "roce/headers.h"

#include "tests/roce/samples.h"

#include <gtest/gtest.h>

namespace sidelatch::roce {
namespace {

// Parses the bytes and checks that the result is written as the same bytes.
template <class Header>
Header read_and_written(std::string_view hex) {
  const Bytes bytes = from_hex(hex);
  EXPECT_EQ(bytes.size(), Header::kBytes);
  const Header header = Header::read(bytes.data());
  Bytes written(Header::kBytes, std::byte{0xee});
  header.write(written.data());
  EXPECT_EQ(to_hex(written), to_hex(bytes));
  return header;
}

TEST(Headers, Ethernet) {
  const auto header = read_and_written<Ethernet>("010203040506 0a0b0c0d0e0f 86dd");
  EXPECT_EQ(header.destination, (MacAddress{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(header.source, (MacAddress{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(header.ether_type, kEtherTypeIpv6);
}

TEST(Headers, Ipv4) {
  const auto header = read_and_written<Ipv4>("45 b8 0123 4567 5abc 40 11 89ab 0a010203 c0a80405");
  EXPECT_EQ(header.version_and_length, 0x45);
  EXPECT_EQ(header.type_of_service, 0xb8);
  EXPECT_EQ(header.total_length, 0x0123);
  EXPECT_EQ(header.identification, 0x4567);
  EXPECT_EQ(header.flags, Ipv4::kDontFragment);
  EXPECT_EQ(header.fragment_offset, 0x1abc);
  EXPECT_EQ(header.time_to_live, 0x40);
  EXPECT_EQ(header.protocol, kProtocolUdp);
  EXPECT_EQ(header.checksum, 0x89ab);
  EXPECT_EQ(header.source, (Ipv4Address{10, 1, 2, 3}));
  EXPECT_EQ(header.destination, (Ipv4Address{192, 168, 4, 5}));
}

// Worked out by hand: 4500 + 0073 + 0000 + 4000 + 4011 + c0a8 + 0001 + c0a8 + 00c7 = 2479c; 479c + 2 = 479e; ~ is b861.
TEST(Headers, Ipv4ChecksumIsTheOnesComplementSum) {
  const Bytes header = from_hex("4500 0073 0000 4000 4011 b861 c0a80001 c0a800c7");
  EXPECT_EQ(ipv4_checksum(header.data()), 0xb861);
  // The contents of the checksum's own field do not count.
  EXPECT_EQ(ipv4_checksum(from_hex("4500 0073 0000 4000 4011 ffff c0a80001 c0a800c7").data()), 0xb861);
  // Nine words of ffff sum to 8fff7; fff7 + 8 = ffff; ~ is 0.
  EXPECT_EQ(ipv4_checksum(from_hex("ffffffffffffffffffff 1234 ffffffffffffffff").data()), 0);
}

TEST(Headers, Ipv6) {
  const auto header =
      read_and_written<Ipv6>("6 5a 9abcd 0123 11 3d 20010db8000000000000000000000001 fd001122334455667788990011223344");
  EXPECT_EQ(header.version, 6);
  EXPECT_EQ(header.traffic_class, 0x5a);
  EXPECT_EQ(header.flow_label, 0x9abcdU);
  EXPECT_EQ(header.payload_length, 0x0123);
  EXPECT_EQ(header.next_header, kProtocolUdp);
  EXPECT_EQ(header.hop_limit, 0x3d);
  EXPECT_EQ(header.source, (Ipv6Address{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(header.destination,
            (Ipv6Address{0xfd, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0, 0x11, 0x22, 0x33, 0x44}));
}

TEST(Headers, Udp) {
  const auto header = read_and_written<Udp>("c0de 12b7 0102 fedc");
  EXPECT_EQ(header.source_port, 0xc0de);
  EXPECT_EQ(header.destination_port, 4791);
  EXPECT_EQ(header.length, 0x0102);
  EXPECT_EQ(header.checksum, 0xfedc);
}

TEST(Headers, Bth) {
  // Opcode 0x0a; SE 1, M 0, PadCnt 2, TVer 3; P_Key; resv8a; DestQP; A 1, resv7 0x55; PSN.
  const auto header = read_and_written<Bth>("0a a3 8001 c5 abcdef d5 fedcba");
  EXPECT_EQ(header.opcode, Opcode::write_only);
  EXPECT_TRUE(header.solicited_event);
  EXPECT_FALSE(header.migration);
  EXPECT_EQ(header.pad_count, 2);
  EXPECT_EQ(header.transport_version, 3);
  EXPECT_EQ(header.p_key, 0x8001);
  EXPECT_EQ(header.resv8a, 0xc5);
  EXPECT_EQ(header.destination_qp, 0xabcdefU);
  EXPECT_TRUE(header.ack_request);
  EXPECT_EQ(header.resv7, 0x55);
  EXPECT_EQ(header.psn, Psn(0xfedcba));
  // The opposite flags.
  const auto other = read_and_written<Bth>("64 40 ffff 00 000001 00 000000");
  EXPECT_EQ(other.opcode, Opcode::ud_send_only);
  EXPECT_FALSE(other.solicited_event);
  EXPECT_TRUE(other.migration);
  EXPECT_FALSE(other.ack_request);
}

TEST(Headers, Deth) {
  const auto header = read_and_written<Deth>("80010203 07 0a0b0c");
  EXPECT_EQ(header.q_key, 0x80010203U);
  EXPECT_EQ(header.reserved, 7);
  EXPECT_EQ(header.source_qp, 0x0a0b0cU);
}

TEST(Headers, Reth) {
  const auto header = read_and_written<Reth>("1122334455667788 99aabbcc 0d0e0f10");
  EXPECT_EQ(header.virtual_address, 0x1122334455667788U);
  EXPECT_EQ(header.r_key, 0x99aabbccU);
  EXPECT_EQ(header.dma_length, 0x0d0e0f10U);
}

TEST(Headers, AtomicEth) {
  const auto header = read_and_written<AtomicEth>("0102030405060708 090a0b0c 1112131415161718 2122232425262728");
  EXPECT_EQ(header.virtual_address, 0x0102030405060708U);
  EXPECT_EQ(header.r_key, 0x090a0b0cU);
  EXPECT_EQ(header.swap_or_add, 0x1112131415161718U);
  EXPECT_EQ(header.compare, 0x2122232425262728U);
}

TEST(Headers, Aeth) {
  const auto header = read_and_written<Aeth>("62 314159");
  EXPECT_EQ(header.syndrome.nak_code(), NakCode::remote_access_error);
  EXPECT_EQ(header.msn, 0x314159U);
}

TEST(Headers, AtomicAckEth) {
  EXPECT_EQ(read_and_written<AtomicAckEth>("a1a2a3a4a5a6a7a8").original, 0xa1a2a3a4a5a6a7a8U);
}

TEST(Headers, ImmDt) { EXPECT_EQ(read_and_written<ImmDt>("c0ffee01").data, 0xc0ffee01U); }

TEST(Headers, Ieth) { EXPECT_EQ(read_and_written<Ieth>("deadbe0f").r_key, 0xdeadbe0fU); }

}  // namespace
}  // namespace sidelatch::roce
