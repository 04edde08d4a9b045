// The bytes that the ICRC covers, and those that count as ones.
#include "roce/icrc.h"

#include "roce/crc32.h"
#include "tests/roce/samples.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>

namespace sidelatch::roce {
namespace {

constexpr std::size_t kIpv4 = 20 + 8 + 12;
constexpr std::size_t kIpv6 = 40 + 8 + 12;

std::uint32_t after(int ip_version, const Bytes& headers) {
  return ip_version == 4 ? icrc_after_ipv4(headers) : icrc_after_ipv6(headers);
}

// The header bits whose change goes unnoticed, as offset * 8 + bit, where bit 0 is the highest.
std::set<std::size_t> bits_that_do_not_count(int ip_version, std::size_t length) {
  std::set<std::size_t> bits;
  Bytes headers = payload_of(length);
  const std::uint32_t state = after(ip_version, headers);
  for (std::size_t bit = 0; bit < 8 * length; ++bit) {
    const std::byte mask{static_cast<unsigned char>(0x80U >> bit % 8)};
    headers[bit / 8] ^= mask;
    if (after(ip_version, headers) == state) {
      bits.insert(bit);
    }
    headers[bit / 8] ^= mask;
  }
  return bits;
}

void add(std::set<std::size_t>& bits, std::size_t first_bit, std::size_t number) {
  for (std::size_t i = 0; i < number; ++i) {
    bits.insert(first_bit + i);
  }
}

TEST(Icrc, Ipv4FieldsThatRoutersChangeDoNotCount) {
  std::set<std::size_t> expected;
  add(expected, 1 * 8, 8);             // type of service
  add(expected, 8 * 8, 8);             // time to live
  add(expected, 10 * 8, 16);           // header checksum
  add(expected, (20 + 6) * 8, 16);     // UDP checksum
  add(expected, (20 + 8 + 4) * 8, 8);  // resv8a
  EXPECT_EQ(bits_that_do_not_count(4, kIpv4), expected);
}

TEST(Icrc, Ipv6FieldsThatRoutersChangeDoNotCount) {
  std::set<std::size_t> expected;
  add(expected, 4, 8 + 20);            // traffic class, flow label
  add(expected, 7 * 8, 8);             // hop limit
  add(expected, (40 + 6) * 8, 16);     // UDP checksum
  add(expected, (40 + 8 + 4) * 8, 8);  // resv8a
  EXPECT_EQ(bits_that_do_not_count(6, kIpv6), expected);
}

TEST(Icrc, BeginsWithEightBytesOfOnes) {
  // Linux's rdma_rxe starts with this instead, without inverting it.
  const Bytes ones(8, std::byte{0xff});
  EXPECT_EQ(crc32_extend(kCrc32Start, ones), 0xdebb20e3U);
  // The fields that do not count are treated as ones: headers with ones there are covered unchanged.
  Bytes headers = payload_of(kIpv4);
  for (const std::size_t offset : std::initializer_list<std::size_t>{1, 8, 10, 11, 26, 27, 32}) {
    headers[offset] = std::byte{0xff};
  }
  EXPECT_EQ(icrc_after_ipv4(headers), crc32_extend(0xdebb20e3, headers));
  headers = payload_of(kIpv6);
  headers[0] |= std::byte{0x0f};
  for (const std::size_t offset : std::initializer_list<std::size_t>{1, 2, 3, 7, 46, 47, 52}) {
    headers[offset] = std::byte{0xff};
  }
  EXPECT_EQ(icrc_after_ipv6(headers), crc32_extend(0xdebb20e3, headers));
}

TEST(Icrc, ExtensionHeadersAreCoveredAsTheyAre) {
  const std::size_t most = kMostExtensionBytes;
  for (std::size_t extensions = 0; extensions <= most; extensions += 4) {
    const Bytes headers = payload_of(kIpv6 + extensions);
    const auto first = std::span(headers).first(kIpv4);
    EXPECT_EQ(icrc_after_ipv4(std::span(headers).first(kIpv4 + extensions)),
              crc32_extend(icrc_after_ipv4(first), std::span(headers).subspan(kIpv4, extensions)));
    EXPECT_EQ(icrc_after_ipv6(headers),
              crc32_extend(icrc_after_ipv6(std::span(headers).first(kIpv6)), std::span(headers).subspan(kIpv6)));
  }
}

TEST(Icrc, TravelsLowestByteFirst) {
  Bytes bytes(4);
  store_icrc(bytes.data(), 0x01020304);
  EXPECT_EQ(to_hex(bytes), "04030201");
  EXPECT_EQ(load_icrc(bytes.data()), 0x01020304U);
}

}  // namespace
}  // namespace sidelatch::roce
