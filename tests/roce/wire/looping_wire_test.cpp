// Frames of a station to itself: they come back, once, and wrappers around the wire see them.
#include "roce/wire/looping_wire.h"

#include "roce/wire/capturing_wire.h"
#include "roce/wire/faulty_wire.h"
#include "roce/wire/shared_memory_wire.h"
#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace sidelatch::roce {
namespace {

namespace looping {

using Numbers = std::vector<std::uint32_t>;

constexpr std::size_t kBytes = 100;
constexpr MacAddress kAll = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

Numbers arrived(Wire& wire) {
  Numbers numbers;
  for (auto frame = wire.receive(); !frame.empty(); frame = wire.receive()) {
    numbers.push_back(is_whole(frame) ? number_of(frame) : ~0U);
  }
  return numbers;
}

bool send(Wire& wire, const MacAddress& to, std::uint32_t number) {
  return wire.send(test_frame(kBytes, to, wire.addresses().mac, number));
}

TEST(LoopingWire, HandsBackFramesToItselfAndToGroups) {
  const SegmentOptions options = new_wire();
  LoopingWire wire(std::make_unique<SharedMemoryWire>(options));
  SharedMemoryWire peer(options);
  const MacAddress own = wire.addresses().mac;
  EXPECT_TRUE(send(wire, own, 1) && send(wire, peer.addresses().mac, 2) && send(wire, kAll, 3) && send(wire, own, 4));
  EXPECT_EQ(arrived(wire), (Numbers{1, 3, 4}));
  EXPECT_EQ(arrived(peer), (Numbers{2, 3}));
}

TEST(LoopingWire, OwnAndOtherFramesTakeTurns) {
  const SegmentOptions options = new_wire();
  LoopingWire wire(std::make_unique<SharedMemoryWire>(options));
  SharedMemoryWire peer(options);
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(send(wire, wire.addresses().mac, i) && send(peer, wire.addresses().mac, 10 + i));
  }
  EXPECT_EQ(arrived(wire), (Numbers{0, 10, 1, 11, 2, 12}));
}

TEST(LoopingWire, HasRoomAgainWhenFramesWereTaken) {
  LoopingWire wire(std::make_unique<SharedMemoryWire>(new_wire()));
  const MacAddress own = wire.addresses().mac;
  for (std::uint32_t i = 0; i < LoopingWire::kMostFrames; ++i) {
    ASSERT_TRUE(send(wire, own, i));
  }
  EXPECT_FALSE(send(wire, own, 0));
  wire.wait(kForever);
  EXPECT_EQ(wire.lie_down().count(), 0);
  wire.stand_up();
  EXPECT_EQ(arrived(wire).size(), LoopingWire::kMostFrames);
  EXPECT_TRUE(send(wire, own, 0));
}

TEST(LoopingWire, FramesToItselfAreLostToo) {
  FaultyWire wire(std::make_unique<LoopingWire>(std::make_unique<SharedMemoryWire>(new_wire())), {.loss = 1});
  EXPECT_TRUE(send(wire, wire.addresses().mac, 1));
  EXPECT_TRUE(arrived(wire).empty());
  EXPECT_EQ(wire.counters().faults.lost, 1U);
}

TEST(LoopingWire, ACaptureHasAFrameToItselfOnce) {
  const std::filesystem::path path = std::filesystem::path(own_folder()) / (new_wire_name() + ".pcap");
  CapturingWire wire(std::make_unique<LoopingWire>(std::make_unique<SharedMemoryWire>(new_wire())), {.path = path});
  EXPECT_TRUE(send(wire, wire.addresses().mac, 1));
  EXPECT_EQ(arrived(wire), Numbers{1});
  EXPECT_EQ(std::filesystem::file_size(path), 24 + 16 + kBytes);  // with pcap's headers
}

}  // namespace looping

}  // namespace
}  // namespace sidelatch::roce
