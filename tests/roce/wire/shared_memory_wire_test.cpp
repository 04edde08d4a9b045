// A wire of shared memory: stations of this process, and of others that are killed.
#include "roce/wire/shared_memory_wire.h"

#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sidelatch::roce {
namespace {

using std::chrono::nanoseconds;

const MacAddress& mac(const Wire& wire) { return wire.addresses().mac; }

TEST(SharedMemoryWire, CarriesFramesOfAllLengths) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire a(options);
  SharedMemoryWire b(options);
  for (std::size_t bytes = kLeastTestFrame; bytes <= kMostFrameBytes; bytes += 41) {
    const auto frame = test_frame(bytes, mac(b), mac(a), static_cast<std::uint32_t>(bytes));
    ASSERT_TRUE(a.send(frame));
    const auto found = b.receive();
    ASSERT_TRUE(std::equal(found.begin(), found.end(), frame.begin(), frame.end())) << bytes;
  }
  EXPECT_TRUE(b.receive().empty());
  EXPECT_EQ(a.counters().frames_sent, b.counters().frames_received);
  EXPECT_EQ(a.counters().bytes_sent, b.counters().bytes_received);
  EXPECT_THROW(static_cast<void>(a.reserve(mac(b), kMostFrameBytes + 1)), std::invalid_argument);
  EXPECT_THROW(a.send(std::vector<std::byte>(13)), std::invalid_argument);
}

TEST(SharedMemoryWire, FindsStationsByTheirAddresses) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire a(options);
  EXPECT_EQ(a.resolve(a.addresses().ipv6), mac(a));
  EXPECT_EQ(a.resolve(addresses_of_station(1).ipv6), std::nullopt);
  SharedMemoryWire b(options);
  EXPECT_EQ(a.resolve(b.addresses().ipv6), mac(b));
  EXPECT_EQ(a.resolve(gid_of(b.addresses().ipv4)), mac(b));
  EXPECT_EQ(a.resolve(Gid{}), std::nullopt);
  EXPECT_EQ(a.directory().size(), 2U);
}

TEST(SharedMemoryWire, CarriesFramesToItself) {
  SharedMemoryWire wire(new_wire());
  ASSERT_TRUE(wire.send(test_frame(100, mac(wire), mac(wire), 5)));
  EXPECT_EQ(number_of(wire.receive()), 5U);
}

TEST(SharedMemoryWire, DropsFramesForNobody) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire a(options);
  EXPECT_TRUE(a.send(test_frame(100, addresses_of_station(7).mac, mac(a), 1)));
  EXPECT_TRUE(a.send(test_frame(100, kBroadcast, mac(a), 1)));
  EXPECT_EQ(a.counters().dropped, 2U);
  EXPECT_EQ(a.counters().frames_sent, 0U);
}

TEST(SharedMemoryWire, ForgetsRoomThatIsNotCommitted) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire a(options);
  SharedMemoryWire b(options);
  ASSERT_FALSE(a.reserve(mac(b), 1000).empty());
  ASSERT_FALSE(a.reserve(mac(b), 1000).empty());
  a.commit(0);
  EXPECT_TRUE(b.receive().empty());
  ASSERT_TRUE(a.send(test_frame(100, mac(b), mac(a), 1)));
  EXPECT_EQ(b.receive().size(), 100U);
}

TEST(SharedMemoryWire, IsFullForOneStationAloneUntilThatReads) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire a(options);
  SharedMemoryWire b(options);
  SharedMemoryWire c(options);
  std::uint32_t sent = 0;
  while (a.send(test_frame(length_of(sent), mac(b), mac(a), sent))) {
    ++sent;
  }
  EXPECT_GT(sent, 20U);
  EXPECT_EQ(a.counters().full, 1U);
  EXPECT_TRUE(a.send(test_frame(100, mac(c), mac(a), 0)));
  for (std::uint32_t i = 0; i < sent; ++i) {
    const auto frame = b.receive();
    ASSERT_TRUE(is_whole(frame));
    ASSERT_EQ(number_of(frame), i);
  }
  EXPECT_TRUE(b.receive().empty());
  EXPECT_TRUE(a.send(test_frame(kMostFrameBytes, mac(b), mac(a), 0)));
}

TEST(SharedMemoryWire, IsFairToAllStations) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire reader(options);
  std::vector<std::unique_ptr<SharedMemoryWire>> writers;
  for (int i = 0; i < 5; ++i) {
    writers.push_back(std::make_unique<SharedMemoryWire>(options));
    while (writers.back()->send(test_frame(64, mac(reader), mac(*writers.back()), 0))) {
    }
  }
  std::map<MacAddress, int> taken;
  for (int i = 0; i < 5 * 64; ++i) {
    ++taken[Ethernet::read(reader.receive().data()).source];
  }
  ASSERT_EQ(taken.size(), 5U);
  for (const auto& [from, count] : taken) {
    EXPECT_EQ(count, 64);
  }
}

