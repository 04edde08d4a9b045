// SpinTime: how long to look again and again before sleeping, learnt from the waits before. What KVM does for its
// guests (Linux, Documentation/virt/kvm/halt-polling.rst): a wait that spinning a little longer would have caught lets
// it grow, a long one lets it shrink. An idle wire so costs next to nothing, and a busy one sleeps seldom.
#pragma once

#include <algorithm>
#include <chrono>

namespace sidelatch::roce {

class SpinTime {
 public:
  static constexpr std::chrono::nanoseconds kLeast{1'000};
  static constexpr std::chrono::nanoseconds kMost{50'000};

  /// With one CPU, whoever we wait for cannot run while we spin.
  explicit SpinTime(unsigned cpus) noexcept : most_(cpus > 1 ? kMost : std::chrono::nanoseconds(0)), now_(most_) {}

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return now_; }
  /// A wait is over; it took this long, and it slept or not.
  void learn(std::chrono::nanoseconds took, bool slept) noexcept {
    if (!slept) {
      return;
    }
    now_ = took <= most_ ? std::max(now_ * 2, kLeast) : now_ / 2;
    now_ = std::clamp(now_, std::min(kLeast, most_), most_);
  }

 private:
  std::chrono::nanoseconds most_;
  std::chrono::nanoseconds now_;
};

}  // namespace sidelatch::roce
