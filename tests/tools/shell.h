// A line for the shell, as a user types it.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace sidelatch::tools {

struct ShellResult {
  int status = -1;      ///< 128 and more: a signal; -1: there is no shell
  std::string printed;  ///< on standard output
};

inline ShellResult run_shell(const std::string& command) {
  ShellResult result;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return result;
  }
  std::array<char, 4096> part{};
  while (const std::size_t bytes = std::fread(part.data(), 1, part.size(), pipe)) {
    result.printed.append(part.data(), bytes);
  }
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace sidelatch::tools
