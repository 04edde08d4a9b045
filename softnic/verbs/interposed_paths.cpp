// The calls of the C library that take a path. Those for the device's files (device_files.h) are answered here; all
// others go on to the C library.
//
// - open() of /dev/infiniband/rdma_cm: an event channel. Of an attribute, with fopen() too: its content, in memory. Of
// the
//   device's node: an empty file; what verbs programs ask of it goes through this library.
// - stat(), access() and their kin: the file's type and rights.
//
// A folder of the device cannot be opened or listed, unless the kernel has one there. These calls are made everywhere,
// also by signal handlers: for other paths they compare two prefixes and pass on.
#include "connection_service.h"
#include "device_files.h"
#include "export.h"
#include "next_call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

// NOLINTBEGIN: names of the C library
extern "C" {
int __open(const char* path, int flags, ...);
int __open64(const char* path, int flags, ...);
}
// NOLINTEND

namespace sidelatch::softnic::verbs {

namespace {

constexpr std::string_view kManager = "/dev/infiniband/rdma_cm";

// Until the next ones are found.
int openat_at_first(int folder, const char* path, int flags, ...) noexcept {  // NOLINT: as C's
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}
int fstatat_at_first(int folder, const char* path, struct stat* status, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, folder, path, status, flags));
}
int stat_at_first(const char* path, struct stat* status) noexcept {
  return fstatat_at_first(AT_FDCWD, path, status, 0);
}
int lstat_at_first(const char* path, struct stat* status) noexcept {
  return fstatat_at_first(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int statx_at_first(int folder, const char* path, int flags, unsigned mask, struct statx* status) noexcept {
  return static_cast<int>(::syscall(SYS_statx, folder, path, flags, mask, status));
}
int access_at_first(const char* path, int rights) noexcept {
  return static_cast<int>(::syscall(SYS_access, path, rights));
}
int faccessat_at_first(int folder, const char* path, int rights, int /*flags*/) noexcept {
  return static_cast<int>(::syscall(SYS_faccessat, folder, path, rights));
}
int euidaccess_at_first(const char* path, int rights) noexcept {
  return faccessat_at_first(AT_FDCWD, path, rights, AT_EACCESS);
}
std::FILE* fopen_at_first(const char* path, const char* mode) {
  std::FILE* (*found)(const char*, const char*) = nullptr;
  find_next(found, "fopen");
  return found(path, mode);
}

struct NextPathCalls {
  int (*open)(const char*, int, ...) = __open;
  int (*open64)(const char*, int, ...) = __open64;
  int (*openat)(int, const char*, int, ...) = openat_at_first;
  int (*openat64)(int, const char*, int, ...) = openat_at_first;
  std::FILE* (*fopen)(const char*, const char*) = fopen_at_first;
  std::FILE* (*fopen64)(const char*, const char*) = fopen_at_first;
  int (*stat)(const char*, struct stat*) = stat_at_first;
  int (*lstat)(const char*, struct stat*) = lstat_at_first;
  int (*fstatat)(int, const char*, struct stat*, int) = fstatat_at_first;
  int (*statx)(int, const char*, int, unsigned, struct statx*) = statx_at_first;
  int (*access)(const char*, int) = access_at_first;
  int (*faccessat)(int, const char*, int, int) = faccessat_at_first;
  int (*euidaccess)(const char*, int) = euidaccess_at_first;
};
NextPathCalls next_path;  // NOLINT: constant after the constructor below

__attribute__((constructor)) void find_next_path_calls() noexcept {
  find_next(next_path.open, "open");
  find_next(next_path.open64, "open64");
  find_next(next_path.openat, "openat");
  find_next(next_path.openat64, "openat64");
  find_next(next_path.fopen, "fopen");
  find_next(next_path.fopen64, "fopen64");
  find_next(next_path.stat, "stat");
  find_next(next_path.lstat, "lstat");
  find_next(next_path.fstatat, "fstatat");
  find_next(next_path.statx, "statx");
  find_next(next_path.access, "access");
  find_next(next_path.faccessat, "faccessat");
  find_next(next_path.euidaccess, "euidaccess");
}

// Errors of the wire or the settings are the environment's, so they are printed for the user.
template <class Use>
auto told(Use use) -> decltype(use()) {
  try {
    return use();
  } catch (const VerbsError&) {
    throw;
  } catch (const std::exception& error) {
    complain(error.what());
    throw VerbsError(ENODEV, error.what());
  }
}

// Of `path`, if it is one of the device's; `absent` says that the call is the kernel's. Never called for other paths.
template <class Use>
int with_file(const char* path, Use use, bool& absent) noexcept {
  return or_error([&] {
    const std::optional<DeviceFile> file = told([path] { return device_file(path); });
    absent = !file;
    return file ? use(*file) : -1;
  });
}

void require_rights(const DeviceFile& file, int rights) {
  const mode_t others = file.mode & 0007;
  if ((static_cast<mode_t>(rights) & ~others) != 0) {
    throw VerbsError(EACCES, "a file of the device");
  }
}

int open_content(const DeviceFile& file, int flags) {
  const int way = flags & O_ACCMODE;
  require_rights(file, way == O_RDONLY ? R_OK : way == O_WRONLY ? W_OK : R_OK | W_OK);
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) {
    throw VerbsError(EEXIST, "a file of the device");
  }
  const int descriptor = ::memfd_create("sidelatch-device", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0U);
  if (descriptor < 0) {
    throw VerbsError(errno, "a file of the device");
  }
  const auto bytes = static_cast<ssize_t>(file.content.size());
  if (::pwrite(descriptor, file.content.data(), file.content.size(), 0) != bytes) {
    const int error = errno;
    ::close(descriptor);
    throw VerbsError(error, "a file of the device");
  }
  return descriptor;
}

int open_file(const char* path, int flags, bool& absent) noexcept {
  if (path == kManager) {
    return or_error([flags] { return told([flags] { return ConnectionService::of_process().open_channel(flags); }); });
  }
  return with_file(
      path,
      [&](const DeviceFile& file) {
        absent = S_ISDIR(file.mode);
        return absent ? -1 : open_content(file, flags);
      },
      absent);
}

int stat_file(const char* path, struct stat* status, bool& absent) noexcept {
  return with_file(
      path,
      [status](const DeviceFile& file) {
        std::memset(status, 0, sizeof *status);
        status->st_mode = file.mode;
        status->st_nlink = 1;
        status->st_rdev = file.device;
        status->st_size = S_ISREG(file.mode) ? 4096 : 0;  // as sysfs says of every attribute
        status->st_blksize = 4096;
        return 0;
      },
      absent);
}

int access_file(const char* path, int rights, bool& absent) noexcept {
  return with_file(
      path,
      [rights](const DeviceFile& file) {
        require_rights(file, rights);
        return 0;
      },
      absent);
}

int statx_file(const char* path, struct statx* status, bool& absent) noexcept {
  struct stat plain {};
  const int result = stat_file(path, &plain, absent);
  if (result == 0) {
    std::memset(status, 0, sizeof *status);
    status->stx_mask = STATX_BASIC_STATS;
    status->stx_mode = static_cast<std::uint16_t>(plain.st_mode);
    status->stx_nlink = 1;
    status->stx_size = static_cast<std::uint64_t>(plain.st_size);
    status->stx_blksize = 4096;
    status->stx_rdev_major = major(plain.st_rdev);
    status->stx_rdev_minor = minor(plain.st_rdev);
  }
  return result;
}

// Answers here, or asks the next library. A thread may be cancelled in open(), so this is not noexcept.
template <class Here, class Next>
auto here_or_next(const char* path, Here here, Next ask_next) -> decltype(ask_next()) {
  if (may_be_device_file(path)) [[unlikely]] {
    bool absent = false;
    const int before = errno;
    const auto result = here(absent);
    if (!absent) {
      return result;
    }
    errno = before;
  }
  return ask_next();
}

bool needs_mode(int flags) noexcept { return (flags & (O_CREAT | __O_TMPFILE)) != 0; }

std::FILE* open_stream(const char* path, const char* mode, bool& absent) noexcept {
  const int way = std::strchr(mode, '+') != nullptr ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
  const int descriptor = open_file(path, way | (std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0), absent);
  return descriptor < 0 ? nullptr : ::fdopen(descriptor, mode);
}

// What several names of a call have in common. The names do not call each other: a path may be NULL, which the C
// library's declarations rule out, and UndefinedBehaviorSanitizer would report the inner call.

// `ask_next` has the type of open().
int open_here_or_next(const char* path, int flags, mode_t mode, int (*ask_next)(const char*, int, ...)) {
  return here_or_next(
      path, [&](bool& absent) { return open_file(path, flags, absent); },
      [&] { return ask_next(path, flags, mode); });  // NOLINT(cppcoreguidelines-pro-type-vararg)
}

int openat_here_or_next(int folder, const char* path, int flags, mode_t mode,
                        int (*ask_next)(int, const char*, int, ...)) {
  return here_or_next(
      path, [&](bool& absent) { return open_file(path, flags, absent); },
      [&] { return ask_next(folder, path, flags, mode); });  // NOLINT(cppcoreguidelines-pro-type-vararg)
}

std::FILE* fopen_here_or_next(const char* path, const char* mode, std::FILE* (*ask_next)(const char*, const char*)) {
  return here_or_next(
      path, [&](bool& absent) { return open_stream(path, mode, absent); }, [&] { return ask_next(path, mode); });
}

int stat_here_or_next(const char* path, struct stat* status) noexcept {
  return here_or_next(
      path, [&](bool& absent) { return stat_file(path, status, absent); },
      [&] { return next_path.stat(path, status); });
}

int lstat_here_or_next(const char* path, struct stat* status) noexcept {
  return here_or_next(
      path, [&](bool& absent) { return stat_file(path, status, absent); },
      [&] { return next_path.lstat(path, status); });
}

int fstatat_here_or_next(int folder, const char* path, struct stat* status, int flags) noexcept {
  return here_or_next(
      path, [&](bool& absent) { return stat_file(path, status, absent); },
      [&] { return next_path.fstatat(folder, path, status, flags); });
}

int euidaccess_here_or_next(const char* path, int rights) noexcept {
  return here_or_next(
      path, [&](bool& absent) { return access_file(path, rights, absent); },
      [&] { return next_path.euidaccess(path, rights); });
}

static_assert(sizeof(struct stat) == sizeof(struct stat64), "this machine has one struct for both");
struct stat* as_stat(struct stat64* status) noexcept { return reinterpret_cast<struct stat*>(status); }

}  // namespace

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;

