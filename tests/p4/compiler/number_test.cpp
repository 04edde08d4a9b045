// Numbers of compile time, and literals. What is expected follows the P4_16 specification; `&`, `|` and `^` are those
// of two's complement.
#include "p4/compiler/number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace sidelatch::p4 {
namespace {

Number of(std::int64_t value) {
  return value < 0 ? negate(Number::of(static_cast<std::uint64_t>(-value)))
                   : Number::of(static_cast<std::uint64_t>(value));
}

std::string result(std::string_view op, const Number& a, const Number& b) { return text(combine(op, a, b, {})); }

TEST(Number, OfAnySignIsComputedAsTheMachineDoes) {
  for (std::int64_t a = -70; a <= 70; a += 7) {
    for (std::int64_t b = -66; b <= 66; b += 3) {
      EXPECT_EQ(combine("+", of(a), of(b), {}), of(a + b));
      EXPECT_EQ(combine("-", of(a), of(b), {}), of(a - b));
      EXPECT_EQ(combine("*", of(a), of(b), {}), of(a * b));
      EXPECT_EQ(combine("&", of(a), of(b), {}), of(a & b)) << a << " " << b;
      EXPECT_EQ(combine("|", of(a), of(b), {}), of(a | b)) << a << " " << b;
      EXPECT_EQ(combine("^", of(a), of(b), {}), of(a ^ b)) << a << " " << b;
      EXPECT_EQ(less(of(a), of(b)), a < b);
    }
    for (std::int64_t by = 0; by < 10; ++by) {
      EXPECT_EQ(combine(">>", of(a), of(by), {}), of(a >> by)) << a << " " << by;  // rounds down
      EXPECT_EQ(combine("<<", of(a), of(by), {}), of(a * (1 << by)));
    }
  }
}

TEST(Number, ShiftsFar) {
  const Number far = combine("<<", of(1), of(16'000), {});
  EXPECT_EQ(result(">>", far, of(15'990)), "1024");
  EXPECT_EQ(result(">>", negate(far), of(16'383)), "-1");
  EXPECT_EQ(result(">>", far, far), "0");
  EXPECT_EQ(result(">>", negate(far), far), "-1");
  EXPECT_EQ(result("<<", of(0), far), "0");
}

TEST(Number, LimitsAreThoseOfItsBits) {
  const Number largest = combine("-", combine("<<", of(1), of(16'383), {}), of(1), {});
  EXPECT_NO_THROW(static_cast<void>(combine("+", largest, largest, {})));
  const Number all = combine("+", combine("+", largest, largest, {}), of(1), {});  // 2^16384 - 1
  EXPECT_THROW(static_cast<void>(combine("+", all, of(1), {})), Failure);
  EXPECT_THROW(static_cast<void>(combine("-", negate(all), of(1), {})), Failure);
  EXPECT_THROW(static_cast<void>(combine("*", all, of(2), {})), Failure);
  EXPECT_THROW(static_cast<void>(combine("<<", all, of(1), {})), Failure);
  EXPECT_EQ(result("-", all, all), "0");
}

TEST(Number, IsExactWhereAWidthCutsIt) {
  const Number all = largest(16'384);
  EXPECT_EQ(text(largest(1)), "1");
  EXPECT_EQ(text(largest(10)), "1023");
  EXPECT_TRUE(combine_exactly("+", all, of(9), {}).bits(128) == 8);
  EXPECT_TRUE(combine_exactly("*", all, all, {}).bits(128) == 1);
  EXPECT_FALSE(combine_exactly("+", all, of(1), {}).fits(16'384, false));
}

TEST(Number, FitsByItsWidth) {
  for (const unsigned width : {1U, 8U, 127U, 128U, 129U, 1000U}) {
    const Number power = combine("<<", of(1), of(width), {});
    const Number half = combine("<<", of(1), of(width - 1), {});
    EXPECT_TRUE(combine("-", power, of(1), {}).fits(width, false));
    EXPECT_FALSE(power.fits(width, false));
    EXPECT_FALSE(of(-1).fits(width, false));
    EXPECT_TRUE(combine("-", half, of(1), {}).fits(width, true));
    EXPECT_FALSE(half.fits(width, true));
    EXPECT_TRUE(negate(half).fits(width, true));
    EXPECT_FALSE(combine("-", negate(half), of(1), {}).fits(width, true));
  }
}

TEST(Number, HasBitsInTwosComplement) {
  const Number minus = negate(combine("<<", of(3), of(140), {}));  // ...11101 and 140 zeros
  EXPECT_TRUE(minus.bits(128) == 0);
  EXPECT_TRUE(minus.bits(16, 138) == 0xfff4);
  EXPECT_TRUE(minus.bits(128, 1000) == ones(128));
}

TEST(Literal, OfAnyBase) {
  const auto literal = [](std::string_view text) { return parse_literal(text, {}); };
  EXPECT_EQ(text(literal("340282366920938463463374607431768211456").value), "340282366920938463463374607431768211456");
  EXPECT_EQ(literal("0x1" + std::string(32, '0')).value, literal("340282366920938463463374607431768211456").value);
  EXPECT_EQ(literal("0b1" + std::string(300, '0')).value, combine("<<", of(1), of(300), {}));
  EXPECT_EQ(literal("0o1" + std::string(100, '0')).value, combine("<<", of(1), of(300), {}));
  EXPECT_EQ(literal("1000_000").value, of(1'000'000));
  EXPECT_EQ(literal("300w0xf" + std::string(40, 'f')).width, 300U);
  EXPECT_EQ(literal("8w0b101").base, 2U);
  EXPECT_EQ(literal("0xA").base, 16U);
  EXPECT_EQ(literal("0x" + std::string(9000, '0') + "5").value, of(5));
  EXPECT_NO_THROW(static_cast<void>(literal("0x" + std::string(4096, 'f'))));
  EXPECT_THROW(static_cast<void>(literal("0x1" + std::string(4096, '0'))), Failure);
  EXPECT_THROW(static_cast<void>(literal("0b12")), Failure);
}

}  // namespace
}  // namespace sidelatch::p4
