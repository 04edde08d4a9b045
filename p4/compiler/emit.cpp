// Writes the IR of a program as C++: the file as a whole.
#include <sidelatch/p4/emit.h>

#include "cpp_name.h"
#include "emitter.h"
#include "p4/front_end.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sidelatch::p4 {

Emitter::Emitter(const ir::Program& program, std::string function) : program_(program), function_(std::move(function)) {
  lay_out();
}

// A line that ends in a backslash goes on in the next one.
std::string in_comment(const std::string& name) {
  std::string made;
  for (const char c : name) {
    made += static_cast<unsigned char>(c) < ' ' || c == '\\' ? '_' : c;
  }
  return made;
}

std::string Emitter::run() {
  head();
  for (std::size_t i = 0; i < program_.routines.size(); ++i) {
    line(fmt::format("[[maybe_unused]] int r{}(Frame& f, Env& e);", i));
  }
  for (std::size_t i = 0; i < program_.parsers.size(); ++i) {
    line(fmt::format("[[maybe_unused]] int p{}(Frame& f, Env& e);", i));
  }
  for (std::size_t i = 0; i < program_.routines.size(); ++i) {
    line(fmt::format("\n// {}\nint r{}(Frame& f, Env& e) {{", in_comment(program_.routines[i].name), i));
    block(program_.routines[i].body);
    line("return on;\n}");
  }
  for (std::size_t i = 0; i < program_.parsers.size(); ++i) {
    parser(program_.parsers[i], i);
  }
  info();
  tail();
  return std::move(out_);
}

void Emitter::lay_out() {
  int counts[4] = {0, 0, 0, 0};
  for (std::size_t slot = 0; slot < program_.slot_widths.size(); ++slot) {
    const bool kept = static_cast<int>(slot) < program_.persistent_slots;
    const bool is_wide = program_.slot_widths[slot] > 64;
    const int which = (kept ? 0 : 2) + (is_wide ? 1 : 0);
    slots_.push_back({"kwtx"[which], counts[which]++});
  }
  for (int i = 0; i < 4; ++i) {
    sizes_[i] = std::max(1, counts[i]);
  }
}

void Emitter::head() {
  line("// Made by sidelatch-p4c; do not edit.");
  line("#include <sidelatch/p4/compiled.h>");
  line("#include <cstddef>\n#include <memory>");
  for (const char* warning :
       {"-Wconversion", "-Wsign-conversion", "-Wunused-parameter", "-Wunused-variable", "-Wunused-label",
        "-Wparentheses", "-Wtype-limits", "-Wtautological-compare", "-Wunused-but-set-variable"}) {
    line(fmt::format("#pragma GCC diagnostic ignored \"{}\"", warning));
  }
  line("namespace sidelatch::p4::programs {\nstd::shared_ptr<const Program> " + function_ + "();\n}");
  // Not in `programs`, where a program called `count` would hide what is called so in `compiled`.
  line("namespace sidelatch::p4::compiled {\nnamespace {\nnamespace " + function_ + "_program {");
  line("struct Frame {");
  line(fmt::format("U128 w[{}];\nstd::uint64_t k[{}];\nU128 x[{}];\nstd::uint64_t t[{}];\n}};", sizes_[1], sizes_[0],
                   sizes_[3], sizes_[2]));
}

std::string emit_cpp(const std::filesystem::path& file, const std::string& function, const CompileOptions& options) {
  if (!is_cpp_name(function)) {
    throw std::invalid_argument("'" + function + "' cannot be the name of a C++ function; give another one");
  }
  const ir::Program program = front_end(read_source(file, options), file.string(), options);
  return Emitter(program, function).run();
}

std::string emit_header(const std::string& function) {
  return fmt::format(
      "// Made by sidelatch-p4c; do not edit.\n#pragma once\n\n#include <sidelatch/p4/program.h>\n\n#include "
      "<memory>\n\n"
      "namespace sidelatch::p4::programs {{\n\n[[nodiscard]] std::shared_ptr<const Program> {}();\n\n}}  // namespace "
      "sidelatch::p4::programs\n",
      function);
}

}  // namespace sidelatch::p4