// NOLINTBEGIN(cert-dcl50-cpp,cppcoreguidelines-pro-type-vararg): C's open() takes its mode so
#define SIDELATCH_TAKE_MODE(flags)                                  \
  std::va_list more;                                                \
  va_start(more, flags);                                            \
  const mode_t mode = needs_mode(flags) ? va_arg(more, mode_t) : 0; \
  va_end(more)

SIDELATCH_VERBS_EXPORT int open(const char* path, int flags, ...) {
  SIDELATCH_TAKE_MODE(flags);
  return open_here_or_next(path, flags, mode, next_path.open);
}
SIDELATCH_VERBS_EXPORT int open64(const char* path, int flags, ...) {
  SIDELATCH_TAKE_MODE(flags);
  return open_here_or_next(path, flags, mode, next_path.open64);
}
SIDELATCH_VERBS_EXPORT int openat(int folder, const char* path, int flags, ...) {
  SIDELATCH_TAKE_MODE(flags);
  return openat_here_or_next(folder, path, flags, mode, next_path.openat);
}
SIDELATCH_VERBS_EXPORT int openat64(int folder, const char* path, int flags, ...) {
  SIDELATCH_TAKE_MODE(flags);
  return openat_here_or_next(folder, path, flags, mode, next_path.openat64);
}
// NOLINTEND(cert-dcl50-cpp,cppcoreguidelines-pro-type-vararg)
// What programs with _FORTIFY_SOURCE call if the flags are no constant. Their flags need no mode.
SIDELATCH_VERBS_EXPORT int __open_2(const char* path, int flags) {  // NOLINT: its name
  return open_here_or_next(path, flags, 0, next_path.open);
}
SIDELATCH_VERBS_EXPORT int __open64_2(const char* path, int flags) {  // NOLINT: its name
  return open_here_or_next(path, flags, 0, next_path.open64);
}

