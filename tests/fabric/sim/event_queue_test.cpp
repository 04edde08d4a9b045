#include "fabric/sim/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

namespace sidelatch::fabric::sim {
namespace {

TEST(EventQueue, EqualTimesComeInTheOrderOfInsertion) {
  EventQueue queue;
  for (std::uintptr_t i = 0; i < 100; ++i) {
    queue.push(Time{5000}, i);
  }
  for (std::uintptr_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(queue.prepare());
    EXPECT_EQ(queue.pop().payload, i);
  }
  EXPECT_FALSE(queue.prepare());
}

TEST(EventQueue, AnEventMayBeAddedBeforeOneThatWasLookedAt) {
  EventQueue queue;
  queue.push(Time{900'000'000}, 2);
  ASSERT_TRUE(queue.prepare());
  EXPECT_EQ(queue.next_time(), Time{900'000'000});
  queue.push(Time{1'000}, 1);
  queue.push(Time{901'000'000}, 3);
  for (std::uintptr_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(queue.prepare());
    EXPECT_EQ(queue.pop().payload, i);
  }
}

// Compared with a sorted list, with delays from nothing to far beyond the wheel's horizon.
TEST(EventQueue, PopsInTheOrderOfTimeAndInsertion) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    EventQueue queue;
    std::vector<std::tuple<std::int64_t, std::uint64_t>> waiting;  // time, payload; payloads grow with insertion
    std::int64_t now = 0;
    std::uint64_t next = 0;
    for (int step = 0; step < 5000; ++step) {
      if (waiting.empty() || random() % 3 != 0) {
        const std::int64_t magnitude = std::int64_t{1} << (random() % 34);
        const std::int64_t time = now + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(magnitude));
        queue.push(Time{time}, next);
        waiting.emplace_back(time, next++);
      } else {
        const auto expected = std::ranges::min_element(waiting);
        ASSERT_TRUE(queue.prepare());
        const EventQueue::Event event = queue.pop();
        ASSERT_EQ(event.time, std::get<0>(*expected));
        ASSERT_EQ(event.payload, std::get<1>(*expected));
        now = event.time;
        waiting.erase(expected);
      }
    }
  }
}

}  // namespace
}  // namespace sidelatch::fabric::sim
