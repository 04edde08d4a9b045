// The calls of the C library by which librdmacm reaches the kernel's connection manager. Those for
// /dev/infiniband/rdma_cm, and for descriptors opened by that name, are answered here; all others go on to the C
// library under its second names (__open, __write, ...).
//
// - open(): an event channel. write(): a command. close(): the end of the channel. fstat(): a character device, which
//   librdmacm insists on.
// - socket(): the kernel's netlink interface for RDMA would name its own devices; without it librdmacm takes the names
//   that it knows.
//
// These calls are made everywhere, also by signal handlers: for other files they read one flag and pass on.
#include "connection_service.h"
#include "export.h"
#include "ucma_commands.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <optional>

// NOLINTBEGIN: names of the C library
extern "C" {
int __open(const char* path, int flags, ...);
int __open64(const char* path, int flags, ...);
ssize_t __write(int descriptor, const void* bytes, size_t count);
int __close(int descriptor);
int __fxstat(int version, int descriptor, struct stat* status);
int __fxstat64(int version, int descriptor, struct stat64* status);
}
// NOLINTEND

namespace sidelatch::softnic::verbs {

namespace {

constexpr const char* kDevice = "/dev/infiniband/rdma_cm";
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
  decltype(&::__open) open = __open;
  decltype(&::__open64) open64 = __open64;
  decltype(&::__write) write = __write;
  decltype(&::__close) close = __close;
  int (*fstat)(int, struct stat*) = fstat_at_first;
  int (*socket)(int, int, int) = socket_at_first;
};
NextCalls next;  // NOLINT: constant after the constructor below

template <class Call>
void find_next(Call*& call, const char* name) noexcept {
  if (void* const found = ::dlsym(RTLD_NEXT, name)) {
    call = reinterpret_cast<Call*>(found);
  }
}

__attribute__((constructor)) void find_next_calls() noexcept {
  find_next(next.open, "open");
  find_next(next.open64, "open64");
  find_next(next.write, "write");
  find_next(next.close, "close");
  find_next(next.fstat, "fstat");
  find_next(next.socket, "socket");
}

bool is_the_device(const char* path) noexcept { return path != nullptr && std::strcmp(path, kDevice) == 0; }

// Runs at the boundary to C, where a failure is -1 and errno.
template <class Use>
auto or_error(Use use) noexcept -> decltype(use()) {
  const WithoutCancellation none;
  try {
    return use();
  } catch (...) {
    errno = error_of_exception();
    return -1;
  }
}

int open_device(int flags) noexcept {
  return or_error([flags] {
    try {
      return ConnectionService::of_process().open_channel(flags);
    } catch (const VerbsError&) {
      throw;
    } catch (const std::exception& error) {  // of the wire or the settings
      complain(error.what());
      throw VerbsError(ENODEV, error.what());
    }
  });
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

// NOLINTBEGIN(cert-dcl50-cpp,cppcoreguidelines-pro-type-vararg): C's open() takes its mode so
SIDELATCH_VERBS_EXPORT int open(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return is_the_device(path) ? open_device(flags) : next.open(path, flags, mode);
}

SIDELATCH_VERBS_EXPORT int open64(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return is_the_device(path) ? open_device(flags) : next.open64(path, flags, mode);
}
// NOLINTEND(cert-dcl50-cpp,cppcoreguidelines-pro-type-vararg)

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
