// A link to one peer, which may be a guest of QEMU: one frame per datagram, and address resolution.
#include "roce/wire/link_wire.h"

#include "roce/port/ports.h"
#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

namespace sidelatch::roce {
namespace {

const StationAddresses kLeft = {
    .mac = {2, 0, 0, 0, 0, 1}, .ipv4 = {10, 9, 0, 1}, .ipv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const StationAddresses kRight = {
    .mac = {2, 0, 0, 0, 0, 2}, .ipv4 = {10, 9, 0, 2}, .ipv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

struct Paths {
  Paths() { std::filesystem::create_directory(folder); }
  Paths(const Paths&) = delete;
  Paths& operator=(const Paths&) = delete;
  ~Paths() { std::filesystem::remove_all(folder); }
  std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / new_wire_name();
  LinkWireOptions left{folder / "left", folder / "right", kLeft};
  LinkWireOptions right{folder / "right", folder / "left", kRight};
};

TEST(LinkWire, FindsItsPeerAndCarriesFrames) {
  const Paths paths;
  LinkWire left(paths.left);
  LinkWire right(paths.right);
  for (const Gid& gid : {kRight.ipv6, gid_of(kRight.ipv4)}) {
    EXPECT_EQ(left.resolve(gid), std::nullopt);
    EXPECT_TRUE(right.receive().empty());  // it answers, and learns the address of the asker
    EXPECT_TRUE(left.receive().empty());
    EXPECT_EQ(left.resolve(gid), kRight.mac);
  }
  EXPECT_EQ(right.resolve(kLeft.ipv6), kLeft.mac);
  EXPECT_EQ(right.resolve(gid_of(kLeft.ipv4)), kLeft.mac);
  ASSERT_TRUE(left.send(test_frame(1514, kRight.mac, kLeft.mac, 3)));
  EXPECT_TRUE(is_whole(right.receive()));
  EXPECT_THROW(static_cast<void>(left.reserve(kRight.mac, 1515)), std::invalid_argument);
}

TEST(LinkWire, MayComeBeforeItsPeer) {
  const Paths paths;
  LinkWire left(paths.left);
  EXPECT_EQ(left.resolve(kRight.ipv6), std::nullopt);
  EXPECT_TRUE(left.send(test_frame(100, kRight.mac, kLeft.mac, 0)));
  EXPECT_EQ(left.counters().dropped, 2U);
  LinkWire right(paths.right);
  EXPECT_TRUE(left.send(test_frame(100, kRight.mac, kLeft.mac, 1)));
  EXPECT_EQ(number_of(right.receive()), 1U);
}

TEST(LinkWire, ReplacesTheSocketOfAKilledProcessAndNoOtherFile) {
  const Paths paths;
  ChildProcess child([&] {
    const LinkWire left(paths.left);
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(child.status(), -SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(paths.left.local_path));
  { const LinkWire left(paths.left); }
  EXPECT_FALSE(std::filesystem::exists(paths.left.local_path));
  std::ofstream(paths.left.local_path) << "something of somebody";
  EXPECT_THROW(LinkWire{paths.left}, WireError);
  EXPECT_TRUE(std::filesystem::exists(paths.left.local_path));
}

TEST(LinkWire, LeavesALivingWireItsSocket) {
  const Paths paths;
  LinkWire left(paths.left);
  LinkWire right(paths.right);
  EXPECT_THROW(LinkWire{paths.left}, WireError);
  const LinkPortOptions port{.local_path = paths.left.local_path, .remote_path = paths.left.remote_path};
  EXPECT_THROW(static_cast<void>(open_link_port(port)), WireError);
  ASSERT_TRUE(right.send(test_frame(100, kLeft.mac, kRight.mac, 1)));
  EXPECT_FALSE(left.receive().empty());
}

TEST(LinkWire, RemovesOnlyItsOwnSocket) {
  const Paths paths;
  const LinkPortOptions port{.local_path = paths.left.local_path, .remote_path = paths.left.remote_path};
  const auto ends_beside_another = [&](auto&& open) {
    auto first = open();
    std::filesystem::rename(paths.left.local_path, paths.folder / "aside");  // as if somebody had removed it
    const LinkWire second(paths.left);
    first.reset();
    return std::filesystem::exists(paths.left.local_path);
  };
  EXPECT_TRUE(ends_beside_another([&] { return std::make_unique<LinkWire>(paths.left); }));
  EXPECT_TRUE(ends_beside_another([&] { return open_link_port(port); }));
  static_cast<void>(open_link_port(port));
  EXPECT_FALSE(std::filesystem::exists(paths.left.local_path));
}

TEST(LinkWire, NeedsTwoSockets) {
  const Paths paths;
  LinkWireOptions options = paths.left;
  options.remote_path = options.local_path;
  EXPECT_THROW(LinkWire{options}, std::invalid_argument);
  EXPECT_THROW(
      static_cast<void>(open_link_port({.local_path = options.local_path, .remote_path = options.remote_path})),
      std::invalid_argument);
}

TEST(LinkWire, NeedsAddresses) {
  const Paths paths;
  LinkWireOptions options = paths.left;
  options.addresses.mac[0] = 1;
  EXPECT_THROW(LinkWire{options}, std::invalid_argument);
  options.addresses = {.mac = kLeft.mac, .ipv4 = {}, .ipv6 = {}};
  EXPECT_THROW(LinkWire{options}, std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::roce
