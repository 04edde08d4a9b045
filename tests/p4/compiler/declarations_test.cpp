// Names, parameters and their directions, and what can be assigned to. Source: the P4_16 specification, 6.7 and 6.8.
#include "p4/compiler/builtin.h"
#include "tests/p4/program_of_parts.h"

#include <sidelatch/p4/switch.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {
namespace declarations {

using testing::HasSubstr;
using testing::StartsWith;

// The program without anything in it, with another text in one place.
std::string with(const std::string& text, const std::string& replacement) {
  std::string whole = program({});
  const std::size_t at = whole.find(text);
  EXPECT_NE(at, std::string::npos) << text;
  return whole.replace(at, text.size(), replacement);
}

TEST(Declarations, ThePartsOfV1SwitchHaveItsDirections) {
  EXPECT_THAT(
      error_of(with("control D(packet_out b, in H h)", "control D(packet_out b, inout H h)")),
      StartsWith("t.p4:15:33: error: the parameter 'h' of 'D' has 'inout'; Deparser of v1model needs 'in' here"));
  EXPECT_THAT(error_of(with("control E(inout H h", "control E(out H h")),
              HasSubstr("the parameter 'h' of 'E' has 'out'; Egress of v1model needs 'inout' here"));
  EXPECT_THAT(error_of(with("control E(inout H h, inout M m, inout", "control E(inout H h, inout M m, ")),
              HasSubstr("the parameter 's' of 'E' has no direction; Egress of v1model needs 'inout' here"));
  EXPECT_THAT(error_of(with("parser P(packet_in b, out H h", "parser P(packet_in b, inout H h")),
              HasSubstr("the parameter 'h' of 'P' has 'inout'; Parser of v1model needs 'out' here"));
  EXPECT_THAT(error_of(with("control V(inout H h, inout M m)", "control V(in H h, inout M m)")),
              HasSubstr("VerifyChecksum of v1model needs 'inout' here"));
  EXPECT_THAT(error_of(with("control V(inout H h, inout M m)", "control V(inout H h)")),
              HasSubstr("'V' has 1 parameters; v1model needs 2"));
}

TEST(Declarations, AnExternHasNoDirection) {
  EXPECT_THAT(error_of(program({.top = "control Q(in register<bit<8>> r) { apply { r.write(0, 1); } }",
                                .locals = "register<bit<8>>(1) r; Q() q;",
                                .body = "q.apply(r);"})),
              HasSubstr("the parameter 'r' has the type register, so it has no direction"));
  EXPECT_THAT(error_of(program(
                  {.top = "parser Q(in packet_in b) { state start { transition accept; } }", .state = "Q.apply(b);"})),
              HasSubstr("the parameter 'b' has the type packet_in, so it has no direction"));
}

constexpr const char* kKnown = "must be known when the program is compiled";

TEST(Declarations, WithoutADirectionAnArgumentIsKnownToTheCompiler) {
  const std::string control = "control Q(bit<8> x, out bit<8> y) { apply { y = x; } }\n";
  const std::string both = control + "control R(bit<8> x, out bit<8> y) { Q() q; apply { q.apply(x, y); } }\n";
  EXPECT_THAT(error_of(program({.top = control, .locals = "Q() q;", .body = "q.apply(h.x.a, h.x.b);"})),
              HasSubstr(kKnown));
  EXPECT_EQ(error_of(program({.top = both, .locals = "R() r;", .body = "r.apply(3, h.x.b);"})), "accepted");
  EXPECT_THAT(error_of(program({.top = "void f(bit<8> x, out bit<8> y) { y = x; }", .body = "f(h.x.a, h.x.b);"})),
              HasSubstr(kKnown));
  EXPECT_THAT(error_of(program({.top = "parser Q(packet_in b, bit<8> x) { state start { transition accept; } }",
                                .state = "Q.apply(b, h.x.a);"})),
              HasSubstr(kKnown));
  EXPECT_EQ(error_of(program({.top = "const bit<8> k = 3; struct S { bit<8> a; } bit<8> f(S x, bool y) { return x.a; }",
                              .body = "h.x.a = f({ k + 1 }, true);"})),
            "accepted");
  // Of an action it is what the control plane gives, or what a call gives.
  EXPECT_EQ(error_of(program({.locals = "action f(bit<8> x) { h.x.a = x; }", .body = "f(h.x.b);"})), "accepted");
}

TEST(Declarations, WhatIsComputedIsNoPlace) {
  for (const std::string body :
       {"((x_t)h.x).a = 1;", "(h.x.a == 0 ? h.x : h.xs[0]).b = 5;", "(h.x.a == 0 ? h.x : h.xs[0]).setInvalid();",
        "((M)m).m[3:0] = 1;", "((x_t[2])h.xs)[1].a = 1;", "((x_t[2])h.xs).push_front(1);"}) {
    EXPECT_THAT(error_of(program({.body = body})), HasSubstr("read-only here")) << body;
  }
  EXPECT_THAT(error_of(program({.top = "x_t f(in x_t x) { return x; }", .body = "f(h.x).a = 1;"})),
              HasSubstr("read-only here"));
  EXPECT_THAT(error_of(program({.state = "b.lookahead<x_t>().a = 1;"})), HasSubstr("read-only here"));
  EXPECT_THAT(error_of(program({.top = "void f(inout x_t x) {}", .body = "f((x_t)h.x);"})),
              HasSubstr("read-only here"));
}

TEST(Declarations, AKeywordIsNoName) {
  for (const Parts& parts :
       {Parts{.body = "bit<8> table = 3;"}, Parts{.body = "const bit<8> tuple = 3;"},
        Parts{.top = "struct T { bit<8> select; }"}, Parts{.top = "enum bit<8> T { in = 1 }"},
        Parts{.top = "control switch() { apply {} }"}, Parts{.locals = "action value_set() {}"},
        Parts{.locals = "action f(bit<8> return) {}"}, Parts{.top = "struct T<header> { bit<8> a; }"},
        Parts{.top = "void transition() {}"}, Parts{.locals = "register<bit<8>>(1) out;"},
        Parts{.body = "bit<8> _ = 3;"}, Parts{.body = "for (bit<8> error = 0; m.m < 1; m.m = 1) {}"}}) {
    EXPECT_THAT(error_of(program(parts)), HasSubstr(", found the keyword '")) << program(parts);
  }
  EXPECT_EQ(error_of(program({.top = "struct T { bit<8> key; bit<8> type; bit<8> list; }",
                              .locals = "action apply() {} bit<8> actions = 1; bit<8> state = 2; bit<8> entries = 3;",
                              .body = "T priority = { 1, 2, 3 }; h.x.a = priority.key + state; apply();"})),
            "accepted");
}

TEST(Declarations, AParameterHasItsOwnName) {
  EXPECT_THAT(error_of(program({.top = "control Q()(bit<8> a, bit<8> a) { apply {} }"})),
              StartsWith("t.p4:6:30: error: 'a' is declared twice"));
  EXPECT_THAT(error_of(program({.top = "control Q(in bit<8> a)(bit<8> a) { apply {} }"})),
              HasSubstr("'a' is declared twice"));
  EXPECT_THAT(error_of(program({.top = "struct T<A, A> { A a; }"})), HasSubstr("'A' is declared twice"));
  EXPECT_THAT(error_of(program({.top = "void f<A, A>(in A a) {}"})), HasSubstr("'A' is declared twice"));
  EXPECT_THAT(error_of(program({.top = "control Q()(in bit<8> a) { apply {} }"})),
              HasSubstr("the parameter 'a' of a constructor has no direction"));
}

// The program with a v1model.p4 of its own, which has another text in one place.
std::string with_v1model(const Parts& parts, const std::string& text, const std::string& replacement) {
  std::string v1model(*builtin_source("v1model.p4"));
  const std::size_t at = v1model.find(text);
  EXPECT_NE(at, std::string::npos) << text;
  v1model.replace(at, text.size(), replacement);
  std::string whole = program(parts);
  const std::string include = "#include <v1model.p4>\n";
  return whole.replace(whole.find(include), include.size(), v1model);
}

TEST(Declarations, OfAV1modelOfOnesOwnOnlyKnownFormsAreTaken) {
  const Parts sums{.locals = "Checksum16() c;", .body = "h.x.b = c.get()[7:0];"};
  EXPECT_THAT(error_of(with_v1model(sums, "bit<16> get<D>(in D data);", "bit<16> get();")),
              HasSubstr("unsupported: Checksum16.get() with 0 parameters"));
  const Parts counts{.locals = "direct_counter() c;", .body = "c.count();"};
  EXPECT_THAT(error_of(with_v1model(counts, "direct_counter(CounterType type);", "direct_counter();")),
              HasSubstr("unsupported: a constructor of direct_counter with 0 parameters"));
}

// Programs of 2018 bring such a one along. The switch took another field for the priority, and dropped packets.
TEST(Declarations, AnEarlierV1modelHasFewerFields) {
  Switch device(compile(with_v1model({.body = "s.egress_spec = 2;"}, "bit<3> priority;", ""), "t.p4"), {.ports = 3});
  device.receive(1, std::vector<std::byte>(60, std::byte{1}));
  device.run();
  const auto departed = device.departed();
  ASSERT_TRUE(departed);
  EXPECT_EQ(departed->port, 2U);
}

// A function may be used where it does what is allowed there, and only there.
TEST(Declarations, AFunctionIsCheckedWhereItIsUsed) {
  const std::string checks = "error { Mine }\nvoid chk(in bit<8> v) { verify(v == 1, error.Mine); }";
  EXPECT_EQ(error_of(program({.top = checks, .state = "chk(h.x.a);"})), "accepted");
  EXPECT_THAT(error_of(program({.top = checks, .body = "chk(h.x.a);", .state = "chk(h.x.a);"})),
              HasSubstr("verify is for parsers"));
  const std::string clones = "void cc() { clone(CloneType.I2E, 5); }\ncontrol N() { apply { cc(); } }";
  EXPECT_THAT(error_of(program({.top = clones, .body = "cc();", .egress = "cc();"})),
              HasSubstr("clone is for Ingress with CloneType.I2E"));
  const std::string last = "bit<8> top(in x_t[2] s) { return s.last.a; }";
  EXPECT_EQ(error_of(program({.top = last, .state = "b.extract(h.xs.next); m.m = top(h.xs);"})), "accepted");
  EXPECT_THAT(
      error_of(program({.top = last, .body = "h.x.a = top(h.xs);", .state = "b.extract(h.xs.next); m.m = top(h.xs);"})),
      HasSubstr("'last' of a stack is defined in parsers only"));
  const std::string action = "action drop(inout standard_metadata_t s) { mark_to_drop(s); clone(CloneType.I2E, 5); }";
  EXPECT_THAT(error_of(program({.top = action, .body = "drop(s);", .egress = "drop(s);"})),
              HasSubstr("clone is for Ingress with CloneType.I2E"));
}

TEST(Declarations, AListNamesEachFieldOnceAndNoOther) {
  const std::string top = "struct S { bit<8> a; bit<8> b; }";
  EXPECT_EQ(error_of(program({.top = top, .body = "S v = {b = 1, a = 2}; S w = {b = 1, ...}; h.x.a = v.a + w.b;"})),
            "accepted");
  EXPECT_THAT(error_of(program({.top = top, .body = "S v = {a = 1, zz = 4, ...};"})), HasSubstr("S has no field 'zz'"));
  EXPECT_THAT(error_of(program({.top = top, .body = "S v = {a = 1, a = 4, ...};"})),
              HasSubstr("the field 'a' has two values"));
}

TEST(Declarations, TwoTablesDoNotHaveOneName) {
  const std::string tables =
      "@name(\"one\") table t { actions = { NoAction; } } @name(\"one\") table u { actions = { NoAction; } }";
  EXPECT_THAT(error_of(program({.locals = tables, .body = "t.apply(); u.apply();"})),
              HasSubstr("two tables or value sets have the name 'I.one' for the control plane"));
}

// P4-16: a name of the control plane means one thing at most. A value set is filled as a table.
TEST(Declarations, AValueSetDoesNotHaveTheNameOfATable) {
  const auto named = [](const char* set, const char* table) {
    return fmt::format(
        "#include <core.p4>\n#include <v1model.p4>\nheader x_t {{ bit<8> a; }}\nstruct H {{ x_t x; }}\nstruct M {{}}\n"
        "parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {{ @name(\"{}\") value_set<bit<8>>(4) "
        "v; "
        "state start {{ b.extract(h.x); transition select(h.x.a) {{ v: accept; default: accept; }} }} }}\n"
        "control V(inout H h, inout M m) {{ apply {{}} }}\n"
        "control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}\n"
        "control I(inout H h, inout M m, inout standard_metadata_t s) {{ @name(\"{}\") table t {{ actions = {{ "
        "NoAction; "
        "}} }} apply {{ t.apply(); }} }}\n"
        "control D(packet_out b, in H h) {{ apply {{ b.emit(h.x); }} }}\nV1Switch(P(), V(), I(), E(), V(), D()) "
        "main;\n",
        set, table);
  };
  EXPECT_THAT(error_of(named(".x", ".x")), HasSubstr("two tables or value sets have the name 'x'"));
  EXPECT_EQ(error_of(named("x", "x")), "accepted");
}

// The specification names an instance in the package by the package's instance and its parameter.
TEST(Declarations, AControlMayBeUsedTwiceInThePackage) {
  const std::string text =
      "#include <core.p4>\n#include <v1model.p4>\nheader x_t { bit<8> a; }\nstruct H { x_t x; }\nstruct M {}\n"
      "parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) { state start { transition accept; } }\n"
      "control V(inout H h, inout M m) { table t { actions = { NoAction; } } apply { t.apply(); } }\n"
      "control I(inout H h, inout M m, inout standard_metadata_t s) { register<bit<8>>(4) r; table t { actions = { "
      "NoAction; } } apply { t.apply(); r.write(0, 1); } }\n"
      "control D(packet_out b, in H h) { apply {} }\nV1Switch(P(), V(), I(), I(), V(), D()) main;\n";
  const auto made = compile(text, "t.p4");
  std::vector<std::string> names;
  for (const TableInfo& table : made->info().tables) {
    names.push_back(table.name);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("V.t", "main.ck.t", "I.t", "main.eg.t"));
  ASSERT_EQ(made->info().registers.size(), 2U);
  EXPECT_EQ(made->info().registers[0].name, "I.r");
  EXPECT_EQ(made->info().registers[1].name, "main.eg.r");
}

// Each instance has its own widths.
TEST(Declarations, TypesAreInferredForEachInstance) {
  EXPECT_EQ(
      error_of(program({.top = "T same<T>(in T x) { return x; }\n"
                               "control C(inout bit<8> o)(bit<8> N) { apply { bit<(N)> x = 1; o = (bit<8>)same(x); } }",
                        .locals = "C(8) c1; C(16) c2;",
                        .body = "c1.apply(h.x.a); c2.apply(h.x.b);"})),
      "accepted");
}

TEST(Declarations, AStructureWithinATypedefIsUnsupported) {
  EXPECT_THAT(error_of(program({.top = "typedef struct S { bit<8> a; } T;"})),
              HasSubstr("unsupported: a struct that is declared within a typedef"));
}

}  // namespace declarations
}  // namespace
}  // namespace sidelatch::p4
