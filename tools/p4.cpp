#include "commands.h"
#include "options.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/stf.h>

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments {
  std::string program;
  std::vector<std::string> tests;
  std::vector<std::string> folders;
  std::vector<std::string> macros;
};

p4::CompileOptions compile_options(const Arguments& arguments, std::vector<std::string>& warnings) {
  p4::CompileOptions options;
  options.include_folders.assign(arguments.folders.begin(), arguments.folders.end());
  for (const std::string& macro : arguments.macros) {
    const std::size_t equals = macro.find('=');
    options.macros[macro.substr(0, equals)] = equals == std::string::npos ? "1" : macro.substr(equals + 1);
  }
  options.warnings = &warnings;
  return options;
}

std::shared_ptr<const p4::Program> compile(const Arguments& arguments) {
  std::vector<std::string> warnings;
  auto program = p4::compile_file(arguments.program, compile_options(arguments, warnings));
  for (const std::string& warning : warnings) {
    fmt::print(stderr, "{}\n", warning);
  }
  return program;
}

int check(const Arguments& arguments) {
  static_cast<void>(compile(arguments));
  return kAsExpected;
}

int test(const Arguments& arguments) {
  const auto program = compile(arguments);
  bool passed = true;
  for (const std::string& file : arguments.tests) {
    const p4::StfResult result = p4::run_stf(program, read_file(file), file);
    for (const std::string& failure : result.failures) {
      fmt::print(stderr, "{}\n", failure);
    }
    fmt::print("{}: {}, {} packets sent, {} expected\n", file, result.passed() ? "passed" : "FAILED", result.sent,
               result.expected);
    passed = passed && result.passed();
  }
  return passed ? kAsExpected : kNotAsExpected;
}

void add_common(Command& command, Arguments& arguments) {
  command.option("program", arguments.program, "the program, in P4_16 for v1model").required();
  command.option("-I,--include", arguments.folders, "a folder for #include");
  command.option("-D,--define", arguments.macros, "NAME or NAME=TEXT: a macro");
}

}  // namespace

void add_p4(Program& program) {
  Command p4 = program.command("p4", "Compile and test switch programs in P4");
  auto arguments = std::make_shared<Arguments>();
  Command checked = p4.subcommand("check", "Compile a program and say what is wrong with it");
  add_common(checked, *arguments);
  checked.runs([arguments] { return check(*arguments); });
  Command tested = p4.subcommand("test", "Run packet tests in the format STF");
  add_common(tested, *arguments);
  tested.option("tests", arguments->tests, "the tests").required();
  tested.runs([arguments] { return test(*arguments); });
}

}  // namespace sidelatch::tools
