// Deliberate faults: as frequent as requested, the same for the same seed, and also in delayed frames.
#include "roce/wire/faulty_wire.h"

#include "roce/wire/shared_memory_wire.h"
#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

namespace sidelatch::roce {
namespace {

using std::chrono::milliseconds;

struct Pair {
  explicit Pair(const FaultOptions& faults) {
    const SegmentOptions options = new_wire();
    sender = std::make_unique<FaultyWire>(std::make_unique<SharedMemoryWire>(options), faults, [this] { return now; });
    receiver = std::make_unique<SharedMemoryWire>(options);
  }
  void send(std::uint32_t number, std::size_t bytes = 100) {
    ASSERT_TRUE(sender->send(test_frame(bytes, receiver->addresses().mac, sender->addresses().mac, number)));
  }
  // The numbers of all frames that arrived; ~0 for damaged ones.
  std::vector<std::uint32_t> arrived() {
    std::vector<std::uint32_t> numbers;
    for (auto frame = receiver->receive(); !frame.empty(); frame = receiver->receive()) {
      numbers.push_back(is_whole(frame) ? number_of(frame) : ~0U);
    }
    return numbers;
  }
  [[nodiscard]] FaultCounters faults() const { return sender->counters().faults; }

  FaultyWire::Clock::time_point now{};
  std::unique_ptr<FaultyWire> sender;
  std::unique_ptr<SharedMemoryWire> receiver;
};

std::vector<std::uint32_t> send_all(Pair& pair, std::uint32_t count) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    pair.send(i);
    const auto some = pair.arrived();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(FaultyWire, WithoutChancesIsAWire) {
  Pair pair({});
  const auto all = send_all(pair, 100);
  ASSERT_EQ(all.size(), 100U);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_EQ(pair.faults(), FaultCounters{});
  EXPECT_EQ(pair.sender->counters().frames_sent, 100U);
}

TEST(FaultyWire, LosesAsOftenAsAskedFor) {
  Pair pair({.loss = 0.25});
  const auto all = send_all(pair, 4000);
  EXPECT_EQ(all.size(), 4000 - pair.faults().lost);
  EXPECT_NEAR(static_cast<double>(pair.faults().lost), 1000, 100);
}

TEST(FaultyWire, TheSameSeedGivesTheSameFaults) {
  FaultOptions options{.seed = 5, .loss = 0.1, .duplication = 0.1, .corruption = 0.1, .reordering = 0.1};
  Pair first(options);
  Pair second(options);
  const auto all = send_all(first, 1000);
  EXPECT_EQ(all, send_all(second, 1000));
  EXPECT_EQ(first.faults(), second.faults());
  options.seed = 6;
  Pair third(options);
  EXPECT_NE(all, send_all(third, 1000));
}

TEST(FaultyWire, FaultsOfOneKindDoNotMoveThoseOfAnother) {
  Pair few({.loss = 0.1});
  Pair more({.loss = 0.1, .duplication = 0.5, .reordering = 0.2});
  send_all(few, 1000);
  send_all(more, 1000);
  EXPECT_EQ(few.faults().lost, more.faults().lost);
  EXPECT_GT(more.faults().duplicated, 0U);
}

TEST(FaultyWire, Duplicates) {
  Pair pair({.duplication = 1});
  pair.send(1);
  pair.send(2);
  EXPECT_EQ(pair.arrived(), (std::vector<std::uint32_t>{1, 1, 2, 2}));
  EXPECT_EQ(pair.faults().duplicated, 2U);
}

TEST(FaultyWire, DamagesOneBitBehindTheEthernetHeader) {
  Pair pair({.corruption = 1});
  for (std::uint32_t number = 0; number < 200; ++number) {
    const auto sent =
        test_frame(length_of(number), pair.receiver->addresses().mac, pair.sender->addresses().mac, number);
    ASSERT_TRUE(pair.sender->send(sent));
    const auto found = pair.receiver->receive();
    ASSERT_EQ(found.size(), sent.size());
    int wrong_bits = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const int bits = std::popcount(std::to_integer<unsigned>(sent[i] ^ found[i]));
      EXPECT_TRUE(bits == 0 || i >= Ethernet::kBytes);
      wrong_bits += bits;
    }
    ASSERT_EQ(wrong_bits, 1);
  }
}

TEST(FaultyWire, ReordersWithinTheDistance) {
  Pair pair({.reordering = 0.2, .reordering_distance = 3});
  const auto all = send_all(pair, 1000);
  EXPECT_GT(pair.faults().reordered, 100U);
  EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    // A frame is late by at most 3 places, and early by at most the number of frames held back meanwhile.
    EXPECT_LE(std::abs(static_cast<int>(i) - static_cast<int>(all[i])), 3);
  }
  // The last frames leave when their time has come.
  pair.now += milliseconds(1);
  pair.sender->flush();
  EXPECT_EQ(all.size() + pair.arrived().size(), 1000U);
}

TEST(FaultyWire, DelaysByTheClock) {
  Pair pair({.delay = 1, .delay_time = milliseconds(5)});
  pair.send(1);
  pair.now += milliseconds(3);
  pair.send(2);
  pair.now += milliseconds(1);
  pair.sender->wait(std::chrono::nanoseconds(0));
  EXPECT_TRUE(pair.arrived().empty());
  pair.now += milliseconds(1);
  EXPECT_TRUE(pair.sender->receive().empty());
  EXPECT_EQ(pair.arrived(), std::vector<std::uint32_t>{1});
  pair.now += milliseconds(10);
  pair.sender->flush();
  EXPECT_EQ(pair.arrived(), std::vector<std::uint32_t>{2});
  EXPECT_EQ(pair.faults().delayed, 2U);
}

// It must not sleep while a delayed frame becomes due.
TEST(FaultyWire, WaitEndsWhenAFrameIsDue) {
  const SegmentOptions options = new_wire();
  FaultyWire sender(std::make_unique<SharedMemoryWire>(options), {.delay = 1, .delay_time = milliseconds(1)});
  SharedMemoryWire receiver(options);
  ASSERT_TRUE(sender.send(test_frame(100, receiver.addresses().mac, sender.addresses().mac, 1)));
  std::span<const std::byte> frame;
  while ((frame = receiver.receive()).empty()) {
    sender.wait(kForever);
  }
  EXPECT_EQ(number_of(frame), 1U);
}

TEST(FaultyWire, KeepsWhatFindsNoRoom) {
  Pair pair({.duplication = 1});
  std::uint32_t sent = 0;
  while (pair.sender->send(test_frame(4000, pair.receiver->addresses().mac, pair.sender->addresses().mac, sent))) {
    ++sent;
  }
  std::map<std::uint32_t, int> times;
  for (auto some = pair.arrived(); !some.empty(); some = pair.arrived()) {
    for (const std::uint32_t number : some) {
      ++times[number];
    }
    pair.sender->flush();
  }
  ASSERT_EQ(times.size(), sent);
  for (const auto& [number, count] : times) {
    EXPECT_EQ(count, 2) << number;
  }
}

TEST(FaultyWire, RefusesOptionsThatMeanNothing) {
  const auto make = [](const FaultOptions& options) { return with_faults(nullptr, options); };
  EXPECT_THROW(static_cast<void>(make({.loss = 1.5})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(make({.duplication = -0.1})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(make({.reordering_distance = 0})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(make({.delay_time = milliseconds(-1)})), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::roce