TEST(SharedMemoryWire, WhoComesAfterAnotherStationDoesNotGetItsFrames) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire a(options);
  auto b = std::make_unique<SharedMemoryWire>(options);
  const MacAddress to = mac(*b);
  for (std::uint32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(a.send(test_frame(1000, to, mac(a), i)));
  }
  EXPECT_EQ(number_of(b->receive()), 0U);
  EXPECT_EQ(number_of(b->receive()), 1U);
  b.reset();
  EXPECT_TRUE(a.send(test_frame(100, to, mac(a), 50)));
  EXPECT_EQ(a.counters().dropped, 1U);
  SharedMemoryWire heir(options);
  ASSERT_EQ(mac(heir), to);
  EXPECT_TRUE(heir.receive().empty());
  EXPECT_TRUE(a.send(test_frame(100, to, mac(a), 51)));
  EXPECT_EQ(number_of(heir.receive()), 51U);
  // And in reverse, in a ring that another station wrote to.
  EXPECT_TRUE(heir.send(test_frame(100, mac(a), to, 52)));
  EXPECT_EQ(number_of(a.receive()), 52U);
}

TEST(SharedMemoryWire, WaitEndsAtOnceIfThereIsAFrameOrAnInterrupt) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire a(options);
  SharedMemoryWire b(options);
  ASSERT_TRUE(a.send(test_frame(100, mac(b), mac(a), 1)));
  b.wait(std::chrono::hours(10'000));
  EXPECT_FALSE(b.receive().empty());
  b.interrupt();
  b.wait(nanoseconds::max());
  EXPECT_EQ(b.counters().sleeps, 0U);
  b.wait(nanoseconds(0));
  b.wait(nanoseconds(-1));
  EXPECT_EQ(b.counters().sleeps, 0U);
  b.wait(std::chrono::milliseconds(1));
  EXPECT_EQ(b.counters().sleeps, 1U);
}

TEST(SharedMemoryWire, FramesForAKilledStationAreDropped) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire a(options);
  ChildProcess child([&] {
    const SharedMemoryWire b(options);
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(child.status(), -SIGKILL);
  const MacAddress to = addresses_of_station(1).mac;
  EXPECT_EQ(a.resolve(addresses_of_station(1).ipv6), std::nullopt);
  // Its ring takes frames until it is full and the sender checks why.
  while (a.counters().dropped < 1000) {
    if (!a.send(test_frame(1000, to, mac(a), 0))) {
      a.wait(std::chrono::seconds(10));
    }
  }
  SharedMemoryWire heir(options);
  ASSERT_EQ(mac(heir), to);
  EXPECT_TRUE(a.send(test_frame(100, to, mac(a), 1)));
  EXPECT_EQ(number_of(heir.receive()), 1U);
}

// A child that sends and answers as fast as possible.
int chatter(const SegmentOptions& options) {
  SharedMemoryWire wire(options);
  const MacAddress to = addresses_of_station(0).mac;
  for (std::uint32_t number = 0;; ++number) {
    send_test_frame(wire, to, number, length_of(number));
    if (number % 8 == 0) {
      wire.flush();
    }
    while (!wire.receive().empty()) {
    }
  }
}

// Killed at any instruction: inside a frame, asleep, about to wake us, or while holding back frames it has read. Frames
// still arrive whole and in order, and the others notice nothing.
TEST(SharedMemoryWire, SurvivesProcessesThatAreKilledAnywhere) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire wire(options);
  ASSERT_EQ(mac(wire), addresses_of_station(0).mac);
  std::mt19937 random(4);
  ChildProcess steady([&] { return chatter(options); });
  std::optional<MacAddress> steady_mac;
  std::map<MacAddress, std::uint32_t> next;
  std::uint32_t sent = 0;
  const auto exchange = [&](std::uint64_t frames) {
    for (std::uint64_t i = 0; i < frames; ++i) {
      const auto frame = wait_for_frame(wire);
      ASSERT_TRUE(is_whole(frame));
      const MacAddress from = Ethernet::read(frame.data()).source;
      ASSERT_EQ(frame.size(), length_of(number_of(frame)));
      // A new process that replaces a killed one begins at 0.
      if (number_of(frame) != 0 || next[from] == 0) {
        ASSERT_EQ(number_of(frame), next[from]);
      }
      next[from] = number_of(frame) + 1;
      if (!steady_mac) {
        steady_mac = from;
      }
      static_cast<void>(wire.send(test_frame(length_of(sent), from, mac(wire), sent)));
      ++sent;
    }
  };
  exchange(10);
  for (int round = 0; round < 60; ++round) {
    ChildProcess one([&] { return chatter(options); });
    ChildProcess two([&] { return chatter(options); });
    exchange(random() % 300);
    if (random() % 2 == 0) {
      one.kill();
      exchange(random() % 100);
    }
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
  const std::uint32_t before = next.at(*steady_mac);
  exchange(500);
  EXPECT_GT(next.at(*steady_mac), before);
  steady.kill();
  while (!wire.receive().empty()) {
  }
  // All places became free and were reused.
  EXPECT_EQ(wire.directory().size(), 1U);
  EXPECT_LE(next.size(), 3U);
}

}  // namespace
}  // namespace sidelatch::roce
