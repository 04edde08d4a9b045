// Doorbell: one process sleeps in the kernel until another has something for it. The doorbell lies in shared memory.
//
//   the one that sleeps                        the others
//     bell.lie_down();                           publish something; full_fence();
//     if (!there_is_something())                 if (bell.is_asleep()) bell.ring();
//       bell.sleep(std::chrono::seconds(1));
//     bell.stand_up();
//
// A process that sleeps in poll(2) lies down with Bed::at_bell instead. The others then strike its bell, a socket of
// the user's, and leave the word alone: a waker that changed it after its stroke might find the sleeper risen and lying
// down again, and the word would say "awake" while it sleeps.
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
  enum class Bed : std::uint32_t { at_futex = 1, at_bell = 2 };

  /// A full fence: if another process does not see us asleep, we see what it has published before.
  void lie_down(Bed bed = Bed::at_futex) noexcept;
  /// Sleeps until somebody rings, or has rung since lie_down(), or the time has passed. May return earlier.
  void sleep(std::chrono::nanoseconds at_most) noexcept;
  void stand_up() noexcept { word_.store(kAwake, std::memory_order_relaxed); }

  /// Call it only after a full fence.
  [[nodiscard]] bool is_asleep() const noexcept { return word_.load(std::memory_order_relaxed) == kAsleep; }
  [[nodiscard]] bool is_asleep_at_bell() const noexcept {
    return word_.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(Bed::at_bell);
  }
  /// Wakes who sleeps in sleep().
  void ring() noexcept;

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = static_cast<std::uint32_t>(Bed::at_futex);

  std::atomic<std::uint32_t> word_{kAwake};
};

}  // namespace sidelatch::roce
