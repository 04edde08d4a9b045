// The value of #if. What is expected follows from ISO C17, 6.10.1 and 6.6.
#include "p4/compiler/condition.h"

#include "p4/compiler/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sidelatch::p4 {
namespace {
namespace conditions {

// "yes", "no" or the error.
std::string value_of(const std::string& condition) {
  Sources sources;
  const std::string text = "#define X 0\n#define IF_X defined X\n#if " + condition + "\nyes\n#else\nno\n#endif\n";
  try {
    return preprocess(sources, sources.add("t.p4", text), {}).front().text;
  } catch (const Failure& failure) {
    return "error: " + failure.message;
  }
}

TEST(Condition, WhatIsNotEvaluatedMayDivideByZero) {
  EXPECT_EQ(value_of("X != 0 && 10 / X > 2"), "no");
  EXPECT_EQ(value_of("X == 0 || 10 % X > 2"), "yes");
  EXPECT_EQ(value_of("X == 0 ? 7 : 10 / X"), "yes");
  EXPECT_EQ(value_of("X ? 10 / X : 7"), "yes");
  EXPECT_EQ(value_of("X && (1 ? 1 << 64 : 1 / 0 || 1 / 0)"), "no");
  EXPECT_EQ(value_of("1 && 10 / X"), "error: division by zero");
  EXPECT_EQ(value_of("X || 10 % X"), "error: division by zero");
  EXPECT_EQ(value_of("1 << 64"), "error: a shift in a condition is by 0 to 63");
}

TEST(Condition, OperatorsBindAsInC) {
  EXPECT_EQ(value_of("1 + 2 * 3 == 7 && 10 - 2 - 3 == 5 && 100 / 10 / 2 == 5"), "yes");
  EXPECT_EQ(value_of("(1 | 2 ^ 3 & 4) == 3 && (1 << 2 + 1) == 8 && -8 >> 1 == -4"), "yes");
  EXPECT_EQ(value_of("0 ? 1 : 0 ? 2 : 3"), "yes");
  EXPECT_EQ(value_of("(1 ? 0 : 1 ? 2 : 3)"), "no");
  EXPECT_EQ(value_of("!1 == 0 && ~0 == -1 && - -1 == +1"), "yes");
  EXPECT_EQ(value_of("1 || 1 && 0"), "yes");
  EXPECT_EQ(value_of("2 > 1 > 0 && 1 < 2 != 0"), "yes");
}

TEST(Condition, NumbersHave64BitsAndMayBeUnsigned) {
  EXPECT_EQ(value_of("0x10 == 16 && 010 == 8 && 0b101 == 5 && 1UL == 1 && 1llu == 1"), "yes");
  EXPECT_EQ(value_of("-1 < 0"), "yes");
  EXPECT_EQ(value_of("-1 < 0u"), "no");
  EXPECT_EQ(value_of("(1 ? -1 : 0u) > 0"), "yes");
  EXPECT_EQ(value_of("-1 / 2u == 0x7fffffffffffffff && -1 >> 1 == -1 && -7 / 2 == -3 && -7 % 2 == -1"), "yes");
  EXPECT_EQ(value_of("(-9223372036854775807 - 1) / -1 != 0 && (-9223372036854775807 - 1) % -1 == 0"), "yes");
  EXPECT_EQ(value_of("18446744073709551616"), "error: the number '18446744073709551616' has more than 64 bits");
  EXPECT_THAT(value_of("8w1"), testing::HasSubstr("'8w1' is not a number of a condition"));
  EXPECT_THAT(value_of("09"), testing::HasSubstr("'09' is not a number of a condition"));
  EXPECT_THAT(value_of("1uu"), testing::HasSubstr("'1uu' is not a number of a condition"));
}

TEST(Condition, DefinedAsksForTheNameItself) {
  EXPECT_EQ(value_of("defined X && defined(X) && !defined Y && defined __LINE__ && __LINE__ == 3"), "yes");
  EXPECT_EQ(value_of("IF_X"), "yes");
  EXPECT_EQ(value_of("Y == 0 && true == 0"), "yes");
  EXPECT_EQ(value_of("defined"), "error: 'defined' needs a name");
  EXPECT_EQ(value_of("defined(X"), "error: 'defined' needs a name");
  EXPECT_EQ(value_of("defined 1"), "error: 'defined' needs a name");
}

TEST(Condition, SaysWhatIsWrong) {
  EXPECT_EQ(value_of(""), "error: this condition ends too early");
  EXPECT_EQ(value_of("1 +"), "error: this condition ends too early");
  EXPECT_EQ(value_of("(1"), "error: ')' is missing in this condition");
  EXPECT_EQ(value_of("1 ? 2"), "error: ':' is missing in this condition");
  EXPECT_EQ(value_of("1 2"), "error: the condition should end before '2'");
  EXPECT_EQ(value_of("1 = 2"), "error: the condition should end before '='");
  EXPECT_EQ(value_of("\"a\""), "error: a condition cannot have 'a' here");
  EXPECT_EQ(value_of(std::string(100'000, '(')), "error: unsupported: a condition nested this deeply");
  EXPECT_EQ(value_of(std::string(100'000, '!')), "error: unsupported: a condition nested this deeply");
}

}  // namespace conditions
}  // namespace
}  // namespace sidelatch::p4
