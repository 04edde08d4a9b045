#include "commands.h"
#include "options.h"
#include "p4_arguments.h"
#include "p4_source.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/fit.h>
#include <sidelatch/p4/stf.h>

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments : P4Source {
  std::vector<std::string> tests;
  std::string chip;
  bool prints = false;
};

p4::CompileOptions compile_options(const P4Source& source, std::vector<std::string>& warnings) {
  p4::CompileOptions options = compile_options_of(source.folders, source.macros);
  options.warnings = &warnings;
  return options;
}

void say_each(const std::vector<std::string>& messages) {
  for (const std::string& message : messages) {
    say("{}\n", message);
  }
}

int check(const Arguments& arguments) {
  if (arguments.prints) {
    std::vector<std::string> warnings;
    fmt::print("{}", p4::print_file(arguments.program, compile_options(arguments, warnings)));
    say_each(warnings);
    return kAsExpected;
  }
  if (arguments.chip.empty()) {
    static_cast<void>(compile_p4(arguments));
    return kAsExpected;
  }
  const p4::Chip chip = p4::parse_chip(arguments.chip);
  std::vector<std::string> warnings;
  const p4::FitReport report = p4::fit(arguments.program, chip, compile_options(arguments, warnings));
  say_each(warnings);
  fmt::print("{}", p4::to_text(report, chip));
  return report.fits() ? kAsExpected : kNotAsExpected;
}

int test(const Arguments& arguments) {
  const auto program = compile_p4(arguments);
  bool passed = true;
  for (const std::string& file : arguments.tests) {
    const p4::StfResult result = p4::run_stf(program, read_file(file), file);
    say_each(result.failures);
    fmt::print("{}: {}, {} packets sent, {} expected\n", file, result.passed() ? "passed" : "FAILED", result.sent,
               result.expected);
    if (result.sent == 0 && result.expected == 0) {
      say("{}: warning: it sends no packet and expects none, so that it checks nothing\n", file);
    }
    passed = passed && result.passed();
  }
  return passed ? kAsExpected : kNotAsExpected;
}

}  // namespace

void add_p4_source(Command& command, P4Source& source) {
  command.option("program", source.program, "the program, in P4_16 for v1model").required();
  command.option("-I,--include", source.folders, "a folder for #include; may be repeated").one_at_a_time();
  command.option("-D,--define", source.macros, "NAME or NAME=TEXT: a macro; may be repeated").one_at_a_time();
}

std::shared_ptr<const p4::Program> compile_p4(const P4Source& source, std::set<std::filesystem::path>* files_read) {
  std::vector<std::string> warnings;
  p4::CompileOptions options = compile_options(source, warnings);
  options.files_read = files_read;
  auto program = p4::compile_file(source.program, options);
  say_each(warnings);
  return program;
}

void add_p4(Program& program) {
  Command p4 = program.command("p4", "Compile and test switch programs in P4");
  auto arguments = std::make_shared<Arguments>();
  Command checked = p4.subcommand("check", "Compile a program and say what is wrong with it");
  add_p4_source(checked, *arguments);
  Option chip = checked.option("--fit", arguments->chip, "also estimate whether it fits that chip: tofino or tofino2");
  checked.flag("--print", arguments->prints, "print the program as it was read: one file, macros replaced")
      .excludes(chip);
  checked.runs([arguments] { return check(*arguments); });
  Command tested = p4.subcommand("test", "Run packet tests in the format STF");
  add_p4_source(tested, *arguments);
  tested.option("tests", arguments->tests, "the tests").required();
  tested.runs([arguments] { return test(*arguments); });
}

}  // namespace sidelatch::tools
