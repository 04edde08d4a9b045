// Small programs for tests of what the compiler takes and refuses.
#pragma once

#include <sidelatch/p4/compile.h>

#include <fmt/format.h>

#include <string>

namespace sidelatch::p4 {

// A whole program; `top` goes before the controls, `locals` and `body` into ingress, `egress` into egress, `state` into
// the parser.
struct Parts {
  std::string top = {};
  std::string locals = {};
  std::string body = {};
  std::string state = {};
  std::string egress = {};
  std::string deparse = "b.emit(h.x);";
};

inline std::string program(const Parts& parts) {
  return fmt::format(
      "#include <core.p4>\n#include <v1model.p4>\n"
      "header x_t {{ bit<8> a; bit<8> b; int<8> s; bit<8> c; }}\nstruct H {{ x_t x; x_t[2] xs; }}\nstruct M {{ bit<8> "
      "m; }}\n"
      "{}\n"
      "parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {{ state start {{ b.extract(h.x); {} "
      "transition accept; }} }}\n"
      "control V(inout H h, inout M m) {{ apply {{}} }}\n"
      "control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ {} }} }}\n"
      "control I(inout H h, inout M m, inout standard_metadata_t s) {{\n{}\napply {{\n{}\n}} }}\n"
      "control D(packet_out b, in H h) {{ apply {{ {} }} }}\n"
      "V1Switch(P(), V(), I(), E(), V(), D()) main;\n",
      parts.top, parts.state, parts.egress, parts.locals, parts.body, parts.deparse);
}

inline std::string error_of(const std::string& text) {
  try {
    static_cast<void>(compile(text, "t.p4"));
  } catch (const CompileError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace sidelatch::p4
