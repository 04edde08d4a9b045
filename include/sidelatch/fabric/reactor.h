// Reactor: runs tasks and resumes them when the event that they wait for has happened.
//
//   Reactor& reactor = fabric.reactor();
//   int value = reactor.run(task());          // blocking code: drive the world until the task ends
//   reactor.spawn(worker());                  // run beside others ...
//   reactor.run();                            // ... until all of them have ended
//   co_await reactor.sleep(from_ns(500));     // inside a task
//
// Each world has its own: the verbs reactor polls a completion queue, the simulator's advances virtual time, the
// explorer's chooses the next micro-step. A task that waits for something that can never happen does not hang: if the
// world knows it (simulator, explorer), run() throws FabricError{Status::stuck}.
//
// The completion queue has a fixed depth. Every work request in flight holds one entry, signalled or not, because any
// of them may complete with an error; a post that finds no entry left waits (back-pressure). Nothing is ever lost.
//
// Thread-safety: a reactor, its queue pairs, and its tasks belong to one thread. Use one reactor per thread.
#pragma once

#include <sidelatch/fabric/checked_request.h>
#include <sidelatch/fabric/task.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/fabric/wait_list.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

namespace sidelatch::sync {
class Attempts;
}

namespace sidelatch::fabric {

class DirectCpu;
class QueuePair;

class Reactor {
 public:
  /// `completion_queue_depth`: work requests in flight over all queue pairs of this reactor, at least 2, else
  /// std::invalid_argument.
  explicit Reactor(std::uint32_t completion_queue_depth);
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;
  /// Destroys spawned tasks that have not ended.
  virtual ~Reactor();

  /// The world's clock.
  [[nodiscard]] virtual Time now() const = 0;
  /// now(), for the library's own leases and notes of when something began. The explorer has a rule for leases, so they
  /// do not make it doubt what it says of a client that waits and asks what time it is.
  [[nodiscard]] virtual Time lease_clock() const { return now(); }

  /// Runs until `task` has ended and returns its value or throws its exception; other tasks run meanwhile. Throws
  /// std::invalid_argument for an empty task.
  template <class T>
  T run(Task<T> task);

  /// Runs `task` beside the others. If an exception leaves it, the current run call throws that exception; the first
  /// one if several leave at one moment. Throws std::invalid_argument for an empty task.
  void spawn(Task<void> task);

  /// Runs until every spawned task has ended.
  void run();

  /// Runs for `duration` of the world's time; returns early if nothing more can happen.
  void run_for(Duration duration);

  /// Makes the world go on, without resuming any task, until nothing of `queue_pair` is in flight. False: `limit` has
  /// passed before, or the queue pair has failed. For destructors, which cannot await QueuePair::drain().
  [[nodiscard]] bool wait_until_idle(QueuePair& queue_pair, Duration limit) noexcept;

  /// Spawned tasks that have not ended.
  [[nodiscard]] std::uint64_t spawned() const {
    progress_is_read(nullptr, true);
    return spawned_count_;
  }
  /// The same for a world that explores.
  [[nodiscard]] std::uint64_t spawned_so_far() const noexcept { return spawned_count_; }
  /// Destroys the spawned tasks. A derived reactor calls this first in its destructor, while the world still exists.
  void destroy_spawned() noexcept;
  /// Destroys the spawned tasks when it ends: for callers that spawn tasks that use objects of the same scope. When a
  /// run call throws, the other tasks still wait, and must not outlive those objects. They give back what they hold, as
  /// tasks that are destroyed one by one.
  class Scope {
   public:
    explicit Scope(Reactor& reactor) noexcept : reactor_(&reactor) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { reactor_->destroy_all(); }

   private:
    Reactor* reactor_;
  };
  /// While it lives, the tasks and sessions that are destroyed are those of a client that has died: they give nothing
  /// back. For crashes that are simulated.
  class Death {
   public:
    explicit Death(Reactor& reactor) noexcept
        : reactor_(&reactor), outer_(std::exchange(reactor.abandons_tasks_, true)) {}
    Death(const Death&) = delete;
    Death& operator=(const Death&) = delete;
    ~Death() { reactor_->abandons_tasks_ = outer_; }

   private:
    Reactor* reactor_;
    bool outer_;
  };

  /// Names a retry loop of a task to a world that explores; other worlds ignore it.
  using LoopId = std::uint32_t;
  static constexpr LoopId kNoLoop = 0;

