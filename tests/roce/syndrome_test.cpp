// AETH syndromes against tables copied from the specification.
#include "roce/syndrome.h"

#include <gtest/gtest.h>

#include <array>

namespace sidelatch::roce {
namespace {

using std::chrono::microseconds;

// Encoded credits, code 0 to 30 (9.7).
constexpr std::array<std::uint32_t, 31> kCredits = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                                                    48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                                                    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

// The RNR NAK timer, code 0 to 31, in microseconds (9.7).
constexpr std::array<int, 32> kDelays = {
    655360, 10,   20,   30,   40,    60,    80,    120,   160,   240,   320,   480,    640,    960,    1280,   1920,
    2560,   3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

TEST(Syndrome, CreditsAreThoseOfTheTable) {
  for (std::uint8_t code = 0; code < kCredits.size(); ++code) {
    EXPECT_EQ(Syndrome::ack(code).credits(), kCredits[code]) << int{code};
    EXPECT_EQ(Syndrome::ack(code).byte(), code);
  }
  EXPECT_EQ(Syndrome::ack().byte(), 0x1f);
  EXPECT_EQ(Syndrome::ack().credits(), std::nullopt);
  EXPECT_EQ(Syndrome::rnr_nak(3).credits(), std::nullopt);
}

TEST(Syndrome, DelaysAreThoseOfTheTable) {
  for (std::uint8_t code = 0; code < kDelays.size(); ++code) {
    EXPECT_EQ(Syndrome::rnr_nak(code).rnr_delay(), microseconds(kDelays[code])) << int{code};
    EXPECT_EQ(Syndrome::rnr_nak(code).byte(), 0x20 + code);
  }
  EXPECT_EQ(Syndrome::ack(3).rnr_delay(), std::nullopt);
}

TEST(Syndrome, NaksHaveTheirCodes) {
  const auto byte_of = [](NakCode code) { return int{Syndrome::nak(code).byte()}; };
  EXPECT_EQ(byte_of(NakCode::psn_sequence_error), 0x60);
  EXPECT_EQ(byte_of(NakCode::invalid_request), 0x61);
  EXPECT_EQ(byte_of(NakCode::remote_access_error), 0x62);
  EXPECT_EQ(byte_of(NakCode::remote_operational_error), 0x63);
  EXPECT_EQ(byte_of(NakCode::invalid_rd_request), 0x64);
  for (unsigned byte = 0x60; byte < 0x65; ++byte) {
    const Syndrome syndrome(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(syndrome.kind(), Syndrome::Kind::nak);
    EXPECT_EQ(static_cast<unsigned>(syndrome.nak_code().value()), byte - 0x60);
  }
  EXPECT_EQ(Syndrome(0x65).nak_code(), std::nullopt);
  EXPECT_EQ(Syndrome(0x7f).nak_code(), std::nullopt);
  EXPECT_EQ(Syndrome(0x00).nak_code(), std::nullopt);
}

TEST(Syndrome, TheReservedBitIsKeptAndNotLookedAt) {
  EXPECT_EQ(Syndrome(0x83).kind(), Syndrome::Kind::ack);
  EXPECT_EQ(Syndrome(0x83).credits(), 3U);
  EXPECT_EQ(Syndrome(0x83).byte(), 0x83);
  EXPECT_EQ(Syndrome(0xa1).kind(), Syndrome::Kind::rnr_nak);
  EXPECT_EQ(Syndrome(0x40).kind(), Syndrome::Kind::reserved);
}

}  // namespace
}  // namespace sidelatch::roce
