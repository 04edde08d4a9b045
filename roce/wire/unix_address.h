// Paths as addresses of UNIX sockets, which hold 107 bytes, and sockets that are bound to them.
//
// Thread-safety: functions without state; one thread uses a SocketFile.
#pragma once

#include "common/file_descriptor.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <optional>

namespace sidelatch::roce {

/// Throws WireError if the path is too long.
[[nodiscard]] sockaddr_un unix_address(const std::filesystem::path& path);
/// A datagram socket that is bound to this path. A socket whose program has ended is replaced. Throws WireError, also
/// if a program uses the socket that is there, or if another file is.
[[nodiscard]] FileDescriptor bind_datagram_socket(const std::filesystem::path& path);
/// The same for a path that belongs to whoever holds a lock (file_lock.h), and we do. Any socket there is replaced: the
/// kernel may free the lock of a killed process before it closes the socket.
[[nodiscard]] FileDescriptor replace_datagram_socket(const std::filesystem::path& path);

/// The file of a bound socket: other programs also remove sockets and bind their own there.
class SocketFile {
 public:
  SocketFile() = default;
  /// Remembers the file that is at the path now.
  explicit SocketFile(std::filesystem::path path);
  /// Removes it if it is still there.
  void remove() const noexcept;

 private:
  std::filesystem::path path_;
  std::optional<struct stat> made_;
};

}  // namespace sidelatch::roce
