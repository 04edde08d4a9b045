// The names that the control plane has for keys. What is expected follows the reference compiler's tableKeyNames.cpp.
#include "tests/p4/program_of_parts.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/program.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace sidelatch::p4 {
namespace {

using testing::HasSubstr;

constexpr const char* kTop =
    "header_union u_t { x_t one; x_t two; }\n"
    "header n_t { @name(\"given\") bit<8> own; @name(\".whole.name\") bit<8> global; }\n"
    "struct T { n_t n; u_t u; n_t[2] ns; }\n"
    "const bit<8> MASK = 8w0xF0;\nconst int LOW = 2;\n"
    "enum bit<8> Kind { A = 1 }\n";

std::string with_key(const std::string& key, const std::string& match = "exact") {
  return program(
      {.top = kTop,
       .locals = "T t; bit<200> wide; table keyed { key = { " + key + " : " + match + "; } actions = { NoAction; } }",
       .body = "t = {...}; wide = 0; keyed.apply();"});
}

std::string name_of(const std::string& key) {
  return compile(with_key(key), "t.p4")->info().tables.at(0).keys.at(0).name;
}

TEST(KeyName, OfFieldsIsWhatTheExpressionSays) {
  EXPECT_EQ(name_of("h.x.a"), "h.x.a");
  EXPECT_EQ(name_of("h . x\n. a"), "h.x.a");
  EXPECT_EQ(name_of("((h.x).a)"), "h.x.a");
  EXPECT_EQ(name_of("h.xs[0].a"), "h.xs[0].a");
  EXPECT_EQ(name_of("h.xs[0x1].a"), "h.xs[0x1].a");
  EXPECT_EQ(name_of("s.ingress_port"), "s.ingress_port");
  EXPECT_EQ(name_of("t.u.two.b"), "t.u.two.b");
}

TEST(KeyName, OfAStackElementThatThePacketChoosesHasTheIndex) {
  EXPECT_EQ(name_of("h.xs[h.x.a].b"), "h.xs[h.x.a].b");
  EXPECT_EQ(name_of("h.xs[h.x.a & 1].b"), "h.xs[h.x.a & 1].b");
}

TEST(KeyName, OfAFieldWithANameIsThatName) {
  EXPECT_EQ(name_of("t.n.own"), "t.n.given");
  EXPECT_EQ(name_of("t.ns[1].own"), "t.ns[1].given");
  EXPECT_EQ(name_of("t.n.global"), "whole.name");
  EXPECT_EQ(name_of("t.n.own[3:0]"), "t.n.given[3:0]");
}

TEST(KeyName, OfValidity) {
  EXPECT_EQ(name_of("h.x.isValid()"), "h.x.$valid$");
  EXPECT_EQ(name_of("h.x.isValid( )"), "h.x.$valid$");
  EXPECT_EQ(name_of("h.xs[1].isValid()"), "h.xs[1].$valid$");
  EXPECT_EQ(name_of("t.u.isValid()"), "t.u.$valid$");
}

TEST(KeyName, OfASliceHasItsEnds) {
  EXPECT_EQ(name_of("h.x.a[3:0]"), "h.x.a[3:0]");
  EXPECT_EQ(name_of("h.x.a[ 3 : 0 ]"), "h.x.a[3:0]");
  EXPECT_EQ(name_of("h.x.a[LOW + 1:LOW]"), "h.x.a[3:2]");
  EXPECT_EQ(name_of("h.x.a[7:4][1:0]"), "h.x.a[7:4][1:0]");
  EXPECT_EQ(name_of("h.x.a[LOW +: 4]"), "h.x.a[5:2]");
  EXPECT_EQ(name_of("wide[180:172]"), "wide[180:172]");
}

TEST(KeyName, OfAMaskHasBothSides) {
  EXPECT_EQ(name_of("h.x.a & 0xf"), "h.x.a & 0xf");
  EXPECT_EQ(name_of("h.x.a&8w0x0F"), "h.x.a & 0xf");
  EXPECT_EQ(name_of("(h.x.a & 15)"), "h.x.a & 15");
  EXPECT_EQ(name_of("0b11 & h.x.a"), "0b11 & h.x.a");
  EXPECT_EQ(name_of("h.x.a & 0o17"), "h.x.a & 0o17");
  EXPECT_EQ(name_of("h.x.a & MASK"), "h.x.a & 0xf0");
  EXPECT_EQ(name_of("h.x.a & (MASK >> 4)"), "h.x.a & 0xf");
  EXPECT_EQ(name_of("h.x.a & h.x.b & 1"), "h.x.a & h.x.b & 1");
}

TEST(KeyName, OfAnythingElseMustBeGiven) {
  for (const char* const key : {"h.x.a + 1", "h.x.a ++ h.x.b", "(bit<16>)h.x.a", "~h.x.a", "h.x.a | 1", "h.x.a >> 2",
                                "h.x.a == 1", "true", "Kind.A", "h.x.a[h.x.b +: 2]", "h.x.isValid() ? h.x.a : 0"}) {
    EXPECT_THAT(error_of(with_key(key)), HasSubstr("t.p4:")) << key;
    EXPECT_THAT(error_of(with_key(key)), HasSubstr("the control plane has no name for a key like this")) << key;
    EXPECT_EQ(error_of(with_key(key, "exact @name(\"given\")")), "accepted") << key;
  }
}

TEST(KeyName, ThatIsGivenCounts) {
  const auto made = compile(with_key("h.x.a & 1", "exact @name(\"the key\")"), "t.p4");
  EXPECT_EQ(made->info().tables.at(0).keys.at(0).name, "the key");
}

}  // namespace
}  // namespace sidelatch::p4
