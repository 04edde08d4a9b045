// The calls of the C library by which librdmacm reaches the kernel's connection manager. Those for
// /dev/infiniband/rdma_cm, and for descriptors opened by that name, are answered here; all others go on to the C
// library under its second names (__open, __write, ...).
//
// - open(), in interposed_paths.cpp: an event channel. write(): a command. close(): the end of the channel. fstat(): a
// character device, which
//   librdmacm insists on.
// - socket(): the kernel's netlink interface for RDMA would name its own devices; without it librdmacm takes the names
//   that it knows.
//
// These calls are made everywhere, also by signal handlers: for other files they read one flag and pass on.
#include "connection_service.h"
#include "export.h"
#include "next_call.h"
#include "ucma_commands.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

// NOLINTBEGIN: names of the C library
extern "C" {
ssize_t __write(int descriptor, const void* bytes, size_t count);
int __close(int descriptor);
int __fxstat(int version, int descriptor, struct stat* status);
int __fxstat64(int version, int descriptor, struct stat64* status);
}
// NOLINTEND

namespace sidelatch::softnic::verbs {

namespace {

// Of the kernel's misc devices; nobody compares it.
constexpr unsigned kMajor = 10;
constexpr unsigned kMinor = 58;

// Until the next ones are found.
int fstat_at_first(int descriptor, struct stat* status) noexcept {
  return ::fstatat(descriptor, "", status, AT_EMPTY_PATH);
}
int socket_at_first(int domain, int type, int protocol) noexcept {
  return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
}

// Of the next library that has them, which may be another preloaded one. Found when this library is loaded; until then,
// the C library's second names.
struct NextCalls {
  decltype(&::__write) write = __write;
  decltype(&::__close) close = __close;
  int (*fstat)(int, struct stat*) = fstat_at_first;
  int (*socket)(int, int, int) = socket_at_first;
};
NextCalls next;  // NOLINT: constant after the constructor below

__attribute__((constructor)) void find_next_calls() noexcept {
  find_next(next.write, "write");
  find_next(next.close, "close");
  find_next(next.fstat, "fstat");
  find_next(next.socket, "socket");
}

// Waits for an event outside of any lock and of any function that lets no exception through: a thread that
// pthread_cancel() ends there unwinds its stack.
ssize_t write_to_channel(int descriptor, const void* bytes, std::size_t count) {
  std::optional<EventChannels::Waiter> waiter;
  for (;;) {
    const ssize_t written = or_error([&]() -> ssize_t {
      ConnectionService* const service = ConnectionService::if_made();
      if (service == nullptr) {
        refuse(EIO, "this event channel is a parent's, from before fork()");
      }
      return write_command(*service, descriptor, bytes, count, waiter);
    });
    if (written < 0 || !waiter) {
      return written;
    }
    if (!waiter->wait()) {
      return -1;
    }
  }
}

void close_channel(int descriptor) noexcept {
  if (ConnectionService::is_borrowed()) {
    return;  // the channel stays the parent's
  }
  const WithoutCancellation none;
  try {
    if (ConnectionService* const service = ConnectionService::if_made()) {
      service->close_channel(descriptor);
    }
  } catch (...) {  // without memory it stays until the process ends
  }
  EventChannels::forget(descriptor);
}

int stat_of(int descriptor, struct stat* status) noexcept {
  const int result = next.fstat(descriptor, status);
  if (result == 0 && EventChannels::is_one(descriptor) && S_ISSOCK(status->st_mode)) {
    status->st_mode = (status->st_mode & ~static_cast<mode_t>(S_IFMT)) | S_IFCHR;
    status->st_rdev = makedev(kMajor, kMinor);
  }
  return result;
}

}  // namespace

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;

SIDELATCH_VERBS_EXPORT ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  return EventChannels::is_one(descriptor) && EventChannels::is_unchanged(descriptor)
             ? write_to_channel(descriptor, bytes, count)
             : next.write(descriptor, bytes, count);
}

SIDELATCH_VERBS_EXPORT int close(int descriptor) {
  if (EventChannels::is_one(descriptor)) [[unlikely]] {
    close_channel(descriptor);
  }
  return next.close(descriptor);
}

SIDELATCH_VERBS_EXPORT int fstat(int descriptor, struct stat* status) noexcept { return stat_of(descriptor, status); }

static_assert(sizeof(struct stat) == sizeof(struct stat64), "this machine has one struct for both");
SIDELATCH_VERBS_EXPORT int fstat64(int descriptor, struct stat64* status) noexcept {
  return stat_of(descriptor, reinterpret_cast<struct stat*>(status));
}

// Programs that were built before glibc 2.33 call these instead of fstat().
SIDELATCH_VERBS_EXPORT int __fxstat(int /*version*/, int descriptor, struct stat* status) {  // NOLINT: its name
  return stat_of(descriptor, status);
}
SIDELATCH_VERBS_EXPORT int __fxstat64(int /*version*/, int descriptor, struct stat64* status) {  // NOLINT: its name
  return stat_of(descriptor, reinterpret_cast<struct stat*>(status));
}

SIDELATCH_VERBS_EXPORT int socket(int domain, int type, int protocol) noexcept {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return next.socket(domain, type, protocol);
}
