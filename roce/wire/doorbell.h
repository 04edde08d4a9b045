// Doorbell: one process sleeps in the kernel until another has something for it. The doorbell lies in shared memory.
//
//   the one that sleeps                        the others
//     bell.lie_down();                           publish something; full_fence();
//     if (!there_is_something())                 if (bell.is_asleep()) bell.ring();
//       bell.sleep(std::chrono::seconds(1));
//     bell.stand_up();
//
// No ring is missed, and ringing makes no system call while the other process is awake. Any process may be killed at
// any instruction: the kernel changes the word and wakes in one step, so the word never says "awake" while the process
// sleeps.
//
// Thread-safety: one thread sleeps; any thread may ring, also from a signal handler.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sidelatch::roce {

class Doorbell {
 public:
  /// A full fence: if another process does not see us asleep, we see what it has published before.
  void lie_down() noexcept;
  /// Sleeps until somebody rings, or has rung since lie_down(), or the time has passed. May return earlier.
  void sleep(std::chrono::nanoseconds at_most) noexcept;
  void stand_up() noexcept { word_.store(kAwake, std::memory_order_relaxed); }

  /// Call it only after a full fence.
  [[nodiscard]] bool is_asleep() const noexcept { return word_.load(std::memory_order_relaxed) == kAsleep; }
  void ring() noexcept;

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;

  std::atomic<std::uint32_t> word_{kAwake};
};

}  // namespace sidelatch::roce
