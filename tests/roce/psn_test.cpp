// Packet sequence numbers around the overflow of 24 bits.
#include "roce/psn.h"

#include <gtest/gtest.h>

namespace sidelatch::roce {
namespace {

constexpr std::uint32_t kHalf = 1U << 23;

TEST(Psn, IsCountedModulo24Bits) {
  EXPECT_EQ(Psn(0x1000005), Psn(5));
  EXPECT_EQ((Psn(0xffffff) + 1).value(), 0U);
  EXPECT_EQ((Psn(0xfffff0) + 0x20).value(), 0x10U);
  EXPECT_EQ((Psn(0x10) - 0x20).value(), 0xfffff0U);
  Psn psn(0xfffffe);
  EXPECT_EQ((++psn).value(), 0xffffffU);
  EXPECT_EQ((++psn).value(), 0U);
}

TEST(Psn, ComparesAcrossTheWrap) {
  EXPECT_TRUE(precedes(Psn(0xffffff), Psn(0)));
  EXPECT_FALSE(precedes(Psn(0), Psn(0xffffff)));
  EXPECT_TRUE(precedes(Psn(1), Psn(2)));
  EXPECT_FALSE(precedes(Psn(2), Psn(2)));
  EXPECT_EQ(distance(Psn(0xfffffe), Psn(3)), 5);
  EXPECT_EQ(distance(Psn(3), Psn(0xfffffe)), -5);
}

TEST(Psn, OfTwoHalfARoundApartNeitherPrecedes) {
  for (const std::uint32_t start : {0U, 1U, kHalf - 1, kHalf, 0xffffffU}) {
    const Psn psn(start);
    EXPECT_TRUE(precedes(psn, psn + (kHalf - 1)));
    EXPECT_TRUE(precedes(psn - (kHalf - 1), psn));
    EXPECT_FALSE(precedes(psn, psn + kHalf));
    EXPECT_FALSE(precedes(psn + kHalf, psn));
    EXPECT_FALSE(precedes(psn, psn + (kHalf + 1)));
    EXPECT_EQ(distance(psn, psn + (kHalf - 1)), static_cast<std::int32_t>(kHalf - 1));
    EXPECT_EQ(distance(psn, psn + (kHalf + 1)), -static_cast<std::int32_t>(kHalf - 1));
  }
}

}  // namespace
}  // namespace sidelatch::roce
