// No sleeper stays asleep when there is work for it, wherever between its steps the other side rings.
#include "roce/wire/doorbell.h"

#include "common/full_fence.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace sidelatch::roce {
namespace {

TEST(DoorbellThreaded, NoRingIsMissed) {
  constexpr int kTurns = 50'000;
  std::array<Doorbell, 2> bells;
  std::array<std::atomic<int>, 2> given{};
  const auto play = [&](std::size_t own) {
    for (int turn = 1; turn <= kTurns; ++turn) {
      given[1 - own].store(turn, std::memory_order_release);
      full_fence();
      if (bells[1 - own].is_asleep()) {
        bells[1 - own].ring();
      }
      while (given[own].load(std::memory_order_acquire) < turn) {
        bells[own].lie_down();
        if (given[own].load(std::memory_order_acquire) < turn) {
          bells[own].sleep(std::chrono::hours(24));
        }
        bells[own].stand_up();
      }
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_FALSE(bells[0].is_asleep());
  EXPECT_EQ(given[0], kTurns);
}

}  // namespace
}  // namespace sidelatch::roce