SIDELATCH_VERBS_EXPORT std::FILE* fopen(const char* path, const char* mode) {
  return fopen_here_or_next(path, mode, next_path.fopen);
}
SIDELATCH_VERBS_EXPORT std::FILE* fopen64(const char* path, const char* mode) {
  return fopen_here_or_next(path, mode, next_path.fopen64);
}

SIDELATCH_VERBS_EXPORT int stat(const char* path, struct stat* status) noexcept {
  return stat_here_or_next(path, status);
}
SIDELATCH_VERBS_EXPORT int lstat(const char* path, struct stat* status) noexcept {
  return lstat_here_or_next(path, status);
}
SIDELATCH_VERBS_EXPORT int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
  return fstatat_here_or_next(folder, path, status, flags);
}
SIDELATCH_VERBS_EXPORT int stat64(const char* path, struct stat64* status) noexcept {
  return stat_here_or_next(path, as_stat(status));
}
SIDELATCH_VERBS_EXPORT int lstat64(const char* path, struct stat64* status) noexcept {
  return lstat_here_or_next(path, as_stat(status));
}
SIDELATCH_VERBS_EXPORT int fstatat64(int folder, const char* path, struct stat64* status, int flags) noexcept {
  return fstatat_here_or_next(folder, path, as_stat(status), flags);
}
SIDELATCH_VERBS_EXPORT int statx(int folder, const char* path, int flags, unsigned mask,
                                 struct statx* status) noexcept {
  return here_or_next(
      path, [&](bool& absent) { return statx_file(path, status, absent); },
      [&] { return next_path.statx(folder, path, flags, mask, status); });
}
// Programs that were built before glibc 2.33 call these.
SIDELATCH_VERBS_EXPORT int __xstat(int /*version*/, const char* path, struct stat* status) {  // NOLINT: its name
  return stat_here_or_next(path, status);
}
SIDELATCH_VERBS_EXPORT int __xstat64(int /*version*/, const char* path, struct stat64* status) {  // NOLINT: its name
  return stat_here_or_next(path, as_stat(status));
}
SIDELATCH_VERBS_EXPORT int __lxstat(int /*version*/, const char* path, struct stat* status) {  // NOLINT: its name
  return lstat_here_or_next(path, status);
}
SIDELATCH_VERBS_EXPORT int __lxstat64(int /*version*/, const char* path, struct stat64* status) {  // NOLINT: its name
  return lstat_here_or_next(path, as_stat(status));
}

SIDELATCH_VERBS_EXPORT int access(const char* path, int rights) noexcept {
  return here_or_next(
      path, [&](bool& absent) { return access_file(path, rights, absent); },
      [&] { return next_path.access(path, rights); });
}
SIDELATCH_VERBS_EXPORT int faccessat(int folder, const char* path, int rights, int flags) noexcept {
  return here_or_next(
      path, [&](bool& absent) { return access_file(path, rights, absent); },
      [&] { return next_path.faccessat(folder, path, rights, flags); });
}
SIDELATCH_VERBS_EXPORT int euidaccess(const char* path, int rights) noexcept {
  return euidaccess_here_or_next(path, rights);
}
SIDELATCH_VERBS_EXPORT int eaccess(const char* path, int rights) noexcept {
  return euidaccess_here_or_next(path, rights);
}
