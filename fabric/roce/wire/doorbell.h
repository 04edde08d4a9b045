// Doorbell: one process sleeps in the kernel until another has something for it. It lies in memory that they share.
//
//   the one that sleeps                                   the others
//     const auto ticket = bell.lie_down();                  publish something; full_fence();
//     if (!there_is_something()) bell.sleep(ticket, 1ms);   if (bell.is_asleep()) bell.ring();
//     bell.stand_up();
//
// No one who rings can be missed, and no system call is made while the other is awake. Any of them may be killed at any
// instruction: the word never says "awake" of one who sleeps, because who rings wakes first and changes the word then.
//
// Thread-safety: one thread sleeps; any may ring, and from a signal handler.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sidelatch::fabric::roce {

class Doorbell {
 public:
  /// A value that no earlier sleep had. A full fence: what others publish later, they publish seeing us asleep.
  [[nodiscard]] std::uint32_t lie_down() noexcept;
  /// Until somebody rings, or the time has passed; or less.
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) noexcept;
  void stand_up() noexcept;

  /// To be asked behind a full fence.
  [[nodiscard]] bool is_asleep() const noexcept { return is_odd(word_.load(std::memory_order_relaxed)); }
  void ring() noexcept;

 private:
  [[nodiscard]] static bool is_odd(std::uint32_t word) noexcept { return (word & 1U) != 0; }

  std::atomic<std::uint32_t> word_{0};  // odd: asleep
};

}  // namespace sidelatch::fabric::roce
