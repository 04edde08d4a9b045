// Doorbell: one process sleeps in the kernel until another has something for it. It lies in memory that they share.
//
//   the one that sleeps                        the others
//     bell.lie_down();                           publish something; full_fence();
//     if (!there_is_something())                 if (bell.is_asleep()) bell.ring();
//       bell.sleep(std::chrono::seconds(1));
//     bell.stand_up();
//
// No one who rings is missed, and there is no system call while the other is awake. Any of them may be killed at any
// instruction: the kernel changes the word and wakes in one step, so the word never says "awake" of one who sleeps.
//
// Thread-safety: one thread sleeps; any may ring, and from a signal handler.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sidelatch::roce {

class Doorbell {
 public:
  /// A full fence: who does not see us asleep has published before it, and we see what.
  void lie_down() noexcept;
  /// Until somebody rings, or has rung since lie_down(), or the time has passed; now and then less.
  void sleep(std::chrono::nanoseconds at_most) noexcept;
  void stand_up() noexcept { word_.store(kAwake, std::memory_order_relaxed); }

  /// To be asked behind a full fence.
  [[nodiscard]] bool is_asleep() const noexcept { return word_.load(std::memory_order_relaxed) == kAsleep; }
  void ring() noexcept;

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;

  std::atomic<std::uint32_t> word_{kAwake};
};

}  // namespace sidelatch::roce
