// Victim: a client's task that can be killed between any two of its steps. Requests that its NIC has taken continue.
#pragma once

#include <sidelatch/fabric/task.h>
#include <sidelatch/sync/session.h>

#include <coroutine>
#include <optional>
#include <utility>

namespace sidelatch {

class Victim {
 public:
  /// The task begins at once.
  explicit Victim(fabric::Task<void> task) : task_(std::move(task)) {
    auto start = task_->operator co_await();
    start.await_suspend(std::noop_coroutine());
  }
  void kill() { task_.reset(); }

 private:
  std::optional<fabric::Task<void>> task_;
};

/// For the sessions of victims, whose guards are dropped without a mistake.
inline void ignore_dropped_guard(const sync::DroppedGuard& /*dropped*/) {}
inline void ignore_lost_work(const sync::LostWork& /*lost*/) {}

}  // namespace sidelatch
