// What the compiler must refuse, and how it says so.
#include "program_of_parts.h"

#include <sidelatch/p4/compile.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Refused, TheProgramWithoutAnythingIsAccepted) { EXPECT_EQ(error_of(program({})), "accepted"); }

TEST(Refused, AnErrorNamesItsPlaceAndShowsIt) {
  EXPECT_EQ(error_of(program({.body = "  h.x.a = h.x.nothing;"})),
            "t.p4:13:15: error: x_t has no field 'nothing'\n  h.x.a = h.x.nothing;\n              ^");
  EXPECT_EQ(error_of(program({.body = "\tint<129> v;"})),
            "t.p4:13:2: error: unsupported: a width of 129 bits; at most 128\n\tint<129> v;\n\t^");
}

TEST(Refused, OfALongLineThePlaceIsShown) {
  for (const std::size_t behind : {0U, 30U, 100'000U}) {
    const std::string error =
        error_of(program({.body = std::string(1000, ' ') + "h.x.a = h.x.nothing;" + std::string(behind, ' ')}));
    const std::size_t line = error.find('\n') + 1;
    const std::size_t below = error.find('\n', line) + 1;
    const std::string shown = error.substr(line, below - 1 - line);
    EXPECT_LE(shown.size(), 206U);
    EXPECT_THAT(shown, StartsWith("... "));
    EXPECT_EQ(shown.substr(error.find('^') - below),
              "nothing;" + std::string(std::min<std::size_t>(behind, 93), ' ') + (behind > 93 ? "..." : ""));
  }
}

// The file may be no text, and a terminal obeys them.
TEST(Refused, NoControlCharacterIsShown) {
  const std::string error = error_of(program({.body = "\t\x1b[31m"}));
  EXPECT_THAT(error, HasSubstr("error: P4 has no character 0x1b\n\t?[31m\n\t^"));
}

TEST(Refused, ASecondMain) {
  EXPECT_THAT(error_of(program({}) + "V1Switch(P(), V(), I(), E(), V(), D()) main;\n"),
              StartsWith("t.p4:17:40: error: 'main' is declared twice"));
}

TEST(Refused, AnErrorInAMacroIsWhereItIsUsed) {
  EXPECT_THAT(error_of(program({.top = "#define TWICE(x) (x + x.y)", .body = "h.x.a = TWICE(h.x.b);"})),
              StartsWith("t.p4:13:9: error: "));
}

struct Case {
  std::string name;
  Parts parts;
  std::string message;
};

class RefusedPrograms : public testing::TestWithParam<Case> {};

TEST_P(RefusedPrograms, SayWhy) {
  const std::string error = error_of(program(GetParam().parts));
  EXPECT_THAT(error, HasSubstr("error: " + GetParam().message));
  EXPECT_THAT(error, HasSubstr("^"));
}

INSTANTIATE_TEST_SUITE_P(
    Constructs, RefusedPrograms,
    testing::ValuesIn(std::vector<Case>{
        {"VarbitWithoutWidth", {.top = "header v_t { varbit v; }"}, "varbit needs its largest width"},
        {"VarbitTooWide", {.top = "header v_t { varbit<16385> v; }"}, "unsupported: a varbit of 16385 bits"},
        {"TwoVarbits",
         {.top = "header v_t { varbit<8> v; varbit<8> w; }", .state = "v_t y; b.extract(y, 8);"},
         "a header has one varbit at most"},
        {"VarbitWithoutSize",
         {.top = "header v_t { varbit<8> v; }", .state = "v_t y; b.extract(y);"},
         "v_t has a varbit: extract(HEADER, BITS)"},
        {"SizeWithoutVarbit", {.state = "b.extract(h.xs[0], 8);"}, "x_t has no varbit, whose bits could be given"},
        {"LookaheadOfVarbit",
         {.top = "header v_t { varbit<8> v; }", .state = "v_t y = b.lookahead<v_t>();"},
         "lookahead of a header with a varbit"},
        {"VarbitAsNumber",
         {.top = "header v_t { varbit<8> v; }", .body = "v_t y; y.v = 1;"},
         "a number cannot become a value of type varbit<8>"},
        {"VarbitsOfTwoWidths",
         {.body = "varbit<8> v; varbit<16> w; w = v;"},
         "expected a value of type varbit<16>, found varbit<8>"},
        {"VarbitAsKey",
         {.locals = "varbit<8> v; table t { key = { v : exact; } actions = { NoAction; } }", .body = "t.apply();"},
         "a key is a scalar, not varbit<8>"},
        {"TooWide", {.body = "bit<16385> x;"}, "unsupported: a width of 16385 bits; at most 16384"},
        {"NumberTooWide",
         {.body = "h.x.a = (bit<8>)0x1" + std::string(4096, '0') + ";"},
         "unsupported: a number of more than 16384 bits"},
        {"DecimalTooWide",
         {.body = "h.x.a = (bit<8>)" + std::string(5000, '9') + ";"},
         "unsupported: a number of more than 16384 bits"},
        {"ShiftTooWide",
         {.body = "h.x.a = (bit<8>)((1 << 16384) >> 16384);"},
         "unsupported: a number of more than 16384 bits"},
        {"ProductOfNumbersTooWide",
         {.body = "h.x.a = (bit<8>)((1 << 9000) * (1 << 9000));"},
         "unsupported: a number of more than 16384 bits"},
        {"SumOfNumbersTooWide",
         {.body = "h.x.a = (bit<8>)((1 << 16383) + (1 << 16383));"},
         "unsupported: a number of more than 16384 bits"},
        {"HashOfAWideNumber",
         {.body = "hash(h.x.a, HashAlgorithm.crc16, 8w0, {h.x.b}, 1 << 128);"},
         "unsupported: a number of more than 128 bits in a hash"},
        {"TableTooLarge",
         {.locals = "table t { key = { h.x.a : exact; } actions = { NoAction; } size = (1 << 64) + 5; }"},
         "unsupported: a table of more than 4294967296 entries"},
        {"WideConstantByZero", {.body = "bit<129> x = 129w1 % 0;"}, "division by zero"},
        {"QuotientTooWide",
         {.body = "bit<129> x = 0; x = x / 2;"},
         "unsupported: '/' of a value of more than 128 bits"},
        {"RemainderTooWide",
         {.body = "bit<129> x = 0; x = 2 % x;"},
         "unsupported: '%' of a value of more than 128 bits"},
        {"SumOfTwoWideWidths", {.body = "bit<129> x = 0; bit<130> y = 0; x = x + y;"}, "'+' cannot join bit<129> and"},
        {"WideLessOfTwoWidths",
         {.body = "bit<129> x = 0; bit<130> y = 0; if (x < y) {}"},
         "'<' cannot compare bit<129> and bit<130>"},
        {"WideTruth", {.body = "bit<129> x = 0; if (!x) {}"}, "'!' needs a bool, not bit<129>"},
        {"ConcatenationOfSignedTooWide",
         {.body = "int<128> x = 0; h.x.a = (x ++ 1w0)[7:0];"},
         "unsupported: an int<129>; at most 128 bits"},
        {"WideList", {.body = "bit<129> x = { 1, 2 };"}, "a list cannot become a value of type bit<129>"},
        {"WideCastOfSigned", {.body = "bit<129> x = (bit<129>)h.x.s;"}, "there is no cast from int<8> to bit<129>"},
        {"WideCastToSigned",
         {.body = "bit<129> x = 0; h.x.s = (int<8>)x;"},
         "there is no cast from bit<129> to int<8>"},
        {"WideSliceReadOnly",
         {.top = "void f(in bit<300> x) { x[298:1] = 1; }", .body = "f(0);"},
         "this is read-only here"},
        {"WideSliceOfASum", {.body = "bit<300> x = 0; (x + x)[298:1] = 1;"}, "this is read-only here"},
        {"MovingSliceReadOnly",
         {.top = "void f(in bit<30> x) { x[x +: 1] = 1; }", .body = "f(0);"},
         "this is read-only here"},
        {"MovingSliceTooWide", {.body = "h.x.a = h.x.a[h.x.b +: 9][7:0];"}, "9 is no width of a slice of bit<8>"},
        {"MovingSliceWithoutBits", {.body = "h.x.a[h.x.b +: 0] = 0;"}, "0 is no width of a slice of bit<8>"},
        {"MovingSliceOfANumber", {.body = "h.x.a = 0x1234[h.x.b +: 8];"}, "the width of this number is not known"},
        {"MovingSliceByTruth", {.body = "h.x.a = h.x.b[true +: 8];"}, "expected a number, found bool"},
        {"MovingSliceByAHeader", {.body = "h.x.a = h.x.b[h.x +: 8];"}, "the place of a slice is a number, not x_t"},
        {"WidthOfASliceOfThePacket", {.body = "h.x.a = h.x.b[1 +: h.x.a];"}, "expected a constant of compile time"},
        {"WideSliceOfTwoReadOnly",
         {.top = "void f(in bit<300> x) { x[130:120] = 1; }", .body = "f(0);"},
         "this is read-only here"},
        {"NameOfANumber",
         {.locals = "@name(5) table t { actions = { NoAction; } }", .body = "t.apply();"},
         "@name needs one string"},
        {"SizeOfAnotherType", {.locals = "register<bit<8>>(8w4) r;"}, "the size of a register has the type bit<32>"},
        {"WideRegister", {.locals = "register<bit<129>>(1) r;"}, "unsupported: a register of bit<129>"},
        {"WideKey",
         {.locals = "bit<129> v; table t { key = { v : exact; } actions = { NoAction; } }", .body = "t.apply();"},
         "unsupported: a key of bit<129>; at most 128 bits"},
        {"WideFromTheControlPlane",
         {.locals = "action f(bit<129> x) {} table t { key = { h.x.a : exact; } actions = { f; } }",
          .body = "t.apply();"},
         "unsupported"},
        {"ConcatenationTooWide",
         {.body = "bit<16384> x = 0; h.x.a = (x ++ 1w0)[7:0];"},
         "unsupported: a value of 16385 bits; at most 16384"},
        {"ForInParser",
         {.state = "for (bit<8> i = 0; i < 4; i = i + 1) { m.m = i; }"},
         "for is not for parsers: let a state have"},
        {"ForWithinIfInParser",
         {.state = "if (h.x.a == 1) { for (x_t y in h.xs) { m.m = y.a; } }"},
         "for is not for parsers"},
        {"ForInAnUnusedParser",
         {.top = "parser Q(packet_in b) { state start { for (bit<8> i in 0 .. 3) { b.advance(8); } transition accept; "
                 "} }"},
         "for is not for parsers"},
        {"GenericFunctionAndOtherRegister",
         {.top = "void f<T>(register<T> r, in T x) { r.write(0, x); }",
          .locals = "register<bit<8>>(1) r;",
          .body = "f<bit<16>>(r, 2);"},
         "this is not what the parameter 'r' needs"},
        {"RandomNumberWithASign", {.body = "random(h.x.s, -1, 1);"}, "unsupported: a random number of type int<8>"},
        {"ListAndFunctionWithoutResult",
         {.top = "void f() {}", .body = "if ({ h.x.a } == f()) { h.x.a = 1; }"},
         "a list cannot be compared to something without a value"},
        {"ListAndTable",
         {.locals = "table t { actions = { NoAction; } }", .body = "if (t != { h.x.a }) { h.x.a = 1; }"},
         "a list cannot be compared to something without a value"},
        {"ListAndAnything",
         {.body = "if ({ h.x.a } == _) { h.x.a = 1; }"},
         "a list cannot be compared to something without a value"},
        {"ListsOfOtherNames",
         {.body = "if ({ a = h.x.a, b = 1 } == { a = h.x.a, c = 1 }) { h.x.a = 1; }"},
         "the two lists do not have fields of the same names"},
        {"ListsWithoutATypeForTheRest",
         {.body = "if ({ h.x.a, ... } == { h.x.a, ... }) { h.x.a = 1; }"},
         "no type says what '...' stands for"},
        {"ListAndInvalid", {.body = "if ({ h.x.a } == {#}) { h.x.a = 1; }"}, "{#} can be compared to headers"},
        {"NumberAndInvalid", {.body = "if (h.x.a == {#}) { h.x.a = 1; }"}, "{#} can be compared to headers"},
        {"HeaderAndInvalidOther",
         {.top = "header y_t { bit<8> a; }", .body = "if (h.x == (y_t){#}) { h.x.a = 1; }"},
         "cannot compare x_t and y_t"},
        {"ForOverTuple",
         {.body = "tuple<bit<8>, bit<8>> t = { 1, 2 }; for (bit<8> y in t) { h.x.a = y; }"},
         "unsupported: for over anything but a range"},
        {"ForOverOtherElements",
         {.body = "for (bit<8> y in h.xs) { h.x.a = y; }"},
         "the elements have the type x_t, not bit<8>"},
        {"ForOverAListOfOtherElements",
         {.body = "for (bit<8> y in (list<bit<4>>){ 1, 2 }) { h.x.a = y; }"},
         "the elements have the type bit<4>, not bit<8>"},
        {"ForOverAListOfTwoTypes",
         {.body = "for (bit<8> y in (list<bit<8>, bit<8>>){ 1, 2 }) { h.x.a = y; }"},
         "list<T> has one type"},
        {"ForOverAListWithARest",
         {.body = "for (bit<8> y in (list<bit<8>>){ 1, ... }) { h.x.a = y; }"},
         "unsupported: for over a list that is not written as {A, B}"},
        {"ForOverAListWithoutWidth",
         {.body = "for (int y in (list<int>){ 1, 2 }) { h.x.a = 1; }"},
         "unsupported: for over a list of int"},
        {"ForOverAnEmptyList",
         {.body = "for (bit<8> y in (list<bit<8>>){}) { h.x.a = h.x.nothing; }"},
         "x_t has no field 'nothing'"},
        {"ForWithoutCondition", {.body = "for (;;) { h.x.a = 1; }"}, "expected an expression, found ';'"},
        {"ForVariableLater",
         {.body = "for (; true; bit<8> i = 0) { }"},
         "a variable is declared where the loop begins"},
        {"ForVariableIsLocal", {.body = "for (bit<8> i = 0; i < 4; i += 1) { } h.x.a = i;"}, "'i' is not declared"},
        {"BreakOutside", {.body = "if (h.x.a == 1) { break; }"}, "break is for loops"},
        {"ContinueOutside",
         {.locals = "action f() { continue; }", .body = "for (bit<8> i in 0 .. 3) { f(); }"},
         "continue is for loops"},
        {"ValueSetElsewhere", {.locals = "value_set<bit<8>>(4) v;"}, "there is no type 'value_set'"},
        {"NoDefaultOfInt", {.top = "const int N = ...;"}, "there is no default value of type int"},
        {"WidthOfZero", {.body = "h.x.a = h.x.a ++ 0w0;"}, "unsupported: a width of 0"},
        {"DivisionByZero", {.body = "h.x.a = h.x.a / 0;"}, "division by zero"},
        {"SignedDivision", {.body = "h.x.s = h.x.s / 2;"}, "'/' is not defined for int<N>"},
        {"MixedWidths", {.body = "h.x.a = h.x.a + 16w1;"}, "'+' cannot join bit<8> and bit<16>"},
        {"MixedSigns", {.body = "h.x.a = h.x.a + h.x.s;"}, "'+' cannot join bit<8> and int<8>"},
        {"AssignWidth", {.body = "h.x.a = 16w1;"}, "expected a value of type bit<8>, found bit<16>"},
        {"CastBoth", {.body = "h.x.a = (bit<8>)4s1;"}, "a cast changes the width or the sign, not both"},
        {"BoolFromWide", {.body = "bool x = (bool)h.x.a;"}, "there is no cast from bit<8> to bool"},
        {"Condition", {.body = "if (h.x.a) { }"}, "expected a bool, found bit<8>"},
        {"SliceOutside", {.body = "h.x.a = 4w0 ++ h.x.a[8:5];"}, "[8:5] is no slice of bit<8>"},
        {"ShiftBySigned", {.body = "h.x.a = h.x.a << h.x.s;"}, "a shift is by a bit<N>, not by int<8>"},
        {"ShiftByNegativeSigned", {.body = "h.x.a = h.x.a << 4s15;"}, "a shift by a negative number"},
        {"UnknownName", {.body = "h.x.a = nothing;"}, "'nothing' is not declared"},
        {"FunctionBelowItsUse",
         {.top = "bit<8> f(in bit<8> x) { return g(x); }\nbit<8> g(in bit<8> x) { return x; }",
          .body = "h.x.a = f(1);"},
         "'g' is declared below its use"},
        {"ActionBelowItsUse",
         {.top = "action a(inout bit<8> x) { b(x); }\naction b(inout bit<8> x) { x = 1; }", .body = "a(h.x.a);"},
         "'b' is declared below its use"},
        {"ConstantBelowItsUse",
         {.top = "bit<8> f() { return kC; }\nconst bit<8> kC = 1;", .body = "h.x.a = f();"},
         "'kC' is declared below its use"},
        {"TypeBelowItsUseInAFunctionThatNothingUses",
         {.top = "void f() { t_t v; v.a = 1; }\nstruct t_t { bit<8> a; }"},
         "'t_t'"},
        {"ControlBelowItsUse",
         {.top =
              "control A(inout bit<8> x) { B() b; apply { b.apply(x); } }\ncontrol B(inout bit<8> x) { apply { x = 1; "
              "} }",
          .locals = "A() a;",
          .body = "a.apply(h.x.a);"},
         "'B' is declared below its use"},
        {"WriteToIn",
         {.top = "control C(in bit<8> x) { apply { x = 1; } }", .locals = "C() c;", .body = "c.apply(h.x.a);"},
         "this is read-only here"},
        {"WriteToConstant", {.top = "const bit<8> K = 1;", .body = "K = 2;"}, "this cannot be assigned to"},
        {"OutNeedsPlace",
         {.top = "void f(out bit<8> x) { x = 1; }", .body = "f(h.x.a + 1);"},
         "this cannot be assigned to"},
        {"ConstantOfRunTime",
         {.body = "const bit<8> k = h.x.a;"},
         "the value of a constant must be known at compile time"},
        {"Recursion",
         {.top = "bit<8> f(in bit<8> x) { return f(x); }", .body = "h.x.a = f(1);"},
         "a function cannot call itself"},
        {"ControlInItself",
         {.top = "control C(inout bit<8> x) { C() c; apply { } }", .locals = "C() c;"},
         "a control cannot contain itself"},
        {"ExitInFunction", {.top = "void f() { exit; }", .body = "f();"}, "exit is for controls and actions"},
        {"TableInAction",
         {.locals = "table t { actions = { NoAction; } } action a() { t.apply(); }"},
         "a table is applied in the apply block"},
        {"TwoLpm",
         {.locals = "table t { key = { h.x.a : lpm; h.x.b : lpm; } actions = { NoAction; } }"},
         "unsupported: two lpm keys"},
        {"Selector",
         {.locals = "table t { key = { h.x.a : selector; } actions = { NoAction; } }"},
         "a key of kind selector needs 'implementation = action_selector(...)'"},
        {"UnknownMatchKind",
         {.locals = "table t { key = { h.x.a : nearly; } actions = { NoAction; } }"},
         "there is no match kind 'nearly'"},
        {"Implementation",
         {.locals = "table t { key = { h.x.a : exact; } actions = { NoAction; } implementation = 3; }"},
         "implementation needs action_profile or action_selector"},
        {"ActionSelector",
         {.locals = "table t { key = { h.x.a : exact; } actions = { NoAction; } "
                    "implementation = action_selector(HashAlgorithm.crc16, 4, 4); }"},
         "a table with an action_selector needs a key of kind selector"},
        {"ActionSelectorOfAnotherAlgorithm",
         {.locals = "table t { key = { h.x.a : selector; } actions = { NoAction; } "
                    "implementation = action_selector(HashAlgorithm.random, 4, 4); }"},
         "unsupported: HashAlgorithm.random"},
        {"ValueSetOfManyFields",
         {.top =
              "struct F8 { bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; bit<8> f; bit<8> g; bit<8> h; } "
              "struct F64 { F8 a; F8 b; F8 c; F8 d; F8 e; F8 f; F8 g; F8 h; } struct F65 { F64 a; bit<8> b; } "
              "parser Q(packet_in b, out H h, inout M m) { value_set<F65>(4) v; state start { transition accept; } }",
          .state = "Q.apply(b, h, m);"},
         "unsupported: a value_set of more than 64 fields"},
        {"ValueSetOfAnotherType",
         {.top = "parser Q(packet_in b, out H h, inout M m) { value_set<bit<16>>(4) v; "
                 "state start { transition select(m.m) { v: accept; } } }"},
         "'v' has values of type bit<16>, and the key is of type bit<8>"},
        {"EntryPriorityBelowZero",
         {.locals = "table t { key = { h.x.a : ternary; } actions = { NoAction; } priority_delta = 2; entries = { "
                    "priority = 1 : 1 : NoAction(); 2 : NoAction(); } }"},
         "this entry would have the priority -1"},
        {"EntryPriorityNotOfTheFirst",
         {.locals = "table t { key = { h.x.a : ternary; } actions = { NoAction; } entries = { 1 : NoAction(); "
                    "priority = 20 : 2 : NoAction(); } }"},
         "the first entry needs 'priority =', because another one has it"},
        {"EntryPriorityOfConstEntries",
         {.locals = "table t { key = { h.x.a : ternary; } actions = { NoAction; } const entries = { "
                    "priority = 20 : 1 : NoAction(); 2 : NoAction(); } }"},
         "const entries count in their order, and have no 'priority ='"},
        {"EntryPriorityTwice",
         {.locals = "table t { key = { h.x.a : ternary; } actions = { NoAction; } entries = { priority = 3 : 1 : "
                    "NoAction() @priority(2); } }"},
         "'priority =' and @priority in one table"},
        {"EntryTwiceWithOnePriority",
         {.locals = "table t { key = { h.x.a : ternary; } actions = { NoAction; } entries = { priority = 3 : 1 : "
                    "NoAction(); priority = 3 : 1 : NoAction(); } }"},
         "another entry has the same key and priority"},
        {"SupportTimeout",
         {.locals = "table t { key = { h.x.a : exact; } actions = { NoAction; } support_timeout = 3; }"},
         "support_timeout is true or false"},
        {"PriorityDeltaOfZero",
         {.locals = "table t { key = { h.x.a : ternary; } actions = { NoAction; } priority_delta = 0; entries = { 1 : "
                    "NoAction(); } }"},
         "priority_delta is at least 1"},
        {"LargestPriorityWins",
         {.locals = "table t { key = { h.x.a : ternary; } actions = { NoAction; } largest_priority_wins = 1; entries = "
                    "{ 1 : NoAction(); } }"},
         "largest_priority_wins is true or false"},
        {"EntryPriorityOfRunTime",
         {.locals = "table t { key = { h.x.a : ternary; } actions = { NoAction; } const entries = { 1 : NoAction() "
                    "@priority(h.x.a); } }"},
         "expected a constant of compile time"},
        {"StaticAssert",
         {.top = "const bool b = static_assert(1 == 2, \"one is not two\");"},
         "static_assert: one is not two"},
        {"StringWithoutEnd", {.top = "@name(\"x"}, "this string does not end on its line"},
        {"EntryTwice",
         {.locals = "table t { key = { h.x.a : exact; } actions = { NoAction; } const entries = { 1 : NoAction(); 1 : "
                    "NoAction(); } }"},
         "another entry has the same key"},
        {"PrefixMask",
         {.locals = "table t { key = { h.x.a : lpm; } actions = { NoAction; } const entries = { 1 &&& 0x55 : "
                    "NoAction(); } }"},
         "the mask of an lpm key"},
        {"MissingActionArgument",
         {.locals = "action a(in bit<8> x, bit<8> y) {} table t { actions = { a; } }"},
         "the arguments for the parameters with a direction are missing"},
        {"DefaultNotListed",
         {.locals = "action a() {} table t { actions = { NoAction; } default_action = a(); }"},
         "this is no action of the table"},
        {"RandomHash",
         {.body = "hash(h.x.a, HashAlgorithm.random, 8w0, { h.x.b }, 8w9);"},
         "unsupported: HashAlgorithm.random"},
        {"CloneInWrongPlace", {.body = "clone(CloneType.E2E, 5);"}, "clone is for Egress with CloneType.E2E"},
        {"RecirculateInIngress",
         {.body = "recirculate_preserving_field_list(1);"},
         "recirculate_preserving_field_list is for Egress"},
        {"ChecksumInIngress",
         {.body = "update_checksum(true, { h.x.a, h.x.b }, s.egress_rid, HashAlgorithm.csum16);"},
         "update_checksum is called in ComputeChecksum"},
        {"TableWithoutActions", {.locals = "table t { key = { h.x.a : exact; } }"}, "the table 't' has no 'actions'"},
        {"DataBeforeDirections",
         {.locals = "action f(bit<8> x, inout bit<8> y) {}"},
         "parameters of an action without a direction come last"},
        {"OldDropInTheParser", {.state = "mark_to_drop();"}, "mark_to_drop is for Ingress and Egress"},
        {"SliceWithWidthOutside", {.body = "h.x.a[5+:4] = 1;"}, "[8:5] is no slice of bit<8>"},
        {"SliceWithoutWidth", {.body = "h.x.a[0+:0] = 1;"}, "[0 +: 0] has no bits"},
        {"ListType", {.body = "list<bit<8>> x = { 1 };"}, "a variable cannot have the type list<bit<8>>"},
        {"ListWithoutType", {.body = "const list x = { 1 };"}, "list<T> has one type"},
        {"ListOfVariables",
         {.body = "const list<bit<8>> x = { h.x.a };"},
         "the value of a constant must be known at compile time"},
        {"ListWithRest", {.body = "const list<bit<8>> x = { 1, ... };"}, "a list cannot become a value of type list"},
        {"ListOfAnotherType",
         {.body = "const list<bit<8>> x = { 1 }; const list<bit<4>> y = x;"},
         "expected a value of type list<bit<4>>, found list<bit<8>>"},
        {"IndexOfList",
         {.body = "const list<bit<8>> x = { 1 }; h.x.a = x[0];"},
         "only stacks and tuples have an index"},
        {"ComparedLists",
         {.body = "const list<bit<8>> x = { 1 }; if (x == x) {}"},
         "cannot compare list<bit<8>> and list<bit<8>>"},
        {"LoopOverNamedListOfAnotherType",
         {.body = "const list<bit<8>> x = { 1 }; for (bit<4> y in x) {}"},
         "the elements have the type bit<8>, not bit<4>"},
        {"FieldOfList", {.top = "struct T { list<bit<8>> l; }"}, "this cannot have a field of type list<bit<8>>"},
        {"LookaheadOfStack", {.state = "x_t[2] y = b.lookahead<x_t[2]>();"}, "unsupported: lookahead of a stack"},
        {"TableWithTwoKeys",
         {.locals = "table t { key = { h.x.a: exact; } key = { h.x.b: exact; } actions = { NoAction; } }"},
         "the table has 'key' twice"},
        {"TableWithTwoDefaults",
         {.locals = "table t { actions = { NoAction; } default_action = NoAction; const default_action = NoAction; }"},
         "the table has 'default_action' twice"},
        {"TableOfNegativeSize",
         {.locals = "table t { key = { h.x.a: exact; } actions = { NoAction; } size = -1; }", .body = "t.apply();"},
         "the size of a table is a number of entries"},
        {"ConstructorAmongExpressions",
         {.top = "control Q() { apply {} }", .body = "h.x.a = Q();"},
         "unsupported: a constructor among expressions"},
        {"ConstructorOfAnotherControl",
         {.top = "control Q() { apply {} } control Z() { apply {} } control R()(Q q) { apply {} }",
          .locals = "R(Z()) r;"},
         "the argument for 'q' is no Q"},
        {"ControlWithOtherTypesThanItsPrototype",
         {.top = "control T(inout bit<8> x); control Z(inout bit<16> x) { apply {} } control R()(T q) { apply {} }",
          .locals = "R(Z()) r;"},
         "the argument for 'q' is no T"},
        {"ControlWithOtherDirectionsThanItsPrototype",
         {.top = "control T(inout bit<8> x); control Z(in bit<8> x) { apply {} } control R()(T q) { apply {} }",
          .locals = "R(Z()) r;"},
         "the argument for 'q' is no T"},
        {"ControlWithOtherTypesThanItsGenericPrototype",
         {.top = "control T<A>(inout A x); control Z(inout bit<16> x) { apply {} } control R()(T<bit<8>> q) { apply {} "
                 "}",
          .locals = "R(Z()) r;"},
         "the argument for 'q' is no T"},
        {"ConstructorOfAnotherExtern",
         {.top = "control R()(register<bit<8>> q) { apply {} }", .locals = "R(register<bit<16>>(1)) r;"},
         "the argument for 'q' is no register"},
        {"NumberForAControl",
         {.top = "control Q() { apply {} } control R()(Q q) { apply {} }", .locals = "R(4) r;"},
         "the argument for 'q' is no Q"},
        {"ControlForANumber",
         {.top = "control Q() { apply {} } control R()(bit<8> q) { apply {} }", .locals = "R(Q()) r;"},
         "expected a value of type bit<8>"},
        {"ConstructorAsArgumentWithoutItsOwn",
         {.top = "control Q()(bit<8> x) { apply {} } control R()(Q q) { apply {} }", .locals = "R(Q()) r;"},
         "the argument for 'x' is missing"},
        {"ControlAtTheTop",
         {.top = "control Q() { apply {} } Q() q;"},
         "a control or parser has no instances at the top level"},
        {"ControlInParser",
         {.top = "control Q() { apply {} } parser Z(packet_in b) { Q() q; state start { } }", .state = "Z.apply(b);"},
         "a parser contains no controls"},
        {"ParserInControl",
         {.top = "parser Z(packet_in b) { state start { } }", .locals = "Z() z;"},
         "a control contains no parsers"},
        {"ErrorInHeader", {.top = "header y_t { error e; }"}, "this cannot have a field of type error"},
        {"EnumerationInHeader", {.top = "enum E1 { a } header y_t { E1 e; }"}, "this cannot have a field of type E1"},
        {"EnumerationInStructureInHeader",
         {.top = "enum E1 { a } struct z_t { E1 e; } header y_t { z_t z; }"},
         "this cannot have a field of type z_t"},
        {"MemberTooLarge", {.top = "enum bit<8> E1 { a = 300 }"}, "300 does not fit bit<8>"},
        {"MemberTooSmall", {.top = "enum int<8> E1 { a = -129 }"}, "-129 does not fit int<8>"},
        {"LastIsRead", {.state = "b.extract(h.xs.next); h.xs.last.a = 1;"}, "this is read-only here"},
        {"SwitchInParser", {.state = "switch (m.m) { 1: { } }"}, "switch is not for parsers"},
        {"StateOfAVariable",
         {.top = "parser Z(packet_in b) { bit<8> t; state start { transition t; } state t { } }",
          .state = "Z.apply(b);"},
         "'t' is declared twice"},
        {"DefaultBeforeALabel",
         {.body = "switch (h.x.a) { default: { h.x.b = 1; } 1: { h.x.b = 2; } }"},
         "default is the last label"},
        {"DefaultBeforeAnAction",
         {.locals = "table t { actions = { NoAction; } }",
          .body = "switch (t.apply().action_run) { default: { h.x.b = 1; } NoAction: { h.x.b = 2; } }"},
         "default is the last label"},
        {"OtherArgumentThanListed",
         {.locals = "action a(in bit<8> x, bit<8> y) {} table t { actions = { a(h.x.a); } default_action = "
                    "a(h.x.b, 1); }"},
         "this argument is not the one in the table's list of actions"},
        {"OtherArgumentOfEntry",
         {.locals = "action a(in bit<8> x) {} table t { key = { h.x.c : exact; } actions = { a(h.x.a + 1); NoAction; } "
                    "const entries = { 1 : a(h.x.a + 2); } }"},
         "this argument is not the one in the table's list of actions"},
        {"NumberForANewTypeOfBool",
         {.top = "type bool id_t;", .body = "id_t i = 1;"},
         "a number cannot become a value of"},
        {"StructureThatContainsItself",
         {.top = "struct S<T> { S<T> x; } struct R<T> { T y; }", .body = "S<bit<8>> s; R<R<bit<8>>> r;"},
         "'S' contains itself"},
        {"StructureThatContainsMoreOfItself",
         {.top = "struct S<T> { S<tuple<T, T>> x; }", .body = "S<bit<8>> s;"},
         "'S' contains itself"},
        {"OverloadWithFewerParameters",
         {.top = "extern void truncate();", .body = "truncate();"},
         "unsupported: truncate() with 0 parameters"},
        {"BitsForANewType", {.top = "type bit<8> id_t;", .body = "id_t i = h.x.a;"}, "expected a value of type id_t"},
        {"NewTypeForBits",
         {.top = "type bit<8> id_t;", .body = "id_t i = (id_t)5; h.x.a = i;"},
         "expected a value of type bit<8>, found id_t"},
        {"SumOfANewType",
         {.top = "type bit<8> id_t;", .body = "id_t i = (id_t)5; i = i + i;"},
         "'+' cannot join id_t and id_t"},
        {"NewTypeLess",
         {.top = "type bit<8> id_t;", .body = "id_t i = (id_t)5; if (i < i) {}"},
         "'<' cannot compare id_t and id_t"},
        {"NewTypeOfAnotherWidth",
         {.top = "type bit<8> id_t;", .body = "id_t i = (id_t)16w5;"},
         "there is no cast from bit<16> to id_t"},
        {"SliceOfANewType",
         {.top = "type bit<8> id_t;", .body = "id_t i = (id_t)5; h.x.a[0:0] = i[0:0];"},
         "a slice is of a bit<N> or int<N>, not of id_t"},
        {"NewTypeOfAHeader", {.top = "type x_t y_t;"}, "a new type is made of bit<N>, int<N> or bool, not of x_t"},
        {"WidthOfABool", {.body = "bit<(true)> y;"}, "expected a number, found bool"},
        {"MessageOfANumber", {.body = "log_msg(5);"}, "log_msg needs a string"},
        {"MacroParameterTwice", {.top = "#define F(a, a) a"}, "this macro has the parameter 'a' twice"},
        {"SizeOfAnError", {.body = "h.x.a = s.parser_error.minSizeInBits();"}, "a value of type error has no size"},
        {"SizeInNothing",
         {.body = "h.x.a = h.x.minSizeInWords();"},
         "a value of type x_t has no method 'minSizeInWords'"},
        {"SizeWithArgument",
         {.body = "h.x.a = h.x.minSizeInBits(1);"},
         "a value of type x_t has no method 'minSizeInBits'"},
        {"ConstructorArgumentOfNoParameter",
         {.top = "control Q()(bit<8> x) { apply {} }", .locals = "Q(y = 1) q;"},
         "there is no parameter 'y'"},
        {"ConstructorArgumentMissing",
         {.top = "control Q()(bit<8> x, bit<8> y = 2) { apply {} }", .locals = "Q(y = 1) q;"},
         "the argument for 'x' is missing"},
        {"ConstructorArgumentTwice",
         {.top = "control Q()(bit<8> x) { apply {} }", .locals = "Q(x = 1, x = 2) q;"},
         "this argument is given twice"},
        {"ExternArgumentOfNoParameter",
         {.locals = "register<bit<8>>(length = 4) r;"},
         "there is no parameter 'length'"},
        {"EntryArgumentOfNoParameter",
         {.locals = "action f(bit<8> x) {} table t { key = { h.x.a : exact; } actions = { f; } const entries = { 1 : "
                    "f(y = 2); } }"},
         "there is no parameter 'y'"},
        {"EntryArgumentMissing",
         {.locals = "action f(bit<8> x, bit<8> y) {} table t { key = { h.x.a : exact; } actions = { f; } const entries "
                    "= { 1 : f(y = 2); } }"},
         "the argument for 'x' is missing"},
        {"OptionalParameter",
         {.top = "control Q(in bit<8> x, @optional in bit<8> y) { apply {} }"},
         "@optional is for parameters of packages, externs, and prototypes"},
        {"OptionalParameterOfAnAction",
         {.locals = "action f(@optional bit<8> x) {}"},
         "@optional is for parameters of packages, externs, and prototypes"},
        {"OptionalParameterOfAFunction",
         {.top = "void f(@optional in bit<8> x) {}"},
         "@optional is for parameters of packages, externs, and prototypes"},
        {"OptionalParameterWithADefault",
         {.top = "control Q(@optional in bit<8> x = 1);"},
         "an @optional parameter has no default value"},
        {"DefaultOfAnOut",
         {.top = "void f(out bit<8> x = 1) { x = 2; }"},
         "a parameter with 'out' or 'inout' has no default value"},
        {"DefaultOfAnInout",
         {.top = "control Q(inout bit<8> x = 1);"},
         "a parameter with 'out' or 'inout' has no default value"},
        {"DefaultOfAnotherType",
         {.top = "void f(in bit<8> x = true) {}"},
         "expected a value of type bit<8>, found bool"},
        {"DefaultOfThePacket",
         {.locals = "action f(in bit<8> x = h.x.a) {}"},
         "the default value of a parameter must be known at compile time"},
        {"DefaultOfACall",
         {.top = "bit<8> one() { return 1; } void f(in bit<8> x = one()) {}"},
         "the default value of a parameter must be known at compile time"},
        {"DefaultActionBeforeActions",
         {.locals = "table t { default_action = NoAction; actions = { NoAction; } }"},
         "default_action comes after 'actions'"},
        {"ConstActions",
         {.locals = "table t { const actions = { NoAction; } }"},
         "'actions' is no property that const is for"},
        {"ConstKey",
         {.locals = "table t { const key = { h.x.a : exact; } actions = { NoAction; } }"},
         "'key' is no property that const is for"},
        {"EntriesWithoutKey",
         {.locals = "table t { key = {} actions = { NoAction; } const entries = { _ : NoAction(); } }"},
         "a table without a key has no entries"},
        {"EntryWithoutTheArgumentThatIsListed",
         {.locals = "action a(in bit<8> x, bit<8> y) {} table t { key = { h.x.c : exact; } actions = { a(h.x.a); "
                    "NoAction; } const entries = { 1 : a(y = 2); } }"},
         "the argument for 'x' is missing"},
        {"DefaultActionWithoutTheArgumentThatIsListed",
         {.locals = "action a(in bit<8> x) {} table t { actions = { a(h.x.a); } default_action = a(); }"},
         "the argument for 'x' is missing"},
        {"TableInAnArgumentOfAnAction",
         {.locals = "action a(in bool x) {} table t { actions = { NoAction; } }", .body = "a(t.apply().hit);"},
         "a table is not applied in an argument of an action"},
        {"TableDeepInAnArgumentOfAnAction",
         {.top = "bool not(in bool x) { return !x; }",
          .locals = "action a(in bool x) {} table t { actions = { NoAction; } }",
          .body = "a(not(t.apply().hit));"},
         "a table is not applied in an argument of an action"},
        {"TableInAListOfActions",
         {.locals =
              "action a(in bool x) {} table t { actions = { NoAction; } } table u { actions = { a(t.apply().miss); "
              "NoAction; } }"},
         "a table is not applied in an argument of an action"},
        {"TableInTheValueOfAVariableOfTheControl",
         {.locals = "table t { actions = { NoAction; } } bool b = t.apply().hit;"},
         "a table is not applied in the first value of a variable of the control"},
        {"WidthWithALargeLetter", {.body = "h.x.a = 8W10;"}, "'8W10' is not a number"},
        {"WidthAndSignWithALargeLetter", {.body = "h.x.s = 8S10;"}, "'8S10' is not a number"},
        {"WidthWithAnUnderscore", {.body = "h.x.a = 1_6w5[7:0];"}, "'1_6w5' is not a number"},
        {"MatchKindTwice", {.top = "match_kind { exact }"}, "the match kind 'exact' is declared twice"},
        {"EnumerationWithoutMembers", {.top = "enum E1 { }"}, "expected the name of a member"},
        {"ErrorsWithoutMembers", {.top = "error { }"}, "expected the name of a member"},
        {"ParserWithoutStates", {.top = "parser Q(packet_in b) { }"}, "the parser has no state 'start'"},
        {"ParserWithoutStart",
         {.top = "parser Q(packet_in b)(bit<8> x) { state first { } }"},
         "the parser has no state 'start'"},
        {"StateTwice",
         {.top = "parser Q(packet_in b)(bit<8> x) { state start { } state s { } state s { } }"},
         "the state 's' is there twice"},
        {"StateAccept",
         {.top = "parser Q(packet_in b) { state start { } state accept { } }"},
         "the state 'accept' is there twice"},
        {"VariableAfterTheStates",
         {.top = "parser Q(packet_in b) { state start { } bit<8> x; }"},
         "expected a state: what else a parser declares comes before its states"},
        {"GenericParser",
         {.top = "parser Q<T>(packet_in b, in T x) { state start { } }"},
         "'Q' has a body, so it has no type parameters"},
        {"GenericControl",
         {.top = "control Q<T>(in T x) { apply {} }"},
         "'Q' has a body, so it has no type parameters"},
        {"DirectionOfAPackage",
         {.top = "control Q(); package Z(in Q x);"},
         "the parameter 'x' of a constructor has no direction"},
        {"DirectionOfAnExternsConstructor",
         {.top = "extern Z { Z(in bit<8> x); }"},
         "the parameter 'x' of a constructor has no direction"},
        {"MethodTwice",
         {.top = "extern Z { Z(); void f(in bit<8> x); void f(in bit<16> x); }"},
         "'f' is declared twice with these parameters"},
        {"ConstructorTwice", {.top = "extern Z { Z(); Z(); }"}, "'Z' is declared twice with these parameters"},
        {"DeclarationAsABranch", {.body = "if (h.x.a == 1) bit<8> y = 1;"}, "a declaration here needs a block"},
        {"DeclarationAsAnElse", {.body = "if (h.x.a == 1) {} else const bit<8> y = 1;"}, "a declaration here needs a"},
        {"DeclarationAsALoop", {.body = "for (bit<8> i in 0 .. 3) bit<8> y = 1;"}, "a declaration here needs a block"},
        {"TypedefOfVoid", {.top = "typedef void nothing;"}, "a typedef cannot be of void"},
        {"TypedefOfString", {.top = "typedef string words;"}, "a typedef cannot be of string"},
        {"ControlAsAParameter",
         {.top = "control R(); control Q(R x) { apply {} }"},
         "the parameter 'x' cannot have the type R"},
        {"ParserAsAParameterOfAFunction",
         {.top = "parser R(packet_in b); void f(R x) {}"},
         "the parameter 'x' cannot have the type R"},
        {"PackageAsAParameterOfAPrototype",
         {.top = "control R(); package Z(R r); control Q(Z x);"},
         "the parameter 'x' cannot have the type Z"},
        {"ParserForTheConstructorOfAControl",
         {.top = "parser R(packet_in b); control Q()(R x) { apply {} }"},
         "the parameter 'x' cannot have the type R"},
        {"ControlForTheConstructorOfAParser",
         {.top = "control R(); parser Q(packet_in b)(R x) { state start { } }"},
         "the parameter 'x' cannot have the type R"},
        {"ControlForTheConstructorOfAnExtern",
         {.top = "control R(); extern Z { Z(R x); }"},
         "the parameter 'x' cannot have the type R"},
        {"VoidAsAParameter", {.top = "void f(void x) {}"}, "the parameter 'x' cannot have the type void"},
        {"StringWithADirection",
         {.top = "void f(in string x) {}"},
         "the parameter 'x' has the type string, so it has no direction"},
        {"ExternWithADirection",
         {.top = "void f(in counter x) {}"},
         "the parameter 'x' has the type counter, so it has no direction"},
        {"ExternAsAParameterOfAnAction",
         {.locals = "action f(counter x) {}"},
         "the parameter 'x' of an action cannot have the type counter"},
        {"FunctionThatGivesBackAControl", {.top = "control R(); R f() {}"}, "'f' cannot give back a value of type R"},
        {"MethodThatGivesBackAnExtern",
         {.top = "extern Z { counter f(); }"},
         "'f' cannot give back a value of type counter"},
        {"ValueSetOfTruths",
         {.top = "parser Q(packet_in b) { value_set<bool>(4) v; state start { } }"},
         "the members of a value_set are numbers, serializable enums, structures or tuples, not bool"},
        {"ValueSetOfAnEnumeration",
         {.top = "enum E1 { a } parser Q(packet_in b) { value_set<E1>(4) v; state start { } }"},
         "the members of a value_set are numbers, serializable enums, structures or tuples, not E1"},
        {"MaskOfTruths",
         {.top = "parser Q(packet_in p, in M m) { state start { transition select(m.m == 1) { true &&& true : accept; "
                 "} } }"},
         "a mask or a range is of numbers, not of bool"},
        {"RangeOfAnEnumeration",
         {.top = "enum E1 { a, b } parser Q(packet_in p) { state start { E1 e = E1.a; transition select(e) { E1.a .. "
                 "E1.b : accept; } } }"},
         "a mask or a range is of numbers, not of E1"},
        {"SelectOfAHeader",
         {.top = "parser Q(packet_in p, in H h) { state start { transition select(h.x) { _ : accept; } } }"},
         "a select is of numbers with a width, bool, enums and tuples of these, not of x_t"},
        {"ExtractOfAnotherType", {.state = "b.extract<M>(h.x);"}, "expected a value of type M, found x_t"},
        {"EmitOfAnotherType", {.deparse = "b.emit<M>(h.x);"}, "expected a value of type M, found x_t"},
        {"AdvanceOfAType", {.state = "b.advance<bit<8>>(8);"}, "'advance' has no type parameters"},
        {"DigestOfAnotherType", {.body = "digest<M>(1, h.x.a);"}, "expected a value of type M, found bit<8>"},
        {"DigestOfTwoTypes", {.body = "digest<M, M>(1, m);"}, "'digest' has 1 type parameters"},
        {"HashOfAnotherType",
         {.body = "hash<bit<8>, bit<8>, tuple<bit<8>>, bit<8>>(h.x.a, HashAlgorithm.crc16, 0, { h.x.b, h.x.c }, 9);"},
         "2 values for the 1 fields of tuple<bit<8>>"},
        {"MethodOfAType",
         {.locals = "register<bit<8>>(1) r;", .body = "r.write<bit<8>>(0, 1);"},
         "'write' has 0 type parameters"},
        {"ActionOfAType", {.locals = "action f() {}", .body = "f<bit<8>>();"}, "an action has no type parameters"},
        {"ApplyOfAType",
         {.top = "control Q() { apply {} }", .locals = "Q() q;", .body = "q.apply<bit<8>>();"},
         "'apply' has no type parameters"},
        {"TableOfAControlInstance",
         {.top = "control Q() { table t { actions = { NoAction; } } apply {} }",
          .locals = "Q() q;",
          .body = "q.t.apply();"},
         "this has no member 't'"},
        {"MethodOfAMemberOfARegister",
         {.locals = "register<bit<8>>(1) r;", .body = "r.first.write(0, 1);"},
         "this has no member 'first'"},
        {"ApplyOfAMemberOfATable",
         {.locals = "table t { actions = { NoAction; } }", .body = "t.hit.apply();"},
         "this has no member 'hit'"},
        {"ExternFunctionTwice",
         {.top = "extern void f(in bit<8> x); extern void f(in bit<16> x);"},
         "'f' is declared twice with these parameters"},
        {"WidthWithoutParentheses",
         {.top = "const int N = 8;", .body = "bit<N> x;"},
         "a width is a number, or an expression in parentheses"},
        {"MeterOfACounterType",
         {.locals = "meter(4, CounterType.packets) r;"},
         "expected a value of type MeterType, found CounterType"},
        {"ActionProfileOfATruth",
         {.locals =
              "table t { key = { h.x.a : exact; } actions = { NoAction; } implementation = action_profile(true); }"},
         "expected a value of type bit<32>, found bool"},
        {"ActionProfileOfThePacket",
         {.locals = "action_profile((bit<32>)h.x.a) p;"},
         "the arguments of a constructor are constants"},
        {"DirectMeterOfAnotherWidth",
         {.locals = "direct_meter<bit<8>>(MeterType.packets) r; action f() { bit<4> x; r.read(x); }"},
         "the meter gives bit<8>, not bit<4>"},
        {"MessageOfStaticAssert",
         {.top = "const bool b = static_assert(true, 5);"},
         "the message of static_assert is a string"},
        {"EnumerationOfAnotherSign",
         {.top = "enum bit<8> E1 { a = 1 }", .body = "E1 e = (E1)h.x.s;"},
         "there is no cast from int<8> to E1"},
        {"ChoiceOfTwoNumbers",
         {.body = "h.x.a = h.x.b == 1 ? 2 : 3;"},
         "the width of this value is not known: write a number with its width"},
        {"ChoiceOfTwoNumbersWithEffects",
         {.top = "bool f() { return true; }", .body = "h.x.a = f() ? 2 : 3;"},
         "the width of this value is not known: write a number with its width"},
        {"NameTwice", {.locals = "@name(\"a\") @name(\"b\") action f() {}"}, "@name is there twice"},
        {"NameOfNothing", {.locals = "@name action f() {}"}, "@name needs one string"},
        {"AnnotationInBracketsTwice", {.locals = "@note[1] @note[2] action f() {}"}, "@note is there twice"},
        {"AnnotationInBothBrackets", {.locals = "@note(1) @note[2] action f() {}"}, "@note is there twice"},
        {"AnnotationThatNamesAPartTwice", {.locals = "@note[a = 1, a = 2] action f() {}"}, "'a' is there twice"},
        {"AnnotationThatNamesSomeParts",
         {.locals = "@note[a = 1, 2] action f() {}"},
         "either all parts of an annotation in brackets have names or none"},
        {"AnnotationThatDoesNotEnd", {.locals = "@note[1 action f() {}"}, "expected ',', found 'action'"},
        {"SelectOfAnError",
         {.top = "parser Q(packet_in p, in error e) { state start { transition select(e) { _ : accept; } } }"},
         "a select is of numbers with a width, bool, enums and tuples of these, not of error"},
        {"SelectOfAStructure",
         {.top = "parser Q(packet_in p, in M m) { state start { transition select(m) { _ : accept; } } }"},
         "a select is of numbers with a width, bool, enums and tuples of these, not of M"},
        {"SelectOfANumber",
         {.top = "parser Q(packet_in p) { state start { transition select(5) { _ : accept; } } }"},
         "a select is of numbers with a width, bool, enums and tuples of these, not of int"},
        {"ResultsOfTables",
         {.locals = "table t { actions = { NoAction; } }", .body = "if (t.apply() == t.apply()) {}"},
         "what a table gives back cannot be compared"},
        {"LogOfATable",
         {.locals = "table t { actions = { NoAction; } }", .body = "log_msg(\"{}\", { h.x.a, t });"},
         "this has no value that could be written"},
        {"StackWithTooFewElements", {.body = "h.xs = { { 1, 2, 3, 4 } };"}, "1 elements for a stack of 2"},
        {"NumberWithADirection",
         {.top = "void f(in int x) {}"},
         "the parameter 'x' has the type int, so it has no direction"},
        {"NumberAsAParameterOfAnAction",
         {.locals = "action f(int x) {}"},
         "the parameter 'x' of an action cannot have the type int"},
        {"ErrorWithAValue", {.top = "error { Z = 1 }"}, "'Z' has no value"},
        {"MatchKindWithAValue", {.top = "match_kind { z = 1 }"}, "'z' has no value"},
        {"DefaultActionOfTheSameName",
         {.top = "action f() {}", .locals = "action f() {} table t { actions = { f; } default_action = .f(); }"},
         "this is another action than the 'f' in the table's list"},
        {"EntryOfTheSameName",
         {.top = "action f() {}",
          .locals =
              "action f() {} table t { key = { h.x.a : exact; } actions = { .f; } const entries = { 1 : f(); } }"},
         "this is another action than the 'f' in the table's list"},
        {"LabelOfTheSameName",
         {.top = "action f() {}",
          .locals = "action f() {} table t { actions = { f; } }",
          .body = "switch (t.apply().action_run) { .f: {} }"},
         "'f' is another action of this table"},
        {"TypedefWithoutTypes", {.top = "typedef register memory;"}, "'register' has 1 type parameters"},
        {"TypedefOfAPrototypeWithoutTypes",
         {.top = "control Q<A, B>(in A x, in B y); typedef Q<bit<8>> R;"},
         "'Q' has 2 type parameters"},
        {"ValidityOfAType", {.body = "h.x.setValid<bit<8>>();"}, "'setValid' has no type parameters"},
        {"SeveralExterns",
         {.top = "control Q(register<bit<8>> r) { apply { r.write(0, 1); } }",
          .locals = "register<bit<8>>(1) a; register<bit<8>>(1) b; Q() q;",
          .body = "q.apply(a); q.apply(b);"},
         "unsupported: an instance of a control that is applied with several registers"},
        {"ExternOfAnotherType",
         {.top = "control Q(register<bit<8>> r) { apply { r.write(0, 1); } }",
          .locals = "register<bit<16>>(1) a; Q() q;",
          .body = "q.apply(a);"},
         "this is not what the parameter 'r' needs"},
        {"ExternForFunction",
         {.top = "void f(counter c) { c.count(0); }", .body = "f(h.x.a);"},
         "this is not what the parameter 'c' needs"},
        {"ExternsAndItself",
         {.top = "control Q(register<bit<8>> r) { Q() q; apply { q.apply(r); } }",
          .locals = "register<bit<8>>(1) a; Q() q;",
          .body = "q.apply(a);"},
         "a control cannot contain itself"},
        {"SelectWithoutCases",
         {.top = "parser Q(packet_in b) { state start { transition select() { } } }", .state = "Q.apply(b);"},
         "a select of nothing needs a default"},
        {"SelectOfNothing",
         {.top = "parser Q(packet_in b) { state start { transition select() { 1: accept; } } }",
          .state = "Q.apply(b);"},
         "1 sets for 0 keys"},
        {"SaturationWithoutWidth", {.body = "h.x.a = 1 |+| 2;"}, "'|+|' needs a value of known width"},
        {"OldResubmitOfAHeader",
         {.body = "resubmit({ m, h.x });"},
         "unsupported: keeping what is no field of the metadata"},
        {"OldResubmitOfALocal",
         {.body = "bit<8> v = 1; resubmit({ v });"},
         "unsupported: keeping what is no field of the metadata"},
        {"OldResubmitOfAParameter",
         {.top = "control W(inout H h, in M a, in M b) { apply { resubmit({ b.m }); } }",
          .locals = "W() w;",
          .body = "M other; other.m = 1; w.apply(h, m, m); w.apply(h, m, other);"},
         "unsupported: keeping what is no field of the metadata ('W' keeps fields of 'b')"},
        {"OldResubmitOfAParameterWithin",
         {.top = "control U(in M a) { apply { resubmit({ a }); } } control W(inout M b) { U() u; apply { u.apply(b); } "
                 "}",
          .locals = "W() w;",
          .body = "M other; other.m = 1; w.apply(m); w.apply(other);"},
         "unsupported: keeping what is no field of the metadata ('W' keeps fields of 'b')"},
        {"OldRecirculateInIngress", {.body = "recirculate({ m });"}, "recirculate is for Egress"},
        {"OldCloneWithoutData", {.body = "clone3(CloneType.I2E, 1);"}, "clone3 needs 3 arguments, not 2"},
        {"ListInSelectOfAnotherLength",
         {.top = "parser Q(packet_in b, out H h, inout M m) { state start { transition select(m.m, {m.m, m.m}) { "
                 "(1, {2, 3, 4}): accept; } } }"},
         "3 sets for 2 keys"},
        {"TupleInSelectOfAnotherLength",
         {.top = "parser Q(packet_in b, out H h, inout M m) { tuple<bit<8>, bool> t; state start { "
                 "t = { m.m, true }; transition select(t) { (1, true, 2): accept; } } }"},
         "3 sets for 2 keys"},
        // Of several keys a tuple is one: its sets are in braces.
        {"TupleInSelectWithoutBraces",
         {.top = "parser Q(packet_in b, out H h, inout M m) { tuple<bit<8>, bool> t; state start { "
                 "t = { m.m, true }; transition select(t, m.m) { (1, true, 2): accept; } } }"},
         "3 sets for 2 keys"},
        {"ListInSelectWithoutBraces",
         {.top = "parser Q(packet_in b, out H h, inout M m) { state start { transition select({m.m, m.m}, m.m) { "
                 "(1, 2, 3): accept; } } }"},
         "3 sets for 2 keys"},
        {"TupleInSelectOfAnotherType",
         {.top = "parser Q(packet_in b, out H h, inout M m) { tuple<bit<8>, bool> t; state start { "
                 "t = { m.m, true }; transition select(t) { (1, 2): accept; } } }"},
         "a number cannot become a value of type bool"},
        {"DataOfAnotherTypeThanWritten",
         {.body = "hash<bit<8>, bit<8>, tuple<bit<8>>, bit<8>>(h.x.a, HashAlgorithm.crc16, 0, { 1, 2 }, 4);"},
         "2 values for the 1 fields of tuple<bit<8>>"},
        {"DigestOfAnotherTypeThanWritten", {.body = "digest<M>(1, 5);"}, "a number cannot become a value of type M"},
        {"DigestWithTwoTypes", {.body = "digest<M, M>(1, m);"}, "'digest' has 1 type parameters"},
        {"StringAndBits", {.body = "log_msg(\"a\" ++ 8w1);"}, "'++' joins two strings, or two values of known width"},
        {"InstanceOfExternWithAbstractMethod",
         {.top = "extern Ex { Ex(); abstract void f(); }", .locals = "Ex() e;"},
         "unsupported: the extern Ex"},
        {"AbstractConstructor", {.top = "extern Ex { abstract Ex(); }"}, "expected the name of a method, found '('"},
        {"PacketLength", {.state = "m.m = (bit<8>)b.length()[7:0];"}, "unsupported: packet_in.length"},
        {"HeaderOfBits",
         {.top = "header y_t { bit<7> a; }", .state = "y_t y; b.extract(y);"},
         "unsupported: the header y_t has 7 bits"},
        {"ExtractStructure", {.state = "b.extract(m);"}, "extract needs a header, not M"},
        {"UnknownState",
         {.top = "parser Q(packet_in b) { state start { transition other; } }", .state = "Q.apply(b);"},
         "there is no state 'other'"},
        {"NextInControl", {.body = "h.xs.next.a = 1;"}, "'next' of a stack is defined in parsers only"},
        {"IndexOutside", {.body = "h.xs[2].a = 1;"}, "the index 2 is out of range"},
        {"EmitNumber", {.deparse = "b.emit(h.x.a);"}, "only headers can be emitted"},
        {"Overload",
         {.top = "void f(in bit<8> x) {} void f(in bit<16> y) {}"},
         "unsupported: two functions with the name 'f' and 1 parameters"},
        {"FunctionTwice",
         {.top = "void f(in bit<8> x) {} void f(in bit<16> x) {}"},
         "'f' is declared twice with these parameters"},
        {"FunctionWithTheNameOfMain", {.top = "void main() {}"}, "'main' is declared twice"},
        {"OverloadForNoCall",
         {.top = "void f(in bit<8> x) {} void f(in bit<8> x, in bit<8> y) {}", .body = "f();"},
         "none of the functions with the name 'f' takes these arguments"},
        {"OverloadForTwo",
         {.top = "void f(in bit<8> x) {} void f(in bit<8> x, in bit<8> y = 1) {}", .body = "f(1);"},
         "several of the functions with the name 'f' take these arguments"},
        {"DeclaredTwice", {.body = "bit<8> x; bit<8> x;"}, "'x' is declared twice"},
        {"ExternOfOthers",
         {.top = "extern void magic(in bit<8> x);", .body = "magic(h.x.a);"},
         "unsupported: the extern function 'magic'"},
        {"GenericStructure",
         {.top = "struct S<T> { T x; }", .body = "S<bit<8>, bit<8>> y;"},
         "'S' has 1 type parameters"},
        {"GenericStructuresDiffer",
         {.top = "struct S<T> { T x; }", .body = "S<bit<8>> y = { 1 }; S<bit<4>> z = y;"},
         "expected a value of type S<bit<4>>, found S<bit<8>>"},
        {"GenericFunction",
         {.top = "T f<T>(in T x) { return x; }", .body = "f(1);"},
         "the arguments do not say what the type T is; write f<...>(...)"},
        {"NumberWithoutWidth",
         {.body = "bool x = 1 == 1; h.x.a = (x ? 1 : 2) ++ 4w0;"},
         "the width of this value is not known"},
        {"TooFewValues", {.body = "h.x = { 1, 2 };"}, "2 values for the 4 fields of x_t"},
        {"MissingSemicolon", {.body = "h.x.a = 1"}, "expected ';', found '}'"},
        {"MissingParenthesis", {.body = "if (h.x.a == 1 { }"}, "expected ')', found '{'"},
        {"BadCharacter", {.body = "h.x.a = 1 $ 2;"}, "P4 has no character 0x24"},
        {"BadLiteral", {.body = "h.x.a = 0b12;"}, "'0b12' is not a number"},
        {"OpenComment", {.body = "/* h.x.a = 1;"}, "this comment does not end"},
    }),
    [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(Refused, WhatNothingUsesIsChecked) {
  EXPECT_THAT(error_of(program({.top = "control Q(inout H h) { apply { h.zz = 1; } }"})),
              HasSubstr("H has no field 'zz'"));
  EXPECT_THAT(error_of(program({.top = "parser Q(packet_in b) { state start { transition nowhere; } }"})),
              HasSubstr("there is no state 'nowhere'"));
  EXPECT_THAT(error_of(program({.top = "action q(inout bit<8> x) { frobnicate(x); }"})),
              HasSubstr("'frobnicate' is not declared"));
  EXPECT_THAT(error_of(program({.top = "bit<8> q(in bit<8> x) { bit<8> y = 16w3; return y; }"})), HasSubstr("bit<16>"));
  // What is P4 and only not taken here leaves the rest of the program usable; the same where it is used does not.
  EXPECT_EQ(error_of(program({.top = "control Q(inout H h) { apply { bit<129> v; } }"})), "accepted");
  // Nor does where it ended matter for what comes after it.
  EXPECT_EQ(
      error_of(program({.top = "control Q() { action f(in bit<8> x) {} apply { f((bit<8>)((1 << 16384) >> 16384)); } } "
                               "control R() { table t { actions = { NoAction; } } apply { if (t.apply().hit) {} } }"})),
      "accepted");
  // It leaves nothing behind.
  const auto made = compile(program({.top = "control Q(inout H h) { register<bit<8>>(4) r; action a() {} table t { "
                                            "key = { h.x.a : exact; } actions = { a; } } apply { t.apply(); } }"}),
                            "t.p4");
  EXPECT_TRUE(made->info().tables.empty());
  EXPECT_TRUE(made->info().registers.empty());
}

TEST(Refused, AControlMayHaveTheNameOfAnExternFunction) {
  EXPECT_EQ(
      error_of(program({.top = "control hash(inout H h) { apply { hash(h.x.a, HashAlgorithm.crc16, 8w0, { h.x.b }, "
                               "16w4); } }",
                        .locals = "hash() c;",
                        .body = "c.apply(h);"})),
      "accepted");
}

TEST(Refused, AFunctionReturnsOnEveryPath) {
  EXPECT_THAT(error_of(program({.top = "bit<8> q(in bit<8> x) { if (x == 1) { return x; } }"})),
              HasSubstr("'q' does not return a value on every path"));
  EXPECT_THAT(error_of(program({.top = "bit<8> q(in bit<8> x) { switch (x) { 1: { return x; } } }"})),
              HasSubstr("'q' does not return a value on every path"));
  EXPECT_EQ(
      error_of(program({.top = "bit<8> q(in bit<8> x) { if (x == 1) { return x; } else { return 2; } }"
                               "bit<8> p(in bit<8> x) { switch (x) { 1: 2: { return x; } default: { return 3; } } }"
                               "bit<8> o(in bit<8> x) { { return x; } }"})),
      "accepted");
}

// Each of these would take years or all memory.
TEST(Refused, SmallProgramsThatGrow) {
  std::string controls = "control C0() { apply {} }\n";
  std::string macros = "#define A0\n";
  for (int i = 1; i < 40; ++i) {
    controls += fmt::format("control C{0}() {{ C{1}() x; C{1}() y; apply {{ x.apply(); y.apply(); }} }}\n", i, i - 1);
    macros += fmt::format("#define A{0} A{1} A{1}\n", i, i - 1);
  }
  EXPECT_THAT(error_of(program({.top = controls, .locals = "C39() c;"})), HasSubstr("unsupported: more than"));
  EXPECT_THAT(error_of(program({.top = macros, .body = "A39"})), HasSubstr("macro expansions"));
  EXPECT_THAT(error_of(program({.locals = "register<bit<128>>(268435456) r;"})),
              HasSubstr("unsupported: registers of more than 1 GiB"));
}

TEST(Refused, ThePackageHasTheTypesOfItsParts) {
  const auto with = [](const std::string& types) {
    std::string text = program({});
    return error_of(text.replace(text.rfind("V1Switch"), 8, "V1Switch" + types));
  };
  EXPECT_EQ(with("<H, M>"), "accepted");
  EXPECT_THAT(with("<M, H>"), HasSubstr("the parts of V1Switch have the types H, M"));
  EXPECT_THAT(with("<H>"), HasSubstr("'V1Switch' has 2 type parameters"));
}

// What P4 has no rule against.
TEST(Refused, EntriesMayComeBeforeActionsAndKey) {
  EXPECT_EQ(error_of(program({.locals = "table t { const entries = { 1 : NoAction(); } actions = { NoAction; } key = { "
                                        "h.x.a : exact; } }",
                              .body = "t.apply();"})),
            "accepted");
}

TEST(Refused, AnActionMayBeNamedAsTheGlobalOneThatItIs) {
  EXPECT_EQ(
      error_of(program({.top = "action f() {}",
                        .locals = "table t { key = { h.x.a : exact; } actions = { f; } const entries = { 1 : .f(); } "
                                  "default_action = .f(); }",
                        .body = "switch (t.apply().action_run) { .f: {} }"})),
      "accepted");
}

TEST(Refused, AStackMayGetItsRestByDefault) {
  EXPECT_EQ(error_of(program({.body = "h.xs = { { 1, 2, 3, 4 }, ... }; log_msg(\"{}\", { h.x.a, h.xs[0] });"})),
            "accepted");
}

TEST(Refused, AnnotationsThatAreTaken) {
  EXPECT_EQ(
      error_of(program({.locals = "@note(1) @note(2) @other[] @third[1, \"two\", 1 == 2] @fourth[a = 1, b = true] "
                                  "action f() {}"})),
      "accepted");
}

TEST(Refused, AChoiceThatIsMadeByTheCompilerNeedsNoWidth) {
  EXPECT_EQ(error_of(program({.top = "const bool kLarge = true; bool f() { return true; }",
                              .body = "h.x.a = kLarge ? 2 : 3; h.x.a = f() ? 2 : 8w3;"})),
            "accepted");
}

TEST(Refused, TablesInOtherArgumentsAndInKeysAreTaken) {
  EXPECT_EQ(error_of(program({.top = "bool same(in bool x) { return x; }",
                              .locals = "table t { actions = { NoAction; } } table u { key = { t.apply().hit : exact "
                                        "@name(\"hit\"); } actions = { NoAction; } }",
                              .body = "bool b = same(t.apply().hit); if (b) { u.apply(); }"})),
            "accepted");
}

TEST(Refused, ConditionsOfThePreprocessor) {
  EXPECT_THAT(error_of("#if 1\n"), HasSubstr("#endif is missing"));
  EXPECT_THAT(error_of("#endif\n"), HasSubstr("#endif without #if"));
  EXPECT_THAT(error_of("#if 1 / 0\n#endif\n"), HasSubstr("division by zero"));
  EXPECT_THAT(error_of("#include <missing.p4>\n"), HasSubstr("there is no file missing.p4"));
  EXPECT_THAT(error_of("#error stop here\n"), HasSubstr("#error stop here"));
  EXPECT_THAT(error_of("#define F(a) a\nconst bit<8> x = F(1, 2);\n"), HasSubstr("this macro has 1 parameters, not 2"));
  EXPECT_THAT(error_of(""), HasSubstr("the program has no 'V1Switch(...) main;'"));
}

TEST(Refused, DeepNestingEndsWithAnErrorAndNotWithTheStack) {
  std::string chain = "if (h.x.a == 0) {}";
  std::string cases;
  for (int i = 0; i < 20'000; ++i) {
    chain += " else if (h.x.a == 1) {}";
    cases += fmt::format("{}: {{}}", i);
  }
  EXPECT_THAT(error_of(program({.body = chain})), HasSubstr("unsupported: a chain of more than 1000 'if'"));
  EXPECT_THAT(error_of(program({.body = "bit<32> x = 1; switch (x) {" + cases + "}"})),
              HasSubstr("unsupported: a switch with more than 2048 labels"));
  const std::string deep(100'000, '(');
  EXPECT_THAT(error_of(program({.body = "h.x.a = " + deep})), HasSubstr("unsupported: nesting this deep"));
  std::string sum = "1";
  for (int i = 0; i < 50'000; ++i) {
    sum += " + 1";
  }
  EXPECT_THAT(error_of(program({.body = "h.x.a = " + sum + ";"})), HasSubstr("unsupported: nesting this deep"));
}

// The largest width is one of a slice, too.
TEST(Refused, ASliceOfAllBitsIsTaken) {
  EXPECT_EQ(error_of(program({.body = "bit<16384> x = 0; x[h.x.a +: 16384] = 5; h.x.b = x[7:0];"})), "accepted");
}

// As the reference compiler does.
TEST(Refused, ALastLabelWithoutABlockIsTakenWithAWarning) {
  for (const char* const cases : {"1: {} default:", "1: { h.x.b = 1; } 2:", "1: 2:", "default:"}) {
    std::vector<std::string> warnings;
    CompileOptions options;
    options.warnings = &warnings;
    static_cast<void>(compile(program({.body = fmt::format("switch (h.x.a) {{ {} }}", cases)}), "t.p4", options));
    EXPECT_THAT(warnings, testing::ElementsAre(HasSubstr("warning: the last label has no block"))) << cases;
  }
}

// As the reference compiler does: architectures may have properties of their own.
TEST(Refused, APropertyThatV1modelDoesNotHaveIsIgnoredWithAWarning) {
  std::vector<std::string> warnings;
  CompileOptions options;
  options.warnings = &warnings;
  static_cast<void>(
      compile(program({.locals = "table t { key = { h.x.a : exact; } actions = { NoAction; } colour = 1; }",
                       .body = "t.apply();"}),
              "t.p4", options));
  EXPECT_THAT(warnings, testing::ElementsAre(HasSubstr("warning: the table property 'colour' is not known")));
}

}  // namespace
}  // namespace sidelatch::p4
