// Sockets at paths: only that of a program that has ended is replaced, and only our own is removed.
#include "roce/wire/unix_address.h"

#include "roce/wire/wire.h"
#include "tests/roce/wire/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sidelatch::roce {
namespace {
namespace unix_address_tests {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace files = std::filesystem;

class UnixAddress : public ::testing::Test {
 protected:
  UnixAddress() { files::create_directory(folder_); }
  ~UnixAddress() override { files::remove_all(folder_); }
  UnixAddress(const UnixAddress&) = delete;
  UnixAddress& operator=(const UnixAddress&) = delete;

  // The error, or "bound".
  [[nodiscard]] std::string result() const {
    try {
      static_cast<void>(bind_datagram_socket(path_));
    } catch (const WireError& error) {
      return error.what();
    }
    return "bound";
  }

  files::path folder_ = files::path(::testing::TempDir()) / new_wire_name();
  files::path path_ = folder_ / "ours";
};

// A socket of another program.
FileDescriptor foreign_socket(const files::path& path, int type) {
  FileDescriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  EXPECT_EQ(::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

bool can_connect(const files::path& path, int type) {
  const FileDescriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  return ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

TEST_F(UnixAddress, ASocketInUseIsRefusedAndStays) {
  const FileDescriptor first = bind_datagram_socket(path_);
  EXPECT_THAT(result(), AllOf(HasSubstr(path_.string()), HasSubstr("uses this socket")));
  EXPECT_TRUE(can_connect(path_, SOCK_DGRAM));
}

TEST_F(UnixAddress, ASocketOfAnyKindThatAProgramUsesIsRefusedAndStays) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    {
      const FileDescriptor foreign = foreign_socket(path_, type);
      ASSERT_EQ(::listen(foreign.number(), 1), 0);
      EXPECT_THAT(result(), HasSubstr("uses this socket"));
      EXPECT_TRUE(can_connect(path_, type));
    }
    EXPECT_EQ(result(), "bound");  // its program has ended
    files::remove(path_);
  }
  // One that is connected takes nothing from others.
  const FileDescriptor peer = foreign_socket(folder_ / "peer", SOCK_DGRAM);
  const FileDescriptor foreign = foreign_socket(path_, SOCK_DGRAM);
  const sockaddr_un address = unix_address(folder_ / "peer");
  ASSERT_EQ(::connect(foreign.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(result(), HasSubstr("uses this socket"));
}

TEST_F(UnixAddress, AStoppedProgramUsesItsSocketUntilItIsKilled) {
  ChildProcess child([&] {
    const FileDescriptor socket = bind_datagram_socket(path_);
    ::raise(SIGSTOP);
    return 0;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child.number(), &status, WUNTRACED), child.number());
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_THAT(result(), HasSubstr("uses this socket"));
  child.kill();
  EXPECT_TRUE(files::exists(path_));
  EXPECT_EQ(result(), "bound");
}

TEST_F(UnixAddress, AnotherFileStays) {
  std::ofstream(path_) << "something of somebody";
  EXPECT_THAT(result(), HasSubstr("there is a file already"));
  EXPECT_TRUE(files::is_regular_file(path_));
  files::remove(path_);
  files::create_symlink("nothing", path_);
  EXPECT_THAT(result(), HasSubstr("there is a file already"));
  EXPECT_TRUE(files::is_symlink(path_));
}

TEST_F(UnixAddress, WhoHoldsTheLockOfAPathReplacesWhateverSocketIsThere) {
  const FileDescriptor first = bind_datagram_socket(path_);
  const FileDescriptor second = replace_datagram_socket(path_);
  EXPECT_TRUE(can_connect(path_, SOCK_DGRAM));
  files::remove(path_);
  std::ofstream(path_) << "something of somebody";
  EXPECT_THROW(static_cast<void>(replace_datagram_socket(path_)), WireError);
  EXPECT_TRUE(files::is_regular_file(path_));
}

TEST_F(UnixAddress, TheFileOfASocketIsRemovedUnlessItIsAnotherOne) {
  const FileDescriptor socket = bind_datagram_socket(path_);
  const SocketFile file(path_);
  files::rename(path_, folder_ / "aside");  // so that the inode is not free
  const FileDescriptor foreign = foreign_socket(path_, SOCK_DGRAM);
  file.remove();
  EXPECT_TRUE(can_connect(path_, SOCK_DGRAM));
  files::rename(folder_ / "aside", path_);
  file.remove();
  EXPECT_FALSE(files::exists(path_));
  file.remove();
  SocketFile().remove();
}

}  // namespace unix_address_tests
}  // namespace
}  // namespace sidelatch::roce
