// The program, run as its users run it: in the source tree, with arguments as the shell takes them.
#pragma once

#include "tests/paths.h"
#include "tests/tools/shell.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sidelatch::tools {

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `environment`: what stands before a command in the shell, "A=1 B=2".
inline Outcome run(const std::string& arguments, const std::string& environment = {}) {
  const std::string errors = ::testing::TempDir() + "/sidelatch_stderr_" + std::to_string(::getpid());
  const std::string command =
      "cd '" + in_source_tree("") + "' && " + environment + " " + program_path() + " " + arguments + " 2>" + errors;
  const ShellResult result = run_shell(command);
  Outcome outcome{.status = result.status, .out = result.printed, .err = slurp(errors)};
  std::filesystem::remove(errors);
  return outcome;
}

inline std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    keys.push_back(key);
  }
  return keys;
}

// Each test has a file of its own.
inline std::string scratch(const std::string& name) {
  return ::testing::TempDir() + "/sidelatch_" + std::to_string(::getpid()) + "_" + name;
}

}  // namespace sidelatch::tools
