// sidelatch-p4c PROGRAM.p4 -o FILE.cpp [--header FILE.h] [--depfile FILE] [--function NAME] [-I FOLDER]...
//               [-D NAME=TEXT]...
//
// Writes a P4 program as C++. A program of its own, apart from `sidelatch`, because the library itself may contain
// programs that it has made; cmake/SidelatchAddP4.cmake runs it.
#include "common/same_file.h"
#include "tools/p4_arguments.h"

#include <sidelatch/p4/emit.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr const char* kUsage =
    "usage: sidelatch-p4c PROGRAM.p4 -o FILE.cpp [--header FILE.h] [--depfile FILE] [--function NAME] [-I FOLDER]... "
    "[-D NAME=TEXT]...";

// Exit statuses, those of `sidelatch`.
constexpr int kBadInput = 2;
constexpr int kNoEnvironment = 3;

// The command line is wrong: how it is written helps.
class WrongUsage : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct Arguments {
  std::optional<std::string> program;
  std::optional<std::string> source;
  std::optional<std::string> header;
  std::optional<std::string> depfile;
  std::optional<std::string> function;
  std::vector<std::string> folders;
  std::vector<std::string> macros;
  bool wants_help = false;
};

void set_once(std::optional<std::string>& into, const std::string& option, const std::string& value) {
  if (into) {
    throw WrongUsage(fmt::format("{}: give it once; {} and {} were given", option, *into, value));
  }
  if (value.empty()) {
    throw WrongUsage(option + ": its value is empty, as that of a variable that was not set");
  }
  into = value;
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  const std::array<std::pair<std::string_view, std::optional<std::string>*>, 4> single{
      {{"-o", &arguments.source},
       {"--header", &arguments.header},
       {"--depfile", &arguments.depfile},
       {"--function", &arguments.function}}};
  const std::array<std::pair<std::string_view, std::vector<std::string>*>, 2> repeated{
      {{"-I", &arguments.folders}, {"-D", &arguments.macros}}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 >= words.size()) {
        throw WrongUsage(word + " needs a value");
      }
      return words[++i];
    };
    const auto is_word = [&](const auto& option) { return option.first == word; };
    if (word == "-h" || word == "--help") {
      arguments.wants_help = true;
      return arguments;
    }
    if (const auto* const one = std::ranges::find_if(single, is_word); one != single.end()) {
      set_once(*one->second, word, value());
    } else if (const auto* const any = std::ranges::find_if(repeated, is_word); any != repeated.end()) {
      any->second->push_back(value());
    } else if (word.starts_with("-") || arguments.program) {
      throw WrongUsage("unknown argument " + word);
    } else {
      set_once(arguments.program, "PROGRAM.p4", word);
    }
  }
  if (!arguments.program || !arguments.source) {
    throw WrongUsage("a program and -o FILE.cpp are needed");
  }
  return arguments;
}

struct Output {
  std::string option;
  std::string path;
  std::string text;
};

// Before anything is written: else the program, or what was just written, would be lost.
void require_apart(const std::vector<Output>& outputs, const std::set<std::filesystem::path>& files_read) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto refuse = [&](const std::string& what) {
      throw std::invalid_argument(
          fmt::format("{} {}: this would overwrite {}; give another file", outputs[i].option, outputs[i].path, what));
    };
    for (const std::filesystem::path& file : files_read) {
      if (sidelatch::is_same_file(outputs[i].path, file)) {
        refuse(fmt::format("{}, which the program is made of", file.string()));
      }
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (sidelatch::is_same_file(outputs[i].path, outputs[j].path)) {
        refuse(fmt::format("the file of {} {}", outputs[j].option, outputs[j].path));
      }
    }
  }
}

// A name in a rule of make, as GCC writes it. Ninja reads it, too.
std::string in_rule(const std::string& name) {
  std::string made;
  for (const char c : name) {
    if (c == ' ' || c == '#') {
      made += '\\';
    } else if (c == '$') {
      made += '$';
    }
    made += c;
  }
  return made;
}

// The rule that the source is made again after one of the files has changed.
std::string rule_of(const std::string& source, const std::set<std::filesystem::path>& files_read) {
  std::string rule = in_rule(source) + ":";
  for (const std::filesystem::path& file : files_read) {
    // Ninja strikes out "folder/.." without a look at the disk, where `folder` may be a link to elsewhere.
    rule += " \\\n  " + in_rule(std::filesystem::canonical(file).string());
  }
  return rule + "\n";
}

void write(const Output& output) {
  std::ofstream out(output.path, std::ios::binary);
  out << output.text;
  out.close();
  if (!out) {
    throw std::invalid_argument("cannot write " + output.path + ": " + std::strerror(errno));
  }
}

int run(const Arguments& arguments) {
  if (arguments.wants_help) {
    std::cout << kUsage << '\n';
    return 0;
  }
  sidelatch::p4::CompileOptions options = sidelatch::tools::compile_options_of(arguments.folders, arguments.macros);
  std::vector<std::string> warnings;
  std::set<std::filesystem::path> files_read;
  options.warnings = &warnings;
  options.files_read = &files_read;
  const std::string function = arguments.function.value_or("program");
  const std::string text = sidelatch::p4::emit_cpp(*arguments.program, function, options);
  // The source comes last: if another one cannot be written, a build must not find the source newer than the program.
  std::vector<Output> outputs;
  if (arguments.header) {
    outputs.push_back({"--header", *arguments.header, sidelatch::p4::emit_header(function)});
  }
  if (arguments.depfile) {
    outputs.push_back({"--depfile", *arguments.depfile, rule_of(*arguments.source, files_read)});
  }
  outputs.push_back({"-o", *arguments.source, text});
  require_apart(outputs, files_read);
  for (const Output& output : outputs) {
    write(output);
  }
  for (const std::string& warning : warnings) {
    std::cerr << warning << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse({argv + 1, argv + argc}));
  } catch (const WrongUsage& error) {
    std::cerr << "sidelatch-p4c: " << error.what() << '\n' << kUsage << '\n';
    return kBadInput;
  } catch (const std::invalid_argument& error) {
    std::cerr << "sidelatch-p4c: " << error.what() << '\n';
    return kBadInput;
  } catch (const sidelatch::p4::CompileError& error) {
    std::cerr << error.what() << '\n';
    return kBadInput;
  } catch (const std::exception& error) {
    std::cerr << "sidelatch-p4c: " << error.what() << '\n';
    return kNoEnvironment;
  }
}
