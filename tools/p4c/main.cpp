// sidelatch-p4c PROGRAM.p4 -o FILE.cpp [--header FILE.h] [--function NAME] [-I FOLDER]... [-D NAME=TEXT]...
//
// Writes a P4 program as C++. A program of its own, apart from `sidelatch`, because the library itself may contain
// programs that it has made; cmake/SidelatchP4.cmake runs it.
#include <sidelatch/p4/emit.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr const char* kUsage =
    "usage: sidelatch-p4c PROGRAM.p4 -o FILE.cpp [--header FILE.h] [--function NAME] [-I FOLDER]... [-D NAME=TEXT]...";

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  }
}

int run(const std::vector<std::string>& arguments) {
  sidelatch::p4::CompileOptions options;
  std::vector<std::string> warnings;
  options.warnings = &warnings;
  std::string program;
  std::string source;
  std::string header;
  std::string function = "program";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 >= arguments.size()) {
        throw std::invalid_argument(argument + " needs a value");
      }
      return arguments[++i];
    };
    if (argument == "-h" || argument == "--help") {
      std::cout << kUsage << '\n';
      return 0;
    }
    if (argument == "-o") {
      source = value();
    } else if (argument == "--header") {
      header = value();
    } else if (argument == "--function") {
      function = value();
    } else if (argument == "-I") {
      options.include_folders.emplace_back(value());
    } else if (argument == "-D") {
      const std::string& macro = value();
      const std::size_t equals = macro.find('=');
      options.macros[macro.substr(0, equals)] = equals == std::string::npos ? "1" : macro.substr(equals + 1);
    } else if (argument.starts_with("-") || !program.empty()) {
      throw std::invalid_argument("unknown argument " + argument);
    } else {
      program = argument;
    }
  }
  if (program.empty() || source.empty()) {
    throw std::invalid_argument("a program and -o FILE.cpp are needed");
  }
  write(source, sidelatch::p4::emit_cpp(program, function, options));
  if (!header.empty()) {
    write(header, sidelatch::p4::emit_header(function));
  }
  for (const std::string& warning : warnings) {
    std::cerr << warning << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::invalid_argument& error) {
    std::cerr << "sidelatch-p4c: " << error.what() << '\n' << kUsage << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
