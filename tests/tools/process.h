// A program as a process of its own: what it prints, its input, its end.
//
//   Process peer({"latch_peer", "make", "..."});
//   peer.await("ready");                       // throws with what it printed if it ends before
//   peer.write_line("now");
//   EXPECT_EQ(peer.wait(), 0) << peer.text();
//
// Its destructor kills it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

namespace sidelatch::tools {

class Process {
 public:
  explicit Process(const std::vector<std::string>& command);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  /// Reads what it prints until that appears.
  void await(const std::string& text);
  /// The same for so long. False: it has not appeared.
  [[nodiscard]] bool says(const std::string& text, std::chrono::milliseconds within);
  void write_line(const std::string& line) const;
  void signal(int number) const;
  [[nodiscard]] pid_t id() const noexcept { return process_; }
  /// Reads until its end. The exit status; -1: a signal ended it.
  [[nodiscard]] int wait();
  /// What it has printed so far, on both streams.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  bool read_more();

  pid_t process_ = 0;
  int input_ = -1;
  int output_ = -1;
  std::string text_;
};

/// A number that no TCP port of this machine has now.
[[nodiscard]] std::string free_port();
/// tests/vm/switch/latch_peer.cpp of this build.
[[nodiscard]] std::string latch_peer();

}  // namespace sidelatch::tools
