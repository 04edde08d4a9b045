// Lines of text over TCP: what a FlowHost and its units tell each other. The sequence is in flow_host.cpp.
#pragma once

#include "common/file_descriptor.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::flows::exchange {

inline constexpr std::string_view kGreeting = "sidelatch-flow-1";

inline constexpr std::uint64_t kMost24 = 0xff'ffff;  // 24 bits

/// Says what is wrong with a line.
class WrongLine : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A connection. It never blocks but in await().
class Lines {
 public:
  Lines() = default;
  /// Of a socket that does not block.
  explicit Lines(FileDescriptor socket);

  /// False: the other one is gone, or does not read.
  bool send(const std::string& line);
  /// A whole line that has come, without its end.
  [[nodiscard]] std::optional<std::string> next();
  /// Waits for one; nothing: the time is over, or is_gone().
  [[nodiscard]] std::optional<std::string> await(std::chrono::milliseconds at_most);
  /// The other one has ended or died, and all that it said has been read.
  [[nodiscard]] bool is_gone();
  [[nodiscard]] int socket() const noexcept { return socket_.number(); }
  void close() noexcept { socket_.close(); }

 private:
  void read();

  FileDescriptor socket_;
  std::string text_;
  bool has_ended_ = false;
};

/// Words of a line, in turn. All throw WrongLine if there is none, or another one.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  [[nodiscard]] std::string_view word();
  [[nodiscard]] std::uint64_t number(std::uint64_t most);
  /// Numbers with colons between them, in one word.
  [[nodiscard]] std::vector<std::uint64_t> numbers(std::size_t count, std::uint64_t most);
  void end() const;

 private:
  std::string_view rest_;
};

}  // namespace sidelatch::flows::exchange
