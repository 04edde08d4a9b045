// Ctrl-C, and signals as timeout(1) and service managers send them: to a whole group of processes, and more than once.
#include "common/sanitizers.h"
#include "tests/paths.h"
#include "tests/tools/process.h"
#include "tests/tools/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

namespace sidelatch::tools {
namespace interrupts {
namespace {

using ::testing::IsEmpty;

// A flow that would take hours.
constexpr const char* kItems = "1000000000";

class InterruptedFlow : public ::testing::Test {
 protected:
  void SetUp() override {
    if (SIDELATCH_IS_SANITIZED) {
      GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
    }
    if (!std::filesystem::exists("/proc/thread-self/children")) {
      GTEST_SKIP() << "this kernel does not list the children of a process";
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    ::setenv("SIDELATCH_SOFTNIC_LIBRARY", std::string(verbs_library_path()).c_str(), 1);
  }
  void TearDown() override {
    std::error_code none;
    std::filesystem::remove(capture_, none);
  }

  [[nodiscard]] const std::string& capture() const { return capture_; }
  [[nodiscard]] std::uintmax_t captured() const {
    std::error_code none;
    const std::uintmax_t bytes = std::filesystem::file_size(capture_, none);
    return none ? 0 : bytes;
  }
  // Its capture grows: packets move. False: the flow has ended.
  [[nodiscard]] bool await_packets(const Process& flow) const {
    constexpr std::uintmax_t kSome = 100'000;
    const std::uintmax_t before = captured();
    while (captured() < before + kSome) {
      if (units_of(flow).empty() && before != 0) {
        return false;
      }
      ::sched_yield();
    }
    return true;
  }
  static std::vector<pid_t> units_of(const Process& flow) {
    const std::string id = std::to_string(flow.id());
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    return {std::istream_iterator<pid_t>(children), {}};
  }
  // It says that it was interrupted, and nothing else.
  static void expect_interrupted(Process& flow) {
    EXPECT_EQ(flow.wait(), 130) << flow.text();
    const auto json = nlohmann::json::parse(flow.text(), nullptr, false);
    ASSERT_TRUE(json.is_object()) << flow.text();
    EXPECT_FALSE(json["ended"].get<bool>());
    EXPECT_THAT(json["violations"], IsEmpty());
  }

 private:
  std::string capture_ = scratch("interrupted_flow");
};

TEST_F(InterruptedFlow, ASignalThatReachesAUnitIsLeftToTheSwitch) {
  Process flow({program_path(), "flow", "balance", "--items", kItems, "--item-bytes", "8", "--slots", "2", "--pcap",
                capture(), "--json"});
  ASSERT_TRUE(await_packets(flow));
  const std::vector<pid_t> units = units_of(flow);
  EXPECT_EQ(units.size(), 4U);
  for (const pid_t unit : units) {
    ::kill(unit, SIGTERM);
    ::kill(unit, SIGINT);
  }
  EXPECT_TRUE(await_packets(flow)) << "it ended without them";
  flow.signal(SIGTERM);
  expect_interrupted(flow);
}

TEST_F(InterruptedFlow, EndsWhileItsUnitsBegin) {
  for (const int signal : {SIGTERM, SIGINT}) {
    // setsid(1): a group of its own.
    Process flow({"/usr/bin/setsid", program_path(), "flow", "shuffle", "--producers", "16", "--consumers", "16",
                  "--items", kItems, "--json"});
    while (units_of(flow).empty()) {
      ::sched_yield();
    }
    ::kill(-flow.id(), signal);
    expect_interrupted(flow);
  }
}

// Whether a signal that was sent has not come yet (proc(5)).
bool waits_for_its_turn(const Process& process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process.id()) + "/status");
  for (std::string word; status >> word;) {
    if (std::uint64_t pending = 0; word == "ShdPnd:" && status >> std::hex >> pending) {
      return (pending >> (signal - 1) & 1U) != 0;
    }
  }
  return false;
}

// timeout(1) sends its signal to the process, and then at once to its group.
TEST(Interrupts, OfOneProcessAtOnceCountAsOne) {
  using Clock = std::chrono::steady_clock;
  const std::string folder = scratch("interrupted_check");
  for (bool at_once = false; !at_once;) {  // a busy machine may take longer; then the second one counts
    std::filesystem::remove_all(folder);
    Process check({program_path(), "check", "--fabric", "sim", "--json", "--out", folder});
    while (!std::filesystem::exists(folder)) {  // made before the work
      ::sched_yield();
    }
    const Clock::time_point first = Clock::now();
    check.signal(SIGINT);
    while (waits_for_its_turn(check, SIGINT)) {  // else the second one would be lost
      ::sched_yield();
    }
    check.signal(SIGINT);
    while (waits_for_its_turn(check, SIGINT)) {
      ::sched_yield();
    }
    at_once = Clock::now() - first < std::chrono::milliseconds(900);
    EXPECT_EQ(check.wait(), 130) << check.text();
    if (at_once) {
      const auto json = nlohmann::json::parse(check.text(), nullptr, false);
      ASSERT_TRUE(json.is_object()) << check.text();
      EXPECT_FALSE(json["complete"].get<bool>());
      EXPECT_EQ(slurp(folder + "/check.json"), check.text());
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace interrupts
}  // namespace sidelatch::tools
