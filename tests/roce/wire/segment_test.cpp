// The processes in a wire's memory, admission to it, and the remains of killed processes.
#include "roce/wire/segment.h"

#include "roce/wire/wire.h"
#include "tests/roce/wire/processes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace sidelatch::roce {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string why_not(const SegmentOptions& options) {
  try {
    const Segment segment(options);
  } catch (const WireError& error) {
    return error.what();
  }
  return {};
}

std::string path_of(const SegmentOptions& options) {
  return fmt::format("{}/sidelatch-{}-{}", options.folder, ::geteuid(), options.name);
}

TEST(Segment, IsAFileOfThisUserAloneAsLongAsSomebodyIsInIt) {
  const SegmentOptions options = new_wire();
  std::string path;
  {
    const Segment first(options);
    path = first.path();
    EXPECT_EQ(path, path_of(options));
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0600U);
    auto second = std::make_unique<Segment>(options);
    EXPECT_NE(first.own(), second->own());
    second.reset();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Segment, GivesTheLowestFreePlace) {
  const SegmentOptions options = new_wire();
  const Segment first(options);
  auto second = std::make_unique<Segment>(options);
  const Segment third(options);
  EXPECT_EQ(first.own(), 0U);
  EXPECT_EQ(second->own(), 1U);
  EXPECT_EQ(third.own(), 2U);
  EXPECT_TRUE(first.is_joined(1));
  const std::uint32_t before = first.station(1).incarnation.load();
  second.reset();
  EXPECT_FALSE(first.is_joined(1));
  EXPECT_FALSE(first.has_died(1));
  const Segment again(options);
  EXPECT_EQ(again.own(), 1U);
  EXPECT_NE(first.station(1).incarnation.load(), before);
}

TEST(Segment, AReservedPlaceIsThatOneOrNone) {
  SegmentOptions options = new_wire();
  options.place = {.station = 1, .if_taken = "the second place has an owner"};
  auto second = std::make_unique<Segment>(options);
  EXPECT_EQ(second->own(), 1U);
  EXPECT_THAT(why_not(options), AllOf(HasSubstr(second->path()), HasSubstr("the second place has an owner")));
  EXPECT_EQ(second->directory().size(), 1U);
  second.reset();
  EXPECT_EQ(why_not(options), "");
}

TEST(Segment, ListsWhoIsThere) {
  SegmentOptions options = new_wire();
  options.station_name = "storage";
  const Segment first(options);
  options.station_name = std::string(100, 'x');
  const Segment second(options);
  const std::vector<StationEntry> entries = first.directory();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "storage");
  EXPECT_EQ(entries[0].process, ::getpid());
  EXPECT_EQ(entries[0].addresses, addresses_of_station(0));
  EXPECT_EQ(entries[1].name, std::string(63, 'x'));
}

TEST(Segment, TakesNoMoreThanItHasPlacesFor) {
  const SegmentOptions options = new_wire();
  std::vector<std::unique_ptr<Segment>> all;
  for (std::size_t i = 0; i < kMostStations; ++i) {
    all.push_back(std::make_unique<Segment>(options));
  }
  EXPECT_THAT(why_not(options), HasSubstr("64 stations already"));
}

TEST(Segment, NamesAreChecked) {
  for (const char* name : {"", "a/b", "a b", "..\n"}) {
    EXPECT_THAT(why_not({.name = name}), HasSubstr("no name of a wire")) << name;
  }
  EXPECT_THAT(why_not({.name = std::string(65, 'a')}), HasSubstr("no name of a wire"));
}

TEST(Segment, RefusesAnotherVersionWhileThatRunsAndReplacesItAfterwards) {
  const SegmentOptions options = new_wire();
  const auto change_version = [](const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    const std::uint32_t version = 77;
    ASSERT_EQ(::pwrite(file.number(), &version, sizeof version, 8), 4);
  };
  std::string path;
  {
    const Segment first(options);
    path = first.path();
    change_version(path);
    EXPECT_THAT(why_not(options), AllOf(HasSubstr("another version"), HasSubstr("77"), HasSubstr(path)));
    const std::uint64_t nonsense = 1;
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::pwrite(file.number(), &nonsense, sizeof nonsense, 0), 8);
    EXPECT_THAT(why_not(options), HasSubstr("no wire"));
  }
  std::ofstream(path) << "what somebody has left";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(why_not(options), "");
}

