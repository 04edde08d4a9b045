// The queue of the part of a NIC that sends requests. A doorbell is known when it rings, and has work a while later.
#pragma once

#include <sidelatch/fabric/types.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sidelatch::fabric::sim {

/// Serves in the order in which work arrives. Work that arrives later may be given first: it does not delay what
/// arrives before it. Its end is foretold when it is given, as if nothing else came. What comes in between delays the
/// later work, but not the ends that were foretold.
class RequesterQueue {
 public:
  /// The end of work that takes `service` and arrives at `arrives`, now or later.
  Time serve(Time now, Time arrives, Time service) {
    while (first_ != coming_.size() && coming_[first_].arrives <= now) {
      free_ = end_of(coming_[first_++], free_);
    }
    if (first_ == coming_.size() || first_ >= kMostGone) {
      forget_gone();
    }
    const Work work{arrives, service};
    if (arrives > now && (coming_.empty() || coming_.back().arrives <= arrives)) [[likely]] {
      last_ = end_of(work, last_);
      coming_.push_back(work);
      return last_;
    }
    return serve_between(now, work);
  }

 private:
  struct Work {
    Time arrives;
    Time service;
  };
  static constexpr std::size_t kMostGone = 64;
  static Time end_of(const Work& work, Time free) { return std::max(work.arrives, free) + work.service; }
  void forget_gone() {
    coming_.erase(coming_.begin(), coming_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

  // Work that comes before other work which was given already.
  [[gnu::noinline]] Time serve_between(Time now, const Work& work) {
    forget_gone();
    Time end{};
    if (work.arrives <= now) {
      end = free_ = end_of(work, free_);
    } else {
      coming_.insert(std::ranges::upper_bound(coming_, work.arrives, {}, &Work::arrives), work);
    }
    last_ = free_;
    for (const Work& each : coming_) {
      last_ = end_of(each, last_);
      if (work.arrives > now && each.arrives <= work.arrives) {
        end = last_;
      }
    }
    return end;
  }

  Time free_{};               // after the work that has arrived
  Time last_{};               // after all work
  std::vector<Work> coming_;  // from first_ on what has not arrived, in its order; before it what is gone
  std::size_t first_ = 0;
};

}  // namespace sidelatch::fabric::sim
