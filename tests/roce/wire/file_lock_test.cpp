// Locks on bytes of a file: one holder at a time, also within a process, and none after its end.
#include "roce/wire/file_lock.h"

#include "common/file_descriptor.h"
#include "tests/roce/wire/processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

namespace sidelatch::roce {
namespace {

FileDescriptor open_file(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

TEST(FileLock, HasOneHolderAtATime) {
  const std::string path = own_folder() + "/locks";
  const FileDescriptor one = open_file(path);
  const FileDescriptor two = open_file(path);
  EXPECT_FALSE(others_hold(two.number(), 0, 10));
  EXPECT_TRUE(try_lock_byte(one.number(), 5));
  EXPECT_TRUE(try_lock_byte(one.number(), 5)) << "again";
  EXPECT_FALSE(try_lock_byte(two.number(), 5));
  EXPECT_FALSE(lock_byte(two.number(), 5, std::chrono::milliseconds(1)));
  EXPECT_TRUE(try_lock_byte(two.number(), 6)) << "another byte";
  EXPECT_FALSE(others_hold(one.number(), 0, 6)) << "our own does not count";
  EXPECT_TRUE(others_hold(two.number(), 0, 6));
  EXPECT_FALSE(others_hold(two.number(), 6, 4));
  unlock_byte(one.number(), 5);
  EXPECT_TRUE(lock_byte(two.number(), 5, std::chrono::milliseconds(0)));
}

TEST(FileLock, EndsWithItsProcess) {
  const std::string path = own_folder() + "/locks-of-a-child";
  const FileDescriptor file = open_file(path);
  ChildProcess child([&] {
    const FileDescriptor own = open_file(path);
    const bool locked = try_lock_byte(own.number(), 3);
    ::raise(locked ? SIGKILL : SIGTERM);
    return 0;
  });
  EXPECT_EQ(child.status(), -SIGKILL);
  EXPECT_FALSE(others_hold(file.number(), 3, 1));
  EXPECT_TRUE(try_lock_byte(file.number(), 3));
}

}  // namespace
}  // namespace sidelatch::roce