TEST(Segment, RefusesAFileThatOthersMayOpen) {
  const SegmentOptions options = new_wire();
  const std::string path = path_of(options);
  std::ofstream(path) << "";
  std::filesystem::permissions(path, std::filesystem::perms::all);
  EXPECT_THAT(why_not(options), AllOf(HasSubstr("no wire of this user"), HasSubstr("777")));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/null", path);
  EXPECT_THAT(why_not(options), HasSubstr(path));
  std::filesystem::remove(path);
}

TEST(Segment, NamesTheFolderThatIsNotThere) {
  EXPECT_THAT(why_not({.name = "x", .folder = "/no/such/folder"}), HasSubstr("/no/such/folder"));
}

TEST(Segment, OfKilledProcessesIsMadeAnew) {
  const SegmentOptions options = new_wire();
  ChildProcess child([&] {
    Segment segment(options);
    segment.open_ring(0, 1);
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(child.status(), -SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(path_of(options)));
  const Segment segment(options);
  EXPECT_EQ(segment.own(), 0U);
  EXPECT_EQ(segment.station(1).incoming.load(), 0U);
}

TEST(Segment, RemovesWiresInWhichNobodyIsLeft) {
  const SegmentOptions abandoned = new_wire();
  const SegmentOptions alive = new_wire();
  ChildProcess child([&] {
    const Segment segment(abandoned);
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(child.status(), -SIGKILL);
  const Segment living(alive);
  const Segment other(new_wire());
  EXPECT_FALSE(std::filesystem::exists(path_of(abandoned)));
  EXPECT_TRUE(std::filesystem::exists(living.path()));
}

TEST(Segment, TheDeadAreToldFromTheLiving) {
  const SegmentOptions options = new_wire();
  const Segment segment(options);
  ChildProcess child([&] {
    const Segment other(options);
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(child.status(), -SIGKILL);
  EXPECT_TRUE(segment.is_joined(1));
  EXPECT_TRUE(segment.has_died(1));
  EXPECT_EQ(segment.directory().size(), 1U);
  const Segment heir(options);
  EXPECT_EQ(heir.own(), 1U);
  EXPECT_FALSE(segment.has_died(1));
  EXPECT_EQ(segment.directory().size(), 2U);
}

// Whether a killed process counts as dead while its child, forked without exec, lives on.
bool is_seen_to_be_dead_beside_a_child(bool child_abandons) {
  const SegmentOptions options = new_wire();
  const Segment segment(options);
  const std::string fifo = fmt::format("{}/fifo-{}", own_folder(), new_wire_name());
  if (::mkfifo(fifo.c_str(), 0600) != 0) {
    throw std::runtime_error("mkfifo failed");
  }
  ChildProcess owner([&] {
    Segment other(options);
    std::array<int, 2> abandoned{};
    if (::pipe(abandoned.data()) != 0) {
      return 1;
    }
    if (::fork() == 0) {
      if (child_abandons) {
        other.abandon();
      }
      ::close(abandoned[0]);
      ::close(abandoned[1]);
      ::_exit(::open(fifo.c_str(), O_RDONLY) < 0 ? 1 : 0);  // until the test opens it, too
    }
    ::close(abandoned[1]);
    char end = 0;
    const bool is_closed = ::read(abandoned[0], &end, 1) == 0;
    ::raise(is_closed ? SIGKILL : SIGABRT);
    return 0;
  });
  EXPECT_EQ(owner.status(), -SIGKILL);
  const bool has_died = segment.has_died(1);
  ::close(::open(fifo.c_str(), O_WRONLY));
  std::filesystem::remove(fifo);
  return has_died;
}

TEST(Segment, AChildThatAbandonsItKeepsNobodyAlive) { EXPECT_TRUE(is_seen_to_be_dead_beside_a_child(true)); }

// The purpose of abandon().
TEST(Segment, AChildThatDoesNotKeepsItsParentAlive) { EXPECT_FALSE(is_seen_to_be_dead_beside_a_child(false)); }

// Killed at any moment of joining, leaving or between: the others have a working wire, and the places become free.
TEST(Segment, SurvivesProcessesThatAreKilledAnywhere) {
  const SegmentOptions options = new_wire();
  std::mt19937 random(3);
  const auto come_and_go = [&] {
    for (;;) {
      Segment segment(options);
      segment.open_ring(segment.own(), 0);
    }
    return 0;
  };
  for (int round = 0; round < 60; ++round) {
    // In a third of the rounds nobody else is there, so that processes are also killed while they make or remove the
    // file.
    const bool alone = round % 3 == 0;
    std::unique_ptr<Segment> stays = alone ? nullptr : std::make_unique<Segment>(options);
    {
      ChildProcess one(come_and_go);
      ChildProcess two(come_and_go);
      // A different moment each time: this process joins and leaves, too.
      for (auto times = random() % 30; times > 0; --times) {
        const Segment segment(options);
        ASSERT_LT(segment.own(), 6U);
      }
    }
    const Segment after(options);
    ASSERT_EQ(after.directory().size(), alone ? 1U : 2U);
    if (stays) {
      ASSERT_TRUE(after.is_joined(stays->own()));
      ASSERT_EQ(stays->path(), after.path());
    }
  }
}

// Runs `work` in a child with a tiny folder in memory; returns its result. Skips if mounting is not allowed.
template <class F>
int with_small_folder(const std::string& folder, const char* size, F work) {
  ChildProcess child([&] {
    if (::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder.c_str(), "tmpfs", 0, fmt::format("size={}", size).c_str()) != 0) {
      return kMayNot;
    }
    return work();
  });
  return child.status();
}

std::string new_small_folder() {
  const std::string folder = fmt::format("{}/sidelatch_small_{}", ::testing::TempDir(), ::getpid());
  std::filesystem::create_directory(folder);
  return folder;
}

// Which gives pages to all memory that the process may touch.
TEST(Segment, HasRoomAfterItsProcessHasLockedItsMemory) {
  const std::string folder = new_small_folder();
  const int status = with_small_folder(folder, "1m", [&] {
    Segment segment({.name = "x", .folder = folder});
    segment.open_ring(0, 0);
    if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
      return kMayNot;
    }
    segment.open_ring(0, 1);
    Segment second({.name = "x", .folder = folder});
    second.open_ring(1, 0);
    for (const auto& [sender, receiver] :
         {std::pair{std::size_t{0}, std::size_t{0}}, std::pair{std::size_t{0}, std::size_t{1}}}) {
      std::ranges::fill(segment.ring_bytes(sender, receiver), std::byte{1});
    }
    return 0;
  });
  std::filesystem::remove(folder);
  if (status == kMayNot) {
    GTEST_SKIP() << "this user may not mount a file system or lock memory";
  }
  EXPECT_EQ(status, 0);
}

TEST(Segment, TellsOfALimitOnFileSizes) {
  const SegmentOptions options = new_wire();
  ChildProcess child([&] {
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
      return 2;
    }
    const std::string why = why_not(options);
    const bool told = why.find("1.0 MiB") != std::string::npos && why.find("ulimit -f") != std::string::npos;
    if (!told) {
      fmt::print(stderr, "{}\n", why);
    }
    return told ? 0 : 1;
  });
  EXPECT_EQ(child.status(), 0);
  EXPECT_FALSE(std::filesystem::exists(path_of(options)));
}

// It makes nothing.
TEST(Segment, IsJoinedUnderALimitOnFileSizes) {
  const SegmentOptions options = new_wire();
  const Segment first(options);
  ChildProcess child([&] {
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
      return 2;
    }
    Segment second(options);
    second.open_ring(1, 0);
    return second.own() == 1 ? 0 : 1;
  });
  EXPECT_EQ(child.status(), 0);
}

TEST(Segment, SaysHowMuchMemoryIsMissing) {
  const std::string folder = new_small_folder();
  const int directory = with_small_folder(folder, "8k", [&] {
    const std::string why = why_not({.name = "x", .folder = folder});
    const bool told = why.find("the directory of the wire needs 20 KiB") != std::string::npos &&
                      why.find("left of 8 KiB") != std::string::npos && why.find("--shm-size") != std::string::npos;
    if (!told) {
      fmt::print(stderr, "{}\n", why);
    }
    return told && std::filesystem::is_empty(folder) ? 0 : 1;
  });
  const int ring = with_small_folder(folder, "200k", [&] {
    Segment segment({.name = "x", .folder = folder});
    try {
      segment.open_ring(0, 0);
    } catch (const WireError& error) {
      const std::string why = error.what();
      const bool told = why.find("the ring from station 1 to station 1 needs 260 KiB") != std::string::npos &&
                        why.find("remount,size=") != std::string::npos;
      return told && segment.station(0).incoming.load() == 0 ? 0 : 1;
    }
    return 2;
  });
  std::filesystem::remove(folder);
  if (directory == kMayNot) {
    GTEST_SKIP() << "this user may not mount a file system, not even in a namespace of its own";
  }
  EXPECT_EQ(directory, 0);
  EXPECT_EQ(ring, 0);
}

}  // namespace
}  // namespace sidelatch::roce
