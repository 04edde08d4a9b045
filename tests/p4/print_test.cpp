// What print_file() prints is a program that compiles to the same: compared as the C++ that is made of it, names of the
// control plane and constant entries included.
#include "tests/paths.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/emit.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {

std::string emitted(const std::filesystem::path& file) {
  return std::regex_replace(emit_cpp(file, "program"), std::regex("info.name = .*"), "");
}

std::filesystem::path written(const std::string& name, const std::string& text) {
  const std::filesystem::path file = testing::TempDir() + "print_test_" + name + ".p4";
  std::ofstream(file) << text;
  return file;
}

void expect_same(const std::filesystem::path& file) {
  const std::string text = print_file(file);
  const std::filesystem::path printed = written(file.stem().string(), text);
  EXPECT_EQ(emitted(printed), emitted(file)) << text;
  EXPECT_EQ(print_file(printed), text);
  std::filesystem::remove(printed);
}

TEST(Print, EveryProgramMeansTheSame) {
  int programs = 0;
  for (const char* const folder : {"tests/p4/corpus", "p4"}) {
    for (const auto& entry : std::filesystem::directory_iterator(in_source_tree(folder))) {
      if (entry.path().extension() == ".p4" && entry.path().stem() != "pipeline") {
        SCOPED_TRACE(entry.path());
        expect_same(entry.path());
        ++programs;
      }
    }
  }
  EXPECT_GT(programs, 15);
}

// What the corpus has not: precedence against parentheses, branches without braces, names with quotes.
TEST(Print, KeepsWhatParenthesesSay) {
  const std::filesystem::path file = written("parentheses", R"(
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>
#define TWICE(x) x + x
enum bit<8> Colour { red = 1, green = 2 }
header h_t { bit<8> a; bit<8> b; int<8> c; bit<8> d; }
struct H { h_t h; }
struct M { @field_list(1, 2) bit<8> m; }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
  state start {
    b.extract(h.h);
    transition select(h.h.a, h.h.b) { (1 .. 3, 4 &&& 0xf): accept; (_, 2): reject; default: accept; }
  }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  register<bit<8>, bit<32>>(4) r;
  @name("a \"name\"") action set(@name("x") bit<8> v) { h.h.a = v; }
  table t {
    key = { h.h.a & 8w0xf0 : ternary; h.h.isValid() : exact; h.h.b + 1 : exact @name("sum"); }
    actions = { set; @defaultonly NoAction; }
    const entries = { (1 &&& 3, true, 2): set(5); (_, false, 3): set(TWICE(4)) @priority(7); }
    const default_action = NoAction();
    size = 16 * 4;
  }
  apply {
    h.h.a = (h.h.a + 1) * (h.h.b - (h.h.d - 1)) - TWICE(h.h.b) * 2;
    h.h.b = ~(h.h.a | h.h.b) & -h.h.d;
    h.h.c = (int<8>)(h.h.a == 1 && (h.h.b == 2 || h.h.d < 3) ? 8w1 : (bit<8>)Colour.green);
    if (h.h.a == 1) if (h.h.b == 2) h.h.d = 1; else h.h.d = 2;
    switch (h.h.a) { 1: 2: { h.h.b[3:0] = 4w7; } default: { h.h.b >>= 2; h.h.b |+|= 3; } }
    if (!t.apply().hit) { return; } else s.egress_spec = 2;
    r.write(0, h.h.a ++ h.h.b == 16w3 ? 8w1 : 8w2);
  }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
)");
  expect_same(file);
  EXPECT_THAT(print_file(file), testing::HasSubstr("#define V1MODEL_VERSION 20200408\n#include <v1model.p4>"));
  std::filesystem::remove(file);
}

// Such a parser ends with NoMatch; without the select it would reject the packet with NoError.
TEST(Print, KeepsASelectWithoutCases) {
  std::string text;
  std::ifstream corpus(in_source_tree("tests/p4/corpus/loops.p4"));
  for (std::string line; std::getline(corpus, line);) {
    text += std::regex_replace(line, std::regex("transition accept;"), "transition select(h.test.number) {}") + "\n";
  }
  const std::filesystem::path file = written("no_cases", text);
  expect_same(file);
  EXPECT_THAT(print_file(file), testing::HasSubstr("transition select(h.test.number)"));
  std::filesystem::remove(file);
}

TEST(Print, SaysWhatIsWrongAsTheCompilerDoes) {
  const std::filesystem::path file = written("wrong", "#include <core.p4>\nstruct H { bit<129> x; }\n");
  EXPECT_THROW(static_cast<void>(print_file(file)), CompileError);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace sidelatch::p4
