// Private data of the connection manager: it arrives as sent, and other data is refused.
#include "fabric/verbs/connection_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::HasSubstr;

constexpr Introduction kIntroduction{.mtu = IBV_MTU_2048, .ticket = 0x0123'4567'89ab'cdef};

std::string error_of(std::span<const std::byte> data) {
  try {
    static_cast<void>(decode_introduction(data));
  } catch (const ManagerError& error) {
    return error.what();
  }
  return "no error";
}

// Same bytes as in the header's comment, from which another implementation can be written.
TEST(PrivateData, BytesAreAsDocumented) {
  const std::vector<std::uint8_t> expected = {'S',  'L',  'c',  'm',  7,    0,    4,   0xef,
                                              0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
  const std::vector<std::byte> bytes = encode(kIntroduction);
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(std::to_integer<std::uint8_t>(bytes[i]), expected[i]) << i;
  }
}

TEST(PrivateData, ComesOutOfWhatTheConnectionManagerFillsUp) {
  std::vector<std::byte> bytes = encode(kIntroduction);
  bytes.resize(56);  // of RDMA_PS_TCP
  const Introduction out = decode_introduction(bytes);
  EXPECT_EQ(out.mtu, IBV_MTU_2048);
  EXPECT_EQ(out.ticket, kIntroduction.ticket);
}

TEST(PrivateData, WhatIsNoneIsNamed) {
  const auto changed = [](std::size_t offset, std::uint8_t value) {
    std::vector<std::byte> bytes = encode(kIntroduction);
    bytes[offset] = std::byte{value};
    return bytes;
  };
  EXPECT_THAT(error_of({}), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(error_of(changed(0, 'G')), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(error_of(changed(5, 1)), HasSubstr("version 263"));
  EXPECT_THAT(error_of(changed(6, 0)), HasSubstr("MTU 0"));
  EXPECT_THAT(error_of(changed(6, 6)), HasSubstr("MTU 6"));
  const std::vector<std::byte> bytes = encode(kIntroduction);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(error_of(std::span(bytes).first(length)), "no error") << length;
  }
}

TEST(PrivateData, ARefusalFitsAndIsPrintable) {
  std::vector<std::byte> bytes = encode_refusal("no\x1b[2J, thanks");
  bytes.resize(148);
  EXPECT_EQ(decode_refusal(bytes), "no?[2J, thanks");
  const std::vector<std::byte> longest = encode_refusal(std::string(1000, 'x'));
  EXPECT_EQ(longest.size(), 148U);
  EXPECT_EQ(decode_refusal(longest), std::string(142, 'x'));
  EXPECT_EQ(decode_refusal({}), "");
  EXPECT_EQ(decode_refusal(std::vector<std::byte>(148)), "");
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
