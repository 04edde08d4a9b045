#include "unix_address.h"

#include "roce/wire/wire.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace sidelatch::roce {

sockaddr_un unix_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = path.native();
  if (name.empty() || name.size() >= sizeof address.sun_path) {
    throw WireError(fmt::format("'{}' is no path for a UNIX socket: it must have 1 to {} bytes; choose a shorter one",
                                name, sizeof address.sun_path - 1));
  }
  name.copy(address.sun_path, name.size());
  return address;
}

FileDescriptor bind_datagram_socket(const std::filesystem::path& path) {
  const sockaddr_un address = unix_address(path);
  std::error_code error;
  if (std::filesystem::is_socket(path, error)) {
    std::filesystem::remove(path, error);
  }
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw WireError(
        fmt::format("{}: cannot make a UNIX socket: {}; see that the folder is there and that we may write to "
                    "it",
                    path.string(), std::strerror(errno)));
  }
  // Write permission allows sending: give it only to this user, whatever the umask is.
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
  // The default holds some hundred short frames but few long ones. The system reduces the size to its limit.
  const int bytes = 4 << 20;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return socket;
}

}  // namespace sidelatch::roce
