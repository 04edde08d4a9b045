// Stations that share a folder and no memory.
#include "roce/wire/folder_wire.h"

#include "roce/wire/station_addresses.h"
#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

namespace sidelatch::roce {
namespace {

struct Folder {
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / new_wire_name();
};

TEST(FolderWire, CarriesFramesOfAllLengths) {
  const Folder folder;
  FolderWire a({folder.path});
  FolderWire b({folder.path});
  EXPECT_EQ(a.resolve(b.addresses().ipv6), b.addresses().mac);
  EXPECT_EQ(a.resolve(a.addresses().ipv6), a.addresses().mac);
  for (std::uint32_t number = 0; number < 200; ++number) {
    ASSERT_TRUE(a.send(test_frame(length_of(number), b.addresses().mac, a.addresses().mac, number)));
    const auto frame = wait_for_frame(b);
    ASSERT_TRUE(is_whole(frame));
    ASSERT_EQ(frame.size(), length_of(number));
  }
  EXPECT_EQ(a.counters().frames_sent, 200U);
  EXPECT_EQ(b.counters().bytes_received, a.counters().bytes_sent);
  EXPECT_THROW(static_cast<void>(a.reserve(b.addresses().mac, kMostFrameBytes + 1)), std::invalid_argument);
}

// As many frames as any system queues without a reader (net.unix.max_dgram_qlen is 10 or more).
TEST(FolderWire, FramesGoInBurstsInOrder) {
  const Folder folder;
  FolderWire a({folder.path});
  FolderWire b({folder.path});
  constexpr std::uint32_t kBurst = 10;
  for (std::uint32_t number = 0; number < 300; number += kBurst) {
    for (std::uint32_t next = number; next < number + kBurst; ++next) {
      send_test_frame(a, b.addresses().mac, next, 64);
    }
    EXPECT_EQ(a.counters().frames_sent, number);
    a.flush();
    for (std::uint32_t next = number; next < number + kBurst; ++next) {
      ASSERT_EQ(number_of(wait_for_frame(b)), next);
    }
  }
}

TEST(FolderWire, DropsFramesForNobody) {
  const Folder folder;
  FolderWire a({folder.path});
  const MacAddress nobody = addresses_of_station(9).mac;
  EXPECT_TRUE(a.send(test_frame(100, nobody, a.addresses().mac, 0)));
  EXPECT_TRUE(a.send(test_frame(100, kBroadcast, a.addresses().mac, 0)));
  EXPECT_EQ(a.counters().dropped, 2U);
  EXPECT_EQ(a.resolve(addresses_of_station(9).ipv6), std::nullopt);
  EXPECT_EQ(a.resolve(Gid{}), std::nullopt);
}

// A station that does not read costs the others only some milliseconds.
TEST(FolderWire, DropsFramesForWhoDoesNotRead) {
  const Folder folder;
  FolderWire a({folder.path});
  FolderWire lazy({folder.path});
  FolderWire b({folder.path});
  while (a.counters().dropped == 0) {
    if (!a.send(test_frame(4000, lazy.addresses().mac, a.addresses().mac, 0))) {
      a.wait(std::chrono::milliseconds(1));
    }
  }
  EXPECT_GT(a.counters().frames_sent, 0U);
  send_test_frame(a, b.addresses().mac, 7, 64);
  while (b.receive().empty()) {
    a.wait(std::chrono::milliseconds(1));
  }
}

// Frames for a station whose queue is full wait, and those for others pass them at once.
TEST(FolderWire, WhoDoesNotReadDelaysNobodyElse) {
  const Folder folder;
  FolderWire a({folder.path});
  const FolderWire deaf({folder.path});
  FolderWire b({folder.path});
  std::uint32_t number = 0;
  while (a.counters().full == 0 && a.counters().dropped == 0) {  // on a slow machine they are dropped already
    const auto room = a.reserve(deaf.addresses().mac, 64);
    if (!room.empty()) {
      write_test_frame(room, deaf.addresses().mac, a.addresses().mac, number++);
      a.commit(room.size());
      a.flush();
    }
  }
  ASSERT_TRUE(a.send(test_frame(64, b.addresses().mac, a.addresses().mac, 1)));
  EXPECT_FALSE(b.receive().empty());
}

TEST(FolderWire, PlacesOfKilledProcessesAreTakenOver) {
  const Folder folder;
  FolderWire a({folder.path});
  for (int i = 0; i < 20; ++i) {
    ChildProcess child([&] {
      FolderWire b({folder.path});
      send_test_frame(b, addresses_of_station(0).mac, 1, 100);
      b.flush();
      ::raise(SIGKILL);
      return 0;
    });
    ASSERT_EQ(child.status(), -SIGKILL);
    ASSERT_EQ(Ethernet::read(wait_for_frame(a).data()).source, addresses_of_station(1).mac);
    ASSERT_EQ(a.resolve(addresses_of_station(1).ipv6), std::nullopt);
    EXPECT_TRUE(a.send(test_frame(100, addresses_of_station(1).mac, a.addresses().mac, 0)));
  }
  EXPECT_EQ(a.counters().dropped, 20U);
  const FolderWire heir({folder.path});
  EXPECT_EQ(heir.addresses(), addresses_of_station(1));
}

TEST(FolderWire, LeavesOnlyItsLockFile) {
  const Folder folder;
  { const FolderWire a({folder.path}); }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    EXPECT_EQ(entry.path().filename(), "lock");
    ++files;
  }
  EXPECT_EQ(files, 1U);
}

TEST(FolderWire, WaitEndsWithAnInterrupt) {
  const Folder folder;
  FolderWire wire({folder.path});
  wire.interrupt();
  wire.wait(kForever);
  wire.wait(std::chrono::nanoseconds(-1));
}

std::string why_not(const std::filesystem::path& path) {
  try {
    static_cast<void>(join_folder_wire({path}));
  } catch (const WireError& error) {
    return error.what();
  }
  return {};
}

// Whoever else may write to it could take a station's place.
TEST(FolderWire, RefusesAFolderThatOthersMayUse) {
  namespace files = std::filesystem;
  const Folder folder;
  files::create_directory(folder.path);
  for (const files::perms others :
       {files::perms::group_read, files::perms::group_write, files::perms::others_exec, files::perms::others_write}) {
    files::permissions(folder.path, files::perms::owner_all | others);
    EXPECT_THAT(why_not(folder.path), ::testing::HasSubstr("belongs to one user"));
  }
  EXPECT_TRUE(files::is_empty(folder.path));  // nothing was made in it
  files::permissions(folder.path, files::perms::owner_all);
  EXPECT_EQ(why_not(folder.path), "");
}

TEST(FolderWire, RefusesSomeoneElsesFolder) {
  const Folder folder;
  std::filesystem::create_directory(folder.path);
  std::filesystem::permissions(folder.path, std::filesystem::perms::owner_all);
  // Only root can give a folder away; to all others root's folders are someone else's.
  constexpr uid_t kNobody = 65'534;
  const bool is_given = ::chown(folder.path.c_str(), kNobody, static_cast<gid_t>(-1)) == 0;
  EXPECT_THAT(why_not(is_given ? folder.path : "/"), ::testing::HasSubstr("belongs to one user"));
}

// A file of someone else behind a link would be locked, and made if it is not there.
TEST(FolderWire, FollowsNoLinkToALockFile) {
  const Folder folder;
  const Folder elsewhere;
  std::filesystem::create_directory(folder.path);
  std::filesystem::permissions(folder.path, std::filesystem::perms::owner_all);
  std::filesystem::create_symlink(elsewhere.path, folder.path / "lock");
  EXPECT_THAT(why_not(folder.path), ::testing::HasSubstr("lock"));
  EXPECT_FALSE(std::filesystem::exists(elsewhere.path));
}

TEST(FolderWire, NamesTheFolderThatCannotBeUsed) {
  EXPECT_THAT(why_not("/no/such/folder"), ::testing::HasSubstr("/no/such/folder"));
  const Folder folder;
  EXPECT_THAT(why_not(folder.path.string() + std::string(100, 'x')), ::testing::HasSubstr("shorter"));
  std::filesystem::remove_all(folder.path.string() + std::string(100, 'x'));
}

}  // namespace
}  // namespace sidelatch::roce
