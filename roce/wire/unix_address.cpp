#include "unix_address.h"

#include "roce/wire/wire.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace sidelatch::roce {

namespace {

FileDescriptor datagram_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) {
    throw WireError(fmt::format("cannot make a UNIX socket: {}", std::strerror(errno)));
  }
  return socket;
}

// The error, or 0.
int bind_to(const FileDescriptor& socket, const sockaddr_un& address) noexcept {
  return ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

bool names_socket(const std::filesystem::path& path) noexcept {
  std::error_code error;
  return std::filesystem::is_socket(path, error);
}

bool names_nothing(const std::filesystem::path& path) noexcept {
  struct stat status {};
  return ::lstat(path.c_str(), &status) != 0 && errno == ENOENT;
}

FileDescriptor open_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  return FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Locks the folder of a path, so that of two programs that start at once, and both see a dead socket, the second does
// not remove the socket that the first has made. It does its best: others may use such locks for their own purposes,
// and then we go on without.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& path) : folder_(open_folder_of(path)) {
    constexpr auto kLimit = std::chrono::seconds(1);
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    while (folder_.valid() && ::flock(folder_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

 private:
  FileDescriptor folder_;
};

// A program that is stopped uses its socket, too.
void refuse_if_used(const std::filesystem::path& path, const sockaddr_un& address) {
  const FileDescriptor probe = datagram_socket();
  const int error =
      ::connect(probe.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  switch (error) {
    case ECONNREFUSED:  // nobody has it
    case ENOENT:        // and by now it is gone
      return;
    case 0:
    case EPERM:       // it is connected to another one
    case EPROTOTYPE:  // it is no socket of datagrams
      throw WireError(
          fmt::format("{}: another program or wire uses this socket: end it or give another path", path.string()));
    default:
      throw WireError(fmt::format("{}: cannot tell whether another program uses this socket: {}; give another path",
                                  path.string(), std::strerror(error)));
  }
}

int replace_dead(const FileDescriptor& socket, const std::filesystem::path& path, const sockaddr_un& address) {
  const FolderLock lock(path);
  refuse_if_used(path, address);
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) {
    throw WireError(fmt::format("{}: cannot remove the socket of a program that has ended: {}; give another path",
                                path.string(), error.message()));
  }
  return bind_to(socket, address);
}

void check_bound(int error, const std::filesystem::path& path) {
  if (error == EADDRINUSE) {
    throw WireError(fmt::format(
        "{}: cannot make a UNIX socket: there is a file already; remove it or give another path", path.string()));
  }
  if (error != 0) {
    throw WireError(
        fmt::format("{}: cannot make a UNIX socket: {}; see that the folder is there and that we may write to "
                    "it",
                    path.string(), std::strerror(error)));
  }
}

void set_up_bound(const FileDescriptor& socket, const std::filesystem::path& path) noexcept {
  // Write permission allows sending: give it only to this user, whatever the umask is.
  std::error_code error;
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
  // The default holds some hundred short frames but few long ones. The system reduces the size to its limit.
  const int bytes = 4 << 20;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

}  // namespace

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
  FileDescriptor socket = datagram_socket();
  int error = bind_to(socket, address);
  // Again if another program comes or goes meanwhile.
  while (error == EADDRINUSE && (names_socket(path) || names_nothing(path))) {
    error = replace_dead(socket, path, address);
  }
  check_bound(error, path);
  set_up_bound(socket, path);
  return socket;
}

FileDescriptor replace_datagram_socket(const std::filesystem::path& path) {
  const sockaddr_un address = unix_address(path);
  FileDescriptor socket = datagram_socket();
  if (names_socket(path)) {
    std::error_code error;
    std::filesystem::remove(path, error);
  }
  check_bound(bind_to(socket, address), path);
  set_up_bound(socket, path);
  return socket;
}

SocketFile::SocketFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0) {
    made_ = status;
  }
}

// Its inode alone does not tell, because file systems reuse them.
void SocketFile::remove() const noexcept {
  struct stat now {};
  if (made_ && ::lstat(path_.c_str(), &now) == 0 && now.st_dev == made_->st_dev && now.st_ino == made_->st_ino &&
      now.st_mtim.tv_sec == made_->st_mtim.tv_sec && now.st_mtim.tv_nsec == made_->st_mtim.tv_nsec) {
    ::unlink(path_.c_str());
  }
}

}  // namespace sidelatch::roce
