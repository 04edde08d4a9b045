// SpinTime: how long to spin before sleeping, learnt from earlier waits, as in KVM (Linux,
// Documentation/virt/kvm/halt-polling.rst). It grows after a wait that slightly longer spinning would have caught, and
// shrinks after a long wait. An idle wire therefore costs almost nothing, and a busy one seldom sleeps.
#pragma once

#include <algorithm>
#include <chrono>

namespace sidelatch::roce {

class SpinTime {
 public:
  static constexpr std::chrono::nanoseconds kLeast{1'000};
  static constexpr std::chrono::nanoseconds kMost{50'000};

  /// With one CPU, the process that we wait for cannot run while we spin.
  explicit SpinTime(unsigned cpus) noexcept : most_(cpus > 1 ? kMost : std::chrono::nanoseconds(0)), now_(most_) {}

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return now_; }
  /// Learns from a finished wait, its duration and whether it slept.
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
