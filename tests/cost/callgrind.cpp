#include "callgrind.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <stdexcept>

namespace sidelatch {

namespace {

double instructions(const std::string& test, const std::string& arguments, int times) {
  const std::string command =
      "SIDELATCH_REPETITIONS=" + std::to_string(times) + " valgrind --tool=callgrind --callgrind-out-file=/dev/null " +
      arguments + " /proc/" + std::to_string(::getpid()) +
      "/exe --gtest_also_run_disabled_tests --gtest_filter=DISABLED_UnderCallgrind." + test + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    throw std::runtime_error("popen failed");
  }
  std::string output;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) {
    output += part.data();
  }
  const int status = ::pclose(pipe);
  std::smatch match;
  if (status != 0 || !std::regex_search(output, match, std::regex("Collected : ([0-9]+)"))) {
    throw std::runtime_error("valgrind failed (apt-get install valgrind): " + output);
  }
  return std::stod(match[1]);
}

}  // namespace

int repetitions() {
  const char* const times = std::getenv("SIDELATCH_REPETITIONS");
  return times == nullptr ? 10 : std::atoi(times);
}

double instructions_of(const std::string& test, const std::string& arguments) {
  constexpr int kFew = 2000;
  constexpr int kMany = 6000;
  return (instructions(test, arguments, kMany) - instructions(test, arguments, kFew)) / (kMany - kFew);
}

}  // namespace sidelatch
