// Small programs that would take days or all memory: they are refused, or compiled in a moment.
#include "../program_of_parts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sidelatch::p4 {
namespace {

using testing::HasSubstr;

// Each of these is right, or says what is wrong with it, in a moment, where each level had doubled the work.
TEST(Growth, NestingDoesNotDoubleTheWork) {
  std::string casts = "8";
  std::string comparisons = "h.x.b";
  for (int i = 0; i < 40; ++i) {
    casts = "(bit<(" + casts + ")>)8";
    comparisons = "c<m[" + comparisons + "]";
  }
  EXPECT_EQ(error_of(program({.body = "h.x.a = " + casts + ";"})), "accepted");
  EXPECT_THAT(error_of(program({.body = "h.x.a = " + comparisons + ";"})), HasSubstr("'c' is not declared"));
}

}  // namespace
}  // namespace sidelatch::p4
