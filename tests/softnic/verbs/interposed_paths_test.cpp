// The calls of the C library that libsidelatch-verbs stands in front of, where their path is NULL. The C library
// declares that it never is, but programs ask on purpose: Rust's library does with statx().
#include "tests/paths.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>

namespace sidelatch::softnic {
namespace {
namespace without_a_path {

// Its type has no attributes: the compiler takes nothing for granted about the pointers.
template <class Call>
Call* in_library(const char* name) {
  void* const library = ::dlopen(verbs_library_path(), RTLD_NOW | RTLD_LOCAL);
  void* const call = library == nullptr ? nullptr : ::dlsym(library, name);
  if (call == nullptr) {
    throw std::runtime_error(::dlerror());
  }
  return reinterpret_cast<Call*>(call);
}

using Open = int(const char*, int, ...);
using Open2 = int(const char*, int);
using OpenAt = int(int, const char*, int, ...);
using FOpen = std::FILE*(const char*, const char*);
using Stat = int(const char*, struct stat*);
using FStatAt = int(int, const char*, struct stat*, int);
using StatX = int(int, const char*, int, unsigned, struct statx*);
using XStat = int(int, const char*, struct stat*);
using Access = int(const char*, int);
using FAccessAt = int(int, const char*, int, int);

constexpr unsigned kBasic = STATX_BASIC_STATS;

// The result, and errno after a failure.
struct Answer {
  long result;
  int error;
  friend bool operator==(const Answer&, const Answer&) = default;
};
void PrintTo(const Answer& answer, std::ostream* out) {  // NOLINT: GoogleTest's name
  *out << answer.result << " with errno " << answer.error;
}

template <class Ask>
Answer answer_of(Ask ask) {
  errno = 0;
  const long result = ask();
  return {result, result == 0 ? 0 : errno};
}

constexpr Answer kFault{-1, EFAULT};

class APathOfNull : public ::testing::Test {
 protected:
  struct stat status_ {};
  struct statx more_ {};
};

TEST_F(APathOfNull, IsNotOpened) {
  for (const char* const name : {"open", "open64"}) {
    EXPECT_EQ(answer_of([&] { return in_library<Open>(name)(nullptr, O_RDONLY); }), kFault) << name;
    EXPECT_EQ(answer_of([&] { return in_library<Open>(name)(nullptr, O_WRONLY | O_CREAT, 0600); }), kFault) << name;
  }
  for (const char* const name : {"__open_2", "__open64_2"}) {
    EXPECT_EQ(answer_of([&] { return in_library<Open2>(name)(nullptr, O_RDONLY); }), kFault) << name;
  }
  for (const char* const name : {"openat", "openat64"}) {
    EXPECT_EQ(answer_of([&] { return in_library<OpenAt>(name)(AT_FDCWD, nullptr, O_RDONLY); }), kFault) << name;
  }
  for (const char* const name : {"fopen", "fopen64"}) {
    EXPECT_EQ(answer_of([&] { return in_library<FOpen>(name)(nullptr, "r") == nullptr ? -1 : 0; }), kFault) << name;
  }
}

TEST_F(APathOfNull, HasNoStatus) {
  for (const char* const name : {"stat", "stat64", "lstat", "lstat64"}) {
    EXPECT_EQ(answer_of([&] { return in_library<Stat>(name)(nullptr, &status_); }), kFault) << name;
  }
  for (const char* const name : {"__xstat", "__xstat64", "__lxstat", "__lxstat64"}) {
    EXPECT_EQ(answer_of([&] { return in_library<XStat>(name)(1, nullptr, &status_); }), kFault) << name;
  }
  for (const char* const name : {"fstatat", "fstatat64"}) {
    EXPECT_EQ(answer_of([&] { return in_library<FStatAt>(name)(AT_FDCWD, nullptr, &status_, 0); }), kFault) << name;
  }
  EXPECT_EQ(answer_of([&] { return in_library<StatX>("statx")(AT_FDCWD, nullptr, 0, kBasic, &more_); }), kFault);
  // As Rust's library asks whether there is a statx().
  EXPECT_EQ(answer_of([&] { return in_library<StatX>("statx")(0, nullptr, 0, kBasic, nullptr); }), kFault);
}

// New kernels (Linux 6.11) take NULL for the empty path.
TEST_F(APathOfNull, MayBeTheDescriptorItself) {
  const int here = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const char* const none = nullptr;
  const Answer of_fstatat = answer_of([&] { return ::syscall(SYS_newfstatat, here, none, &status_, AT_EMPTY_PATH); });
  const Answer of_statx = answer_of([&] { return ::syscall(SYS_statx, here, none, AT_EMPTY_PATH, kBasic, &more_); });
  for (const char* const name : {"fstatat", "fstatat64"}) {
    EXPECT_EQ(answer_of([&] { return in_library<FStatAt>(name)(here, nullptr, &status_, AT_EMPTY_PATH); }), of_fstatat)
        << name;
  }
  EXPECT_EQ(answer_of([&] { return in_library<StatX>("statx")(here, nullptr, AT_EMPTY_PATH, kBasic, &more_); }),
            of_statx);
  ::close(here);
}

TEST_F(APathOfNull, CannotBeAccessed) {
  for (const char* const name : {"access", "euidaccess", "eaccess"}) {
    EXPECT_EQ(answer_of([&] { return in_library<Access>(name)(nullptr, R_OK); }), kFault) << name;
  }
  EXPECT_EQ(answer_of([&] { return in_library<FAccessAt>("faccessat")(AT_FDCWD, nullptr, R_OK, 0); }), kFault);
}

}  // namespace without_a_path
}  // namespace
}  // namespace sidelatch::softnic
