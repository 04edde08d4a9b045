// Child processes of tests, and names unique to a test.
#pragma once

#include "roce/wire/segment.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>

namespace sidelatch::roce {

/// A wire's name that only this test uses.
inline std::string new_wire_name() {
  static std::atomic<int> next{0};
  return fmt::format("test-{}-{}", ::getpid(), next++);
}

/// A folder in memory that only this process uses, removed at the end. Joining a wire removes remains of killed
/// processes beside it, which could belong to another test.
inline const std::string& own_folder() {
  struct Folder {
    Folder() { std::filesystem::create_directory(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path); }
    std::string path = fmt::format("/dev/shm/test-{}", ::getpid());
  };
  static const Folder kFolder;
  return kFolder.path;
}

/// A wire that only this test uses.
inline SegmentOptions new_wire() { return {.name = new_wire_name(), .folder = own_folder()}; }

/// What a child ends with that would need rights which this user does not have.
inline constexpr int kMayNot = 77;

/// A process that runs `work` and ends with what it returns; 99 if it throws. It has none of our files, so it holds
/// none of our locks. Killed at the end if it still runs.
class ChildProcess {
 public:
  template <class F>
  explicit ChildProcess(F work) : number_(fork()) {
    if (number_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close_range(3, ~0U, 0);
      constexpr int kThrew = 99;
      try {
        const int result = work();
        std::fflush(stdout);
        ::_exit(result);
      } catch (const std::exception& error) {
        fmt::print(stderr, "a child process: {}\n", error.what());
        ::_exit(kThrew);
      }
    }
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() { kill(); }

  /// The process is gone when this returns.
  void kill() {
    if (number_ > 0) {
      ::kill(number_, SIGKILL);
      static_cast<void>(status());
    }
  }
  /// Waits for its end. A negative value is the signal that ended it.
  [[nodiscard]] int status() {
    int status = 0;
    ::waitpid(std::exchange(number_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  [[nodiscard]] pid_t number() const noexcept { return number_; }

 private:
  static pid_t fork() {
    std::fflush(stdout);  // otherwise both would print the buffer's contents
    return ::fork();
  }

  pid_t number_;
};

}  // namespace sidelatch::roce
