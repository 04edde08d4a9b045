// TCP sockets as the bootstrap needs them: addresses by name, time limits on everything, whole messages.
#pragma once

#include "exchange.h"

#include "common/file_descriptor.h"

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::fabric::verbs {

/// Says which address, what went wrong, and what to do.
class SocketError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The other side has understood the question and refuses; the conversation goes on.
class Refusal : public SocketError {
 public:
  using SocketError::SocketError;
};

/// "HOST:PORT", "HOST", "[IPv6]:PORT", "[IPv6]". Throws std::invalid_argument that quotes it.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;

  static HostAndPort parse(std::string_view text, std::uint16_t default_port);
  [[nodiscard]] std::string to_string() const;
};

/// A listening socket; `at.port` 0 is any free one, and `at` then says which. Not blocking.
[[nodiscard]] FileDescriptor listen_on(HostAndPort& at);

/// The address that a socket has. Throws SocketError.
[[nodiscard]] sockaddr_storage bound_to(const FileDescriptor& socket);

/// The client's side: asks and waits for the answer. An error of the conversation ends it: an answer that came later
/// would be taken for that to the next question. All that is asked then fails at once.
class Conversation {
 public:
  /// Connects within `limit`.
  Conversation(const HostAndPort& to, std::chrono::milliseconds limit);
  /// Throws SocketError if the other side is gone, silent for longer than the limit, or does not speak the protocol.
  [[nodiscard]] exchange::Message ask(const exchange::Message& question);
  /// Without an answer.
  void tell(const exchange::Message& message);

 private:
  void send(std::span<const std::byte> bytes);
  [[nodiscard]] exchange::Message receive();
  [[noreturn]] void end(const std::string& why);

  std::string peer_;
  std::chrono::milliseconds limit_;
  FileDescriptor socket_;
  std::vector<std::byte> received_;
  std::string ended_;  // why
};

}  // namespace sidelatch::fabric::verbs
