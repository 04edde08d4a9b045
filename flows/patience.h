// How a unit waits for a counter that the switch will move: no system call while the flow moves, and the CPU for others
// when it does not.
#pragma once

#include "common/pause_cpu.h"

#include <sched.h>

#include <cstdint>

namespace sidelatch::flows {

class Patience {
 public:
  void wait() noexcept {
    if (waits_ < kSpins) {
      ++waits_;
      pause_cpu();
    } else {
      ::sched_yield();
    }
  }

 private:
  static constexpr std::uint32_t kSpins = 1000;  // about 40 us
  std::uint32_t waits_ = 0;
};

}  // namespace sidelatch::flows
