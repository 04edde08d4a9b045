// Warnings about variables that are read before they have a value.
#include <sidelatch/p4/compile.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> warnings_of(const std::string& body, const std::string& locals = "",
                                     const std::string& top = "") {
  std::vector<std::string> warnings;
  CompileOptions options;
  options.warnings = &warnings;
  static_cast<void>(compile(
      fmt::format(
          "#include <core.p4>\n#include <v1model.p4>\n"
          "header x_t {{ bit<8> a; bit<8> b; }}\nstruct H {{ x_t x; }}\nstruct M {{ bit<8> m; }}\nstruct S {{ bit<8> "
          "p; "
          "bit<8> q; }}\n"
          "parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {{ state start {{ b.extract(h.x); "
          "transition accept; }} }}\n"
          "{}control V(inout H h, inout M m) {{ apply {{}} }}\n"
          "control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}\n"
          "control I(inout H h, inout M m, inout standard_metadata_t s) {{\nregister<bit<8>>(4) r;\n{}\napply "
          "{{\n{}\n}} }}\n"
          "control D(packet_out b, in H h) {{ apply {{ b.emit(h.x); }} }}\n"
          "V1Switch(P(), V(), I(), E(), V(), D()) main;\n",
          top, locals, body),
      "t.p4", options));
  return warnings;
}

TEST(Unassigned, IsSaidWithItsPlace) {
  EXPECT_THAT(warnings_of("bit<8> v; h.x.a = v;"), ElementsAre(HasSubstr("t.p4:14:17: warning: 'v' is read before")));
  EXPECT_THAT(warnings_of("bit<8> v; if (v == 1) { h.x.a = 1; } h.x.b = v;"), ElementsAre(HasSubstr("'v'")));
  EXPECT_THAT(warnings_of("S v; v.p = 1; h.x.a = v.q;"), ElementsAre(HasSubstr("'v'")));
  EXPECT_THAT(warnings_of("S v; S w; w = v; h.x.a = w.q;"), ElementsAre(HasSubstr("'w'")));
  EXPECT_THAT(warnings_of("bit<8> v; if (h.x.a == 1) { v = 2; exit; } h.x.b = v;"), ElementsAre(HasSubstr("'v'")));
  EXPECT_THAT(warnings_of("f(h.x.a);", "action f(out bit<8> v) { h.x.b = v; v = 1; }"), ElementsAre(HasSubstr("'v'")));
  EXPECT_THAT(warnings_of("t.apply();", "bit<8> v; action f() {} table t { key = { v : exact; } actions = { f; } }"),
              ElementsAre(HasSubstr("'v'")));
}

TEST(Unassigned, IsSaidOnceForAllUsesOfAFunction) {
  EXPECT_THAT(warnings_of("f(h.x.a); f(h.x.b);", "action f(out bit<8> v) { h.x.b = v; v = 1; }"),
              ElementsAre(HasSubstr("'v'")));
  EXPECT_THAT(warnings_of("c.apply(h.x.a); d.apply(h.x.b);", "C() c; C() d;",
                          "control C(out bit<8> v) { apply { bit<8> w; v = w; } }\n"),
              ElementsAre(HasSubstr("'w'")));
}

TEST(Unassigned, LoopsMayNotBeginOrEndWithAValue) {
  EXPECT_THAT(warnings_of("bit<8> v; for (bit<8> i = 0; i < v; i += 1) { }"), ElementsAre(HasSubstr("'v'")));
  EXPECT_THAT(warnings_of("bit<8> v; for (bit<8> i = 0; i < 3; i += 1) { h.x.a = v; }"), ElementsAre(HasSubstr("'v'")));
  EXPECT_THAT(warnings_of("bit<8> v; for (bit<8> i = 0; i < 3; i += 1) { v = 1; exit; } h.x.a = v;"),
              ElementsAre(HasSubstr("'v'")));
  EXPECT_THAT(warnings_of("bit<8> v; for (bit<8> i = 0; i < 3; i += 1) { v = 1; } h.x.a = v;"), IsEmpty());
  EXPECT_THAT(warnings_of("bit<8> v; for (bit<8> i = 0; true; i += 1) { if (i == 2) { break; } v = 1; } h.x.a = v;"),
              IsEmpty());
  EXPECT_THAT(
      warnings_of("bit<8> v; for (bit<8> i = 0; i < h.x.b; i += 1) { if (i == 2) { v = 1; continue; } } h.x.a = "
                  "v;"),
      IsEmpty());
}

TEST(Unassigned, NothingIsSaidOfWhatMayHaveAValue) {
  EXPECT_THAT(warnings_of("bit<8> v; v = 1; h.x.a = v;"), IsEmpty());
  EXPECT_THAT(warnings_of("bit<8> v; if (h.x.a == 1) { v = 1; } h.x.b = v;"), IsEmpty());
  EXPECT_THAT(warnings_of("bit<8> v; v[3:0] = 1; v[7:4] = 2; h.x.a = v;"), IsEmpty());
  EXPECT_THAT(warnings_of("bit<8> v; r.read(v, 0); h.x.a = v;"), IsEmpty());
  EXPECT_THAT(warnings_of("bit<8> v; f(v); h.x.a = v;", "action f(out bit<8> w) { w = 1; }"), IsEmpty());
  EXPECT_THAT(warnings_of("t.apply(); h.x.a = v;",
                          "bit<8> v; action f() { v = 1; } table t { key = { h.x.a : exact; } actions = { f; } }"),
              IsEmpty());
  EXPECT_THAT(warnings_of("x_t v; if (v.isValid()) { h.x.a = 1; }"), IsEmpty());
  EXPECT_THAT(warnings_of("bit<8> v; hash(v, HashAlgorithm.crc16, 8w0, { h.x.a }, 16w5); h.x.a = v;"), IsEmpty());
}

}  // namespace
}  // namespace sidelatch::p4
