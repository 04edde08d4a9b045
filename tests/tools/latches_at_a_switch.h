// Memory node, switch and clients as processes of their own, on software NICs. tests/vm/switch/latch_peer.cpp is the
// client; it checks what it reads.
#pragma once

#include "common/sanitizers.h"
#include "tests/paths.h"
#include "tests/tools/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::tools {

inline constexpr const char* kTuples = "p4/switch_optimistic.p4";
inline constexpr const char* kShortVersions = "p4/switch_tuples.p4";
inline constexpr const char* kWords = "p4/switch_atomics.p4";
inline constexpr const char* kCached = "p4/switch_cached.p4";

class LatchesAtASwitch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (SIDELATCH_IS_SANITIZED) {
      GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
    }
  }

  void start(const char* program, const std::vector<std::string>& more = {},
             const std::vector<std::string>& more_of_memory = {}) {
    start_switch(program, more);
    std::vector<std::string> command{program_path(), "check",    "--fabric",    "softnic", "--wire",   wire(1),
                                     "--order",      "observed", "--torn-bias", "0.3",     "--server", at_memory()};
    command.insert(command.end(), more_of_memory.begin(), more_of_memory.end());
    memory_ = std::make_unique<Process>(command);
    memory_->await("lends");
  }
  // Port 1: the memory node. Ports 2 to 4: clients. `step`: of a recovery, at which it is killed.
  void start_switch(const char* program, const std::vector<std::string>& more = {}, const std::string& step = {}) {
    const bool has_tuples = program != std::string(kWords);
    std::vector<std::string> command{program_path(), "switch",    in_source_tree(program),
                                     "--json",       "--latches", "127.0.0.1:" + at_switch_};
    const std::vector<std::string> kind = has_tuples ? std::vector<std::string>{"--memory", "127.0.0.1:" + at_memory_}
                                                     : std::vector<std::string>{"--words", "10.0.0.9"};
    command.insert(command.end(), kind.begin(), kind.end());
    for (int port = 1; port <= 4; ++port) {
      command.insert(command.end(), {"--port", std::to_string(port) + "=shm:" + cable(port), "--station",
                                     std::to_string(port) + "=10.0.0." + std::to_string(port)});
    }
    command.insert(command.end(), more.begin(), more.end());
    if (!step.empty()) {
      command.insert(command.begin(), {"/usr/bin/env", "SIDELATCH_SWITCH_DIES_AT=" + step});
    }
    switch_ = std::make_unique<Process>(command);
    switch_->await("clients set up latches at");
  }

  [[nodiscard]] std::unique_ptr<Process> peer(int port, const std::vector<std::string>& arguments) const {
    std::vector<std::string> command{program_path(), "softnic", "run", "--wire", wire(port), "--", latch_peer()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<Process>(command);
  }
  static void expect_done(Process& process, const std::string& text) {
    EXPECT_EQ(process.wait(), 0) << process.text();
    EXPECT_THAT(process.text(), ::testing::HasSubstr(text));
  }
  // It is to kill itself.
  void await_death_of_switch() { EXPECT_EQ(switch_->wait(), -1) << switch_->text(); }
  void kill_switch() {
    switch_->signal(SIGKILL);
    EXPECT_EQ(switch_->wait(), -1);
  }
  // The memory node stands still when the WRITE comes, so that its writer ends before it is acknowledged. Whether the
  // switch has fenced the writer before the memory node goes on is the machine's to decide; it is tried until then.
  void expect_repair_of_a_tuple_in_doubt() const {
    bool is_repaired = false;
    for (int attempt = 0; attempt < 20 && !is_repaired; ++attempt) {
      const auto writer = peer(3, {"write", tuples()});
      writer->await("holding");
      memory().signal(SIGSTOP);
      writer->write_line("now");
      writer->await("writing");
      writer->signal(SIGKILL);
      EXPECT_EQ(writer->wait(), -1);
      memory().signal(SIGCONT);
      const auto heir = peer(4, {"repair", tuples()});
      EXPECT_EQ(heir->wait(), 0) << heir->text();
      is_repaired = heir->text().find("repaired") != std::string::npos;
    }
    EXPECT_TRUE(is_repaired);
  }
  // Ends the switch, and returns what it says.
  nlohmann::json stop() {
    switch_->signal(SIGTERM);
    EXPECT_EQ(switch_->wait(), 0) << switch_->text();
    const std::string text = switch_->text();
    return nlohmann::json::parse(text.substr(text.find('{')));
  }
  static void expect_faults(const nlohmann::json& statistics) {
    for (const char* fault : {"lost", "duplicated", "reordered"}) {
      std::uint64_t all = 0;
      for (const auto& port : statistics["ports"]) {
        all += port["injected"][fault].get<std::uint64_t>();
      }
      EXPECT_GT(all, 0U) << fault;
    }
  }

  [[nodiscard]] std::string tuples() const { return "tuples,127.0.0.1:" + at_switch_; }
  // In memory of the server itself.
  [[nodiscard]] std::string kept(int objects) const { return "kept," + at_switch() + "," + std::to_string(objects); }
  [[nodiscard]] std::string words() const { return "words,127.0.0.1:" + at_switch_ + ",127.0.0.1:" + at_memory_; }
  [[nodiscard]] std::string at_switch() const { return "127.0.0.1:" + at_switch_; }
  [[nodiscard]] std::string at_memory() const { return "127.0.0.1:" + at_memory_; }
  [[nodiscard]] std::string cable(int port) const { return name_ + std::to_string(port); }
  [[nodiscard]] std::string wire(int port) const { return "switch:" + cable(port) + ",10.0.0." + std::to_string(port); }
  [[nodiscard]] Process& memory() const { return *memory_; }
  [[nodiscard]] Process& device() const { return *switch_; }

 private:
  std::string name_ = "test-latches-" + std::to_string(::getpid()) + "-";
  std::string at_switch_ = free_port();
  std::string at_memory_ = free_port();
  std::unique_ptr<Process> switch_;
  std::unique_ptr<Process> memory_;
};

inline const std::vector<std::string> kFaults{"--loss", "0.01", "--duplication", "0.02", "--reordering", "0.02"};

}  // namespace sidelatch::tools
