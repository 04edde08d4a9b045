// Task<T>: a lazy coroutine. Every algorithm of this library is one.
//
//   Task<std::uint64_t> next_ticket(QueuePair& qp, RemoteSpan word) {
//     const std::uint64_t old = co_await qp.fetch_add(word, 1);
//     co_return old;
//   }
//   std::uint64_t ticket = reactor.run(next_ticket(qp, word));
//
// A task starts when it is awaited (or given to a Reactor) and resumes its awaiter when it ends; an exception goes to
// the awaiter. Destroying a task that is suspended is safe: it leaves every list it waits in, and its work requests go
// on in the NIC, which touches only registered memory. Frames come from the FramePool.
//
// Parameters are copied into the frame; a reference parameter must outlive the task. Do not write capturing lambda
// coroutines, and bind an awaited value to a variable before testing it (GCC 12 miscompiles co_await in conditions).
//
// Thread-safety: a task belongs to the thread of its reactor.
#pragma once

#include <sidelatch/fabric/frame_pool.h>

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace sidelatch::fabric {

template <class T = void>
class Task;

namespace detail {

/// Throws std::invalid_argument: `function` was given a task without a frame.
[[noreturn]] void refuse_empty_task(const char* function);

/// Destroys the frame of a task that has not ended; see destroys_a_task().
void destroy_unended(std::coroutine_handle<> frame) noexcept;

class TaskPromiseBase : public PooledFrame {
 public:
  struct FinalAwaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      TaskPromiseBase& promise = self.promise();
      // An awaiter that never left its stack frame continues by itself (see Task::Awaiter).
      return promise.awaiter_suspended_ ? promise.awaiter_ : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

 private:
  template <class>
  friend class sidelatch::fabric::Task;

  void rethrow_error() const {
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

  std::coroutine_handle<> awaiter_;
  bool awaiter_suspended_ = false;
  std::exception_ptr error_;
};

template <class T>
class TaskPromise : public TaskPromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;

  Task() noexcept = default;
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      frame_ = std::exchange(other.frame_, nullptr);
    }
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { destroy(); }

  [[nodiscard]] bool valid() const noexcept { return frame_ != nullptr; }
  [[nodiscard]] bool done() const noexcept { return frame_ == nullptr || frame_.done(); }

  class Awaiter {
   public:
    explicit Awaiter(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    // The child runs inside this call. If the child ends without suspending, its awaiter simply continues. A loop over
    // tasks that never wait therefore uses no stack, even without tail calls (sanitizer and debug builds have none).
    bool await_suspend(std::coroutine_handle<> awaiter) {
      frame_.promise().awaiter_ = awaiter;
      frame_.resume();
      if (frame_.done()) {
        return false;
      }
      frame_.promise().awaiter_suspended_ = true;
      return true;
    }
    T await_resume() {
      frame_.promise().rethrow_error();
      return frame_.promise().take();
    }

   private:
    std::coroutine_handle<promise_type> frame_;
  };

  /// Starts the task and waits for its value. A task is awaited once. Throws std::invalid_argument if it is empty.
  Awaiter operator co_await() const& { return start(); }
  Awaiter operator co_await() const&& { return start(); }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

  Awaiter start() const {
    if (frame_ == nullptr) [[unlikely]] {
      detail::refuse_empty_task("co_await");
    }
    return Awaiter{frame_};
  }
  void destroy() noexcept {
    if (frame_ == nullptr) {
      return;
    }
    if (frame_.done()) [[likely]] {
      frame_.destroy();
    } else {
      detail::destroy_unended(frame_);
    }
    frame_ = nullptr;
  }

  std::coroutine_handle<promise_type> frame_;
};

/// Whether the calling code runs because a task is destroyed before its end: a destructor of an object of its frame.
[[nodiscard]] bool destroys_a_task() noexcept;

template <class T>
Task<T> detail::TaskPromise<T>::get_return_object() noexcept {
  return Task<T>{std::coroutine_handle<TaskPromise>::from_promise(*this)};
}

inline Task<void> detail::TaskPromise<void>::get_return_object() noexcept {
  return Task<void>{std::coroutine_handle<TaskPromise>::from_promise(*this)};
}

}  // namespace sidelatch::fabric
