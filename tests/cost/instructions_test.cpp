// Instructions of an exclusive cycle beyond the fabric itself, counted by callgrind: this program runs itself under it.
#include "cycle.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>

namespace sidelatch::sync {
namespace {

#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr bool kCounts = true;
#else
constexpr bool kCounts = false;  // what a debug or sanitized build costs says nothing
#endif

int times_from_environment() {
  const char* times = std::getenv("SIDELATCH_CYCLES");
  return times == nullptr ? 10 : std::atoi(times);
}

// What callgrind runs.
TEST(DISABLED_UnderCallgrind, Latched) { Cycle().run_latched(times_from_environment()); }
TEST(DISABLED_UnderCallgrind, Bare) { Cycle().run_bare(times_from_environment()); }

double instructions(const std::string& test, int cycles) {
  const std::string command =
      "SIDELATCH_CYCLES=" + std::to_string(cycles) +
      " valgrind --tool=callgrind --callgrind-out-file=/dev/null /proc/" + std::to_string(::getpid()) +
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

// Two runs of different length: what is not part of a cycle cancels out.
double per_cycle(const std::string& test) {
  constexpr int kFew = 2000;
  constexpr int kMany = 6000;
  return (instructions(test, kMany) - instructions(test, kFew)) / (kMany - kFew);
}

TEST(Instructions, AnExclusiveAsyncCycleCostsAtMost600BeyondTheFabric) {
  if (!kCounts) {
    GTEST_SKIP() << "not an optimized build";
  }
  const double latched = per_cycle("Latched");
  const double bare = per_cycle("Bare");
  std::printf("instructions per cycle: %.0f with latch, %.0f for the same four requests bare\n", latched, bare);
  EXPECT_GT(bare, 100);
  EXPECT_LE(latched - bare, 600);
}

}  // namespace
}  // namespace sidelatch::sync
