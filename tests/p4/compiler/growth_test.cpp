// Small programs that would take days or all memory: they are refused, or compiled in a moment.
#include "../program_of_parts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sidelatch::p4 {
namespace {

using testing::HasSubstr;

TEST(Growth, WhatTheProgramDeclaresIsBounded) {
  std::string counters;
  std::string tuples = "typedef tuple<bit<8>, bit<8>> T1;\n";
  std::string empty = "struct S1 {}\n";
  for (int i = 0; i < 40; ++i) {
    counters += fmt::format("counter(33554432, CounterType.packets) c{};\n", i);
    tuples += fmt::format("typedef tuple<T{0}, T{0}> T{1};\n", i + 1, i + 2);
    empty += fmt::format("struct S{1} {{ S{0} a; S{0} b; }}\n", i + 1, i + 2);
  }
  EXPECT_THAT(error_of(program({.locals = counters})), HasSubstr("unsupported: registers of more than 1 GiB in all"));
  EXPECT_THAT(error_of(program({.top = tuples + "header z_t { T40 f; }"})),
              HasSubstr("unsupported: a tuple this large"));
  EXPECT_THAT(error_of(program({.top = "typedef tuple<> T1;\n" + tuples.substr(tuples.find('\n'))})),
              HasSubstr("unsupported: a tuple this large"));
  EXPECT_THAT(error_of(program({.top = empty})), HasSubstr("unsupported: a structure this large"));
}

// Each of these is right, or says what is wrong with it, in a moment; at first each level doubled the work, or each
// element was looked at for each other one.
TEST(Growth, NestingDoesNotDoubleTheWork) {
  std::string casts = "8";
  std::string comparisons = "h.x.b";
  std::string generics = "h.x.b";
  for (int i = 0; i < 40; ++i) {
    casts = "(bit<(" + casts + ")>)8";
    comparisons = "c<m[" + comparisons + "]";
    generics = "same(" + generics + ")";
  }
  EXPECT_EQ(error_of(program({.body = "h.x.a = " + casts + ";"})), "accepted");
  EXPECT_THAT(error_of(program({.body = "h.x.a = " + comparisons + ";"})), HasSubstr("'c' is not declared"));
  EXPECT_EQ(error_of(program({.top = "T same<T>(in T x) { return x; }", .body = "h.x.a = " + generics + ";"})),
            "accepted");
}

// 2^40 names in one.
TEST(Growth, NamesOfGenericStructuresDoNotDouble) {
  std::string types = "struct Two<A, B> {}\ntypedef Two<bit<8>, bit<8>> T0;\ntypedef Two<bit<16>, bit<8>> U0;\n";
  for (int i = 1; i < 40; ++i) {
    types += fmt::format("typedef Two<T{0}, T{0}> T{1};\ntypedef Two<U{0}, U{0}> U{1};\n", i - 1, i);
  }
  EXPECT_EQ(error_of(program({.top = types, .body = "T39 v; T39 w; w = v;"})), "accepted");
  // Names that are cut are still two types.
  EXPECT_THAT(error_of(program({.top = types, .body = "T39 v; U39 w; w = v;"})), HasSubstr("Two<"));
}

TEST(Growth, CallsCopyWhatIsUnassigned) {
  std::string macros = "#define T0 bit<1>\n#define C0 f(h.x.a);\n";
  for (int i = 1; i < 19; ++i) {
    macros += fmt::format("#define T{0} T{1}, T{1}\n#define C{0} C{1} C{1}\n", i, i - 1);
  }
  const std::string function = "bit<8> f(in bit<8> v) { return 3; }";
  EXPECT_EQ(error_of(program({.top = macros + function, .body = "tuple<T16> v; C15 h.x.a = (bit<8>)v[0];"})),
            "accepted");
}

TEST(Growth, ListsMayBeLong) {
  std::string macros = "#define L0 8w1\n#define T0 bit<1>\n#define I0 if (h.x.a == 1) { h.x.b = 1; }\n";
  for (int i = 1; i < 19; ++i) {
    macros += fmt::format("#define L{0} L{1}, L{1}\n#define T{0} T{1}, T{1}\n#define I{0} I{1} I{1}\n", i, i - 1);
  }
  EXPECT_EQ(error_of(program({.top = macros, .body = "log_msg(\"x\", {L18});"})), "accepted");
  EXPECT_EQ(error_of(program({.top = macros, .body = "tuple<T16> p; tuple<T16> q; if (p == q) { h.x.a = 1; }"})),
            "accepted");
  EXPECT_EQ(error_of(program({.top = macros, .body = "tuple<T16> v; I14 h.x.a = (bit<8>)v[0];"})), "accepted");
}

}  // namespace
}  // namespace sidelatch::p4
