// Numbers without a limit. Laws of arithmetic tie the operations together; known values tie them to numbers.
#include "p4/compiler/natural.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>

namespace sidelatch::p4 {
namespace {

Natural power_of_ten(unsigned exponent) {
  Natural made = 1;
  for (unsigned i = 0; i < exponent; ++i) {
    made = made * 10;
  }
  return made;
}

// Of up to `bits` bits; often with long runs of ones or zeros, where carries and borrows go far.
Natural random_natural(std::mt19937_64& random, std::size_t bits) {
  Natural made;
  const std::size_t wanted = random() % (bits + 1);
  while (made.bits() < wanted) {
    const std::uint64_t kind = random() % 4;
    const std::uint64_t limb = kind == 0 ? 0 : kind == 1 ? ~std::uint64_t{0} : random();
    made = (made << 64) + Natural(limb) + Natural(static_cast<unsigned>(made == 0 && limb == 0));
  }
  return made;
}

TEST(Natural, IsWrittenInEachBase) {
  EXPECT_EQ(Natural().text(), "0");
  EXPECT_EQ(Natural(255).text(2), "11111111");
  EXPECT_EQ(Natural(255).text(8), "377");
  EXPECT_EQ((Natural(1) << 132).text(16), "1" + std::string(33, '0'));
  EXPECT_EQ(power_of_ten(60).text(), "1" + std::string(60, '0'));
  EXPECT_EQ((power_of_ten(60) - 1).text(), std::string(60, '9'));
  EXPECT_EQ((Natural(1) << 128).text(), "340282366920938463463374607431768211456");  // 2^128
}

// Digits are made in groups, of which one may begin with zeros or be the last.
TEST(Natural, IsWrittenWithTheZerosInside) {
  for (unsigned exponent = 1; exponent < 80; ++exponent) {
    EXPECT_EQ((power_of_ten(exponent) + 7).text(), "1" + std::string(exponent - 1, '0') + "7");
  }
  for (const unsigned base : {2U, 3U, 8U, 16U}) {
    Natural power = 1;
    for (std::size_t exponent = 0; exponent < 300; ++exponent) {
      EXPECT_EQ(power.text(base), "1" + std::string(exponent, '0')) << base;
      power = power * base;
    }
  }
}

// Where the first guess of a limb of the quotient is too large although the two limbs that it looks at say it is not
// (Knuth's algorithm D has to add the divisor back), or is more than a limb.
TEST(Natural, IsDividedWhereGuessesAreTooLarge) {
  const Natural limb = Natural(1) << 64;
  const Natural top = Natural(1) << 63;
  const Natural by = top * limb * limb + 1;
  const Natural added_back = (top - 1) * limb * limb * limb + top * limb * limb;
  EXPECT_EQ(added_back.divided_by(by).quotient, limb - 2);
  EXPECT_EQ(added_back.divided_by(by).quotient * by + added_back.divided_by(by).rest, added_back);
  const Natural large_guess = by * limb - 1;
  EXPECT_EQ(large_guess.divided_by(by).quotient, limb - 1);
  EXPECT_EQ(large_guess.divided_by(by).rest, by - 1);
}

TEST(Natural, HasBitsAndParts) {
  EXPECT_EQ(Natural().bits(), 0U);
  EXPECT_EQ(Natural(1).bits(), 1U);
  EXPECT_EQ((Natural(1) << 16'383).bits(), 16'384U);
  const Natural made = (Natural(5) << 200) + (Natural(3) << 127) + 9;
  EXPECT_TRUE(made.low() == (U128{1} << 127) + 9);
  EXPECT_TRUE(made.part(127) == (U128{5} << 73) + 3);
  EXPECT_TRUE(made.part(200) == 5);
  EXPECT_TRUE(made.part(203) == 0);
  EXPECT_TRUE(made.part(100'000) == 0);
}

TEST(Natural, IsOrderedByValue) {
  const Natural large = Natural(1) << 300;
  EXPECT_LT(large - 1, large);
  EXPECT_LT(large, large + 1);
  EXPECT_LT(Natural(7), large);
  EXPECT_EQ(large - 1 + 1, large);
  EXPECT_LT((Natural(1) << 64) + 9, (Natural(2) << 64) + 1);  // the highest part counts first
}

TEST(Natural, KeepsTheLawsOfArithmetic) {
  std::mt19937_64 random(7);
  constexpr std::size_t kBits = 700;
  for (int round = 0; round < 100; ++round) {
    const Natural a = random_natural(random, kBits);
    const Natural b = random_natural(random, kBits);
    const Natural c = random_natural(random, kBits);
    const std::size_t by = random() % 300;
    ASSERT_EQ(a + b - b, a);
    ASSERT_EQ(a * b, b * a);
    ASSERT_EQ((a + b) * c, a * c + b * c);
    ASSERT_EQ(a << by >> by, a);
    ASSERT_EQ((a >> by << by) + (a - (a >> by << by)), a);
    ASSERT_LT(a - (a >> by << by), Natural(1) << by);
    Natural power = 1;
    for (std::size_t i = 0; i < by; ++i) {
      power = power + power;
    }
    ASSERT_EQ(a << by, a * power);
    if (b != 0) {
      const Natural::Division divided = a.divided_by(b);
      ASSERT_EQ(divided.quotient * b + divided.rest, a);
      ASSERT_LT(divided.rest, b);
      ASSERT_EQ((a * b).divided_by(b).quotient, a);
      ASSERT_EQ((a * b).divided_by(b).rest, 0);
    }
  }
}

}  // namespace
}  // namespace sidelatch::p4