  class SleepAwaiter : public Waiter {
   public:
    SleepAwaiter(Reactor& reactor, Duration duration, LoopId loop = kNoLoop) noexcept
        : reactor_(&reactor), duration_(duration), loop_(loop) {}
    ~SleepAwaiter() {
      if (timer_ != 0) {
        reactor_->cancel_timer(timer_);
      }
    }
    SleepAwaiter(const SleepAwaiter&) = delete;
    SleepAwaiter& operator=(const SleepAwaiter&) = delete;
    [[nodiscard]] bool await_ready() const noexcept { return duration_ <= Duration::zero() && loop_ == kNoLoop; }
    bool await_suspend(std::coroutine_handle<> awaiter) {
      handle = awaiter;
      timer_ =
          loop_ == kNoLoop ? reactor_->start_timer(duration_, *this) : reactor_->start_retry(loop_, duration_, *this);
      return timer_ != 0;
    }
    void await_resume() noexcept { timer_ = 0; }

   private:
    Reactor* reactor_;
    Duration duration_;
    LoopId loop_;
    std::uint64_t timer_ = 0;
  };

  /// Waits for `duration`; zero or less does not wait.
  [[nodiscard]] SleepAwaiter sleep(Duration duration) noexcept { return {*this, duration}; }

  /// Call this where a loop begins that repeats an attempt until it succeeds, and retry() before each repetition. A
  /// world that explores looks here whether an attempt has left everything as it was; `place` names the loop in what it
  /// reports. Other worlds pay nothing.
  [[nodiscard]] LoopId begin_retries(const std::source_location& place = std::source_location::current()) {
    return explores_ ? begin_loop(place, false) : kNoLoop;
  }
  /// Waits for `duration` before the next attempt of the loop.
  [[nodiscard]] SleepAwaiter retry(LoopId loop, Duration duration) noexcept { return {*this, duration, loop}; }

  /// For libraries: a world that explores need not compare these bytes, which only count what has happened. They stay
  /// where they are as long as the task's world. When such a number is read, call tally_is_read().
  void keep_out_of_state(std::span<const std::byte> tally) {
    if (explores_) {
      leave_out(tally);
    }
  }
  /// The same for buffers that no client holds: which of them comes next, and what is left in them, is nobody's
  /// knowledge. Call forget_spares() before `spares` ends.
  class Spares {
   public:
    Spares() = default;
    Spares(const Spares&) = delete;
    Spares& operator=(const Spares&) = delete;
    virtual ~Spares() = default;
    /// Appends the bytes that do not count now.
    virtual void append_to(std::vector<std::span<const std::byte>>& out) const = 0;
  };
  void keep_out_of_state(const Spares& spares) {
    if (explores_) {
      leave_out(spares);
    }
  }
  void forget_spares(const Spares& spares) noexcept {
    if (explores_) [[unlikely]] {
      leave_out_no_more(spares);
    }
  }
  void tally_is_read() const {
    if (explores_) [[unlikely]] {
      note_tally();
    }
  }
  /// How far the requests of a queue pair have got was asked for; null: of all clients of this reactor.
  /// `changes_alone`: it may change although nobody posts anything.
  void progress_is_read(const QueuePair* of, bool changes_alone) const {
    if (explores_) [[unlikely]] {
      note_progress(of, changes_alone);
    }
  }

  /// A world that explores does not explore what the running client does now, and judges nothing of what follows:
  /// `what` says what it is, as what follows "a client, which ".
  void is_not_explored(std::string_view what) const noexcept {
    if (explores_) [[unlikely]] {
      note_not_explored(what);
    }
  }

  /// Whether another task of the running client may go on while this one waits. False in worlds that do not explore.
  [[nodiscard]] bool has_other_tasks() const { return explores_ && other_tasks_may_go_on(); }

  /// Whether this is a world that explores.
  [[nodiscard]] bool explores() const noexcept { return explores_; }

  /// What a spawned task has thrown, once; else null. drive() throws it itself.
  [[nodiscard]] std::exception_ptr take_failure() noexcept { return std::exchange(failure_, nullptr); }
  /// Whether tasks are being destroyed with their world, or as those of a client that has died (Death).
  [[nodiscard]] bool abandons_tasks() const noexcept { return abandons_tasks_; }

  /// Queues `waiter`'s coroutine to be resumed; for fabrics and synchronization objects.
  void ready(Waiter& waiter) noexcept { ready_.push_back(waiter); }

  [[nodiscard]] std::uint32_t completion_queue_depth() const noexcept { return cq_depth_; }
  [[nodiscard]] std::uint32_t completion_queue_free() const {
    progress_is_read(nullptr, true);
    return cq_free_;
  }

