#include <sidelatch/fabric/reactor.h>

#include <sidelatch/fabric/after.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>

#include <algorithm>
#include <coroutine>
#include <stdexcept>

namespace sidelatch::fabric {

// The outermost frame of a spawned task. It lies in Reactor::spawned_ from its start to its end and destroys itself.
struct Reactor::Root {
  struct promise_type : PooledFrame {
    promise_type(Reactor* owner, const Task<void>& /*task*/) noexcept : reactor(owner) {
      self.handle = std::coroutine_handle<promise_type>::from_promise(*this);
      reactor->spawned_.push_back(self);
      ++reactor->spawned_count_;
    }
    promise_type(const promise_type&) = delete;
    promise_type& operator=(const promise_type&) = delete;
    ~promise_type() { --reactor->spawned_count_; }
    Root get_return_object() noexcept { return {}; }
    [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept {
      if (!reactor->failure_) {
        reactor->failure_ = std::current_exception();
      }
    }

    Reactor* reactor;
    Waiter self;
  };
};

Reactor::Root Reactor::start_root(Reactor* /*reactor*/, Task<void> task) { co_await task; }

Reactor::Reactor(std::uint32_t completion_queue_depth)
    : cq_depth_(completion_queue_depth), cq_free_(completion_queue_depth) {
  if (completion_queue_depth < 2) {
    throw std::invalid_argument(
        fmt::format("completion_queue_depth is {}: it must be at least 2", completion_queue_depth));
  }
}

Reactor::~Reactor() { destroy_spawned(); }

void Reactor::destroy_spawned() noexcept {
  const Death with_the_world(*this);
  destroy_all();
}

void Reactor::destroy_all() noexcept {
  while (!spawned_.empty()) {
    spawned_.front().handle.destroy();
  }
}

void Reactor::spawn(Task<void> task) {
  if (!task.valid()) {
    detail::refuse_empty_task("spawn");
  }
  start_root(this, std::move(task));
  if (explores_) {
    static_cast<void>(part_behind_post(nullptr));  // the caller goes on behind what the task has posted
  }
}

void Reactor::resume_ready() {
  while (!ready_.empty()) {
    take_ready().handle.resume();
  }
}

void Reactor::drive(const bool* until) {
  for (;;) {
    resume_ready();
    rethrow_failure();
    if (until != nullptr ? *until : spawned_count_ == 0) {
      return;
    }
    if (ready_.empty() && !advance(std::nullopt)) {
      throw FabricError(Status::stuck, fmt::format("{} task(s) wait, and nothing is left that could happen",
                                                   spawned_count_ + (until != nullptr ? 1U : 0U)));
    }
  }
}

void Reactor::run() { drive(nullptr); }

void Reactor::run_for(Duration duration) {
  const Time limit = after(now(), duration);
  bool more = true;
  while (more) {
    resume_ready();
    rethrow_failure();
    more = advance(limit) && now() < limit;
    // Events at the limit itself, and their consequences at the same time, still belong to this run.
    if (!more && has_ready() && now() <= limit) {
      more = true;
    }
  }
  // A real clock is past the limit now: tasks that became ready before are resumed once more.
  resume_ready();
  rethrow_failure();
}

bool Reactor::wait_until_idle(QueuePair& queue_pair, Duration limit) noexcept {
  // A world does not go on while a task is ready: ready ones wait aside, in their order. This caller waits as a task
  // does, so that the world stops at the last completion and not at the limit.
  QueuePair::ChainAwaiter all = queue_pair.drain();
  WaitList aside;
  const auto set_aside = [&] {
    while (!ready_.empty()) {
      Waiter& waiter = ready_.front();
      waiter.unlink();
      if (&waiter != &all) {
        aside.push_back(waiter);
      }
    }
  };
  const std::uint64_t errors = queue_pair.failures();
  try {
    const Time begin = now();
    const Time end = begin + std::min(limit, Time::max() - begin);  // whose limit is no limit waits for ever
    set_aside();
    static_cast<void>(all.await_suspend(std::noop_coroutine()));
    while (all.linked() && now() < end && advance(end)) {
      set_aside();
    }
  } catch (...) {  // the device is lost: the queue pair keeps what was in flight
  }
  while (!aside.empty()) {
    Waiter& waiter = aside.front();
    waiter.unlink();
    ready_.push_back(waiter);
  }
  return queue_pair.outstanding_so_far() == 0 && queue_pair.state() == QueuePair::State::ready &&
         queue_pair.failures() == errors;
}

void Reactor::admit_waiting() {
  // Each queue pair posts one thing and goes to the end, so a busy one cannot keep the others waiting. An admitted
  // queue pair may free entries itself (an error flushes it): the outer loop then continues.
  if (admitting_) {
    return;
  }
  admitting_ = true;
  while (!cq_waiters_.empty()) {
    auto& waiting = static_cast<QueuePair::CompletionQueueWaiter&>(cq_waiters_.front());
    if (!waiting.queue_pair->admit()) {
      break;
    }
  }
  admitting_ = false;
}

}  // namespace sidelatch::fabric
