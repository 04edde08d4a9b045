#include "switch_process.h"

#include "tests/paths.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace sidelatch::softnic {

namespace {

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string place_of(const std::string& path) { return path.starts_with('/') ? path : in_source_tree(path); }

}  // namespace

SwitchProcess::SwitchProcess(const std::string& program, const std::string& control,
                             const std::vector<std::string>& more) {
  static std::atomic<int> count = 0;
  name_ = fmt::format("test-switch-{}-{}", ::getpid(), ++count);
  files_ = fmt::format("{}/{}", ::testing::TempDir(), name_);
  std::vector<std::string> command{program_path(),      "switch", place_of(program),   "--json",    "--port",
                                   "1=shm:" + cable(1), "--port", "2=shm:" + cable(2), "--control", place_of(control)};
  command.insert(command.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (files_ + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (files_ + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
  const int error = ::posix_spawn(&process_, program_path(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw std::runtime_error("cannot run the program sidelatch");
  }
  // It says so once its handlers of signals are there, too.
  while (text_of_file(files_ + ".err").find("the switch is up") == std::string::npos) {
    if (::waitpid(process_, nullptr, WNOHANG) == process_) {
      process_ = 0;
      throw std::runtime_error("the switch ended: " + text_of_file(files_ + ".err"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

SwitchProcess::~SwitchProcess() {
  if (process_ != 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  for (const char* const end : {".out", ".err"}) {
    std::error_code none;
    std::filesystem::remove(files_ + end, none);
  }
}

std::string SwitchProcess::cable(int port) const { return fmt::format("{}-{}", name_, port); }

nlohmann::json SwitchProcess::stop() {
  ::kill(process_, SIGTERM);
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = 0;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error(fmt::format("the switch ended with {}: {}", status, text_of_file(files_ + ".err")));
  }
  return nlohmann::json::parse(text_of_file(files_ + ".out"));
}

}  // namespace sidelatch::softnic