 protected:
  /// Makes the world go on until some coroutine is ready, or `limit` is reached. False: nothing more can happen.
  virtual bool advance(std::optional<Time> limit) = 0;
  /// Makes `waiter` ready after `duration`; returns a non-zero id.
  virtual std::uint64_t start_timer(Duration duration, Waiter& waiter) = 0;
  virtual void cancel_timer(std::uint64_t timer) noexcept = 0;
  /// For a world that explores, which sets explores_.
  /// `forgets`: the loop's own frame keeps nothing of an attempt, and the first retry() of the loop is its head.
  [[nodiscard]] virtual LoopId begin_loop(const std::source_location& /*place*/, bool /*forgets*/) { return kNoLoop; }
  virtual void leave_out(std::span<const std::byte> /*tally*/) {}
  virtual void leave_out(const Spares& /*spares*/) {}
  virtual void leave_out_no_more(const Spares& /*spares*/) noexcept {}
  virtual void note_tally() const {}
  virtual void note_progress(const QueuePair* /*of*/, bool /*changes_alone*/) const {}
  /// A task goes on behind a post, with no wait between them. `waiter` is its awaiter, or null where it cannot wait.
  /// Returns true if it waits all the same; then the world makes it ready.
  virtual bool part_behind_post(Waiter* /*waiter*/) { return false; }
  /// As start_timer(), but 0: `waiter` goes on without a wait.
  [[nodiscard]] virtual std::uint64_t start_retry(LoopId /*loop*/, Duration duration, Waiter& waiter) {
    return start_timer(duration, waiter);
  }
  virtual void note_not_explored(std::string_view /*what*/) const noexcept {}
  [[nodiscard]] virtual bool other_tasks_may_go_on() const { return false; }
  bool explores_ = false;

  /// Resumes tasks until none is ready.
  void resume_ready();
  [[nodiscard]] bool has_ready() const noexcept { return !ready_.empty(); }
  /// The first one of those that are ready, which is ready no more. Requires has_ready().
  [[nodiscard]] Waiter& take_ready() noexcept {
    Waiter& first = ready_.front();
    first.unlink();
    return first;
  }

 private:
  friend class DirectCpu;
  friend class QueuePair;
  friend class sync::Attempts;
  struct Root;

  void take_completion_entries(std::uint32_t n) noexcept { cq_free_ -= n; }
  void return_completion_entries(std::uint32_t n) {
    cq_free_ += n;
    if (!cq_waiters_.empty()) [[unlikely]] {
      admit_waiting();
    }
  }
  void admit_waiting();

  static Root start_root(Reactor* reactor, Task<void> task);
  void rethrow_failure() {
    if (failure_) [[unlikely]] {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }
  void drive(const bool* until);

  WaitList ready_;
  WaitList cq_waiters_;  // queue pairs that wait for completion entries
  WaitList spawned_;
  std::uint64_t spawned_count_ = 0;
  std::uint32_t cq_depth_;
  std::uint32_t cq_free_;
  bool admitting_ = false;
  bool abandons_tasks_ = false;
  void destroy_all() noexcept;
  std::exception_ptr failure_;
  // The chain that is being posted. Its world has read it before another is posted, so one serves all queue pairs; each
  // of them makes room for its longest chain when it is made.
  std::vector<CheckedRequest> posting_;
};

namespace detail {

template <class T>
struct RunSlot {
  std::optional<T> value;
  std::exception_ptr error;
  bool done = false;
};

template <>
struct RunSlot<void> {
  std::exception_ptr error;
  bool done = false;
};

template <class T>
Task<void> run_into(Task<T> task, RunSlot<T>* slot) {
  try {
    if constexpr (std::is_void_v<T>) {
      co_await task;
    } else {
      slot->value.emplace(co_await task);
    }
  } catch (...) {
    slot->error = std::current_exception();
  }
  slot->done = true;
}

}  // namespace detail

template <class T>
T Reactor::run(Task<T> task) {
  if (!task.valid()) {
    detail::refuse_empty_task("run");
  }
  detail::RunSlot<T> slot;
  // Not spawned: its frame must not outlive `slot`, even when another task's exception leaves drive().
  Task<void> wrapper = detail::run_into(std::move(task), &slot);
  {
    auto start = wrapper.operator co_await();
    if (start.await_suspend(std::noop_coroutine())) {
      drive(&slot.done);
    }
  }
  if (slot.error) {
    std::rethrow_exception(slot.error);
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*slot.value);
  }
}

}  // namespace sidelatch::fabric
