// Victim: a client's task that ends between any two of its steps. Requests that its NIC has taken continue.
#pragma once

#include <sidelatch/fabric/reactor.h>
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
  /// The task is destroyed, and its client goes on.
  void destroy() { task_.reset(); }
  /// The client dies.
  void kill(fabric::Reactor& reactor) {
    const fabric::Reactor::Death death(reactor);
    task_.reset();
  }

 private:
  std::optional<fabric::Task<void>> task_;
};

inline void ignore_lost_work(const sync::LostWork& /*lost*/) {}

}  // namespace sidelatch
