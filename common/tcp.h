// TCP: addresses by name, sockets that do not block, time limits on everything.
#pragma once

#include "common/file_descriptor.h"

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sidelatch {

/// Names the address, the error, and what to do.
class SocketError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;

  /// "HOST:PORT" or "[IPv6]:PORT"; without the port if there is a default. Throws std::invalid_argument that quotes it.
  static HostAndPort parse(std::string_view text, std::optional<std::uint16_t> default_port = std::nullopt);
  /// As parse() without a default. The port may be 0: any free port.
  static HostAndPort parse_to_listen(std::string_view text);
  [[nodiscard]] std::string to_string() const;
};

/// A non-blocking listening socket. If `at.port` is 0, any free port is used and stored in `at`. Throws SocketError.
[[nodiscard]] FileDescriptor listen_on(HostAndPort& at);

/// A non-blocking socket that is connected before the deadline; or none, and then `error` is the system's. Throws
/// SocketError if there is no such host.
[[nodiscard]] FileDescriptor connect_to(const HostAndPort& to, std::chrono::steady_clock::time_point deadline,
                                        int& error);

/// Whether the socket can be read or written, or has failed, before the deadline.
[[nodiscard]] bool wait_for(int socket, short events, std::chrono::steady_clock::time_point deadline);

/// The address that a socket is bound to. Throws SocketError.
[[nodiscard]] sockaddr_storage bound_to(const FileDescriptor& socket);

/// For the socket of a server's client: messages leave at once, and a machine that is gone is noticed.
void watch_over(const FileDescriptor& socket) noexcept;

}  // namespace sidelatch
