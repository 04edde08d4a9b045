#include "softnic/nic/timers.h"

#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sidelatch::softnic::nic {
namespace {

// Compared with a map, under random changes.
TEST(Timers, TheEarliestComesFirstHoweverTheyAreMoved) {
  constexpr std::size_t kPairs = 40;
  Host host(1);
  Timers timers;
  std::vector<QueuePair*> pairs;
  for (std::size_t i = 0; i < kPairs; ++i) {
    pairs.push_back(&host.nic.make_queue_pair(host.options()));
  }
  std::map<QueuePair*, Time> expected;
  std::mt19937 random(1);
  EXPECT_EQ(timers.next(), kNever);
  for (int i = 0; i < 20'000; ++i) {
    QueuePair* const pair = pairs[random() % kPairs];
    const Time at = random() % 3 == 0 ? kNever : random() % 1000;
    timers.set(*pair, at);
    expected[pair] = at;
    Time earliest = kNever;
    for (const auto& [each, time] : expected) {
      earliest = std::min(earliest, time);
    }
    ASSERT_EQ(timers.next(), earliest);
    if (earliest != kNever) {
      ASSERT_EQ(expected[&timers.first()], earliest);
    }
  }
}

}  // namespace
}  // namespace sidelatch::softnic::nic
