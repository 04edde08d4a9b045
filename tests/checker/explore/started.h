// A coroutine that a task starts by itself, beside what it does: neither the world nor the reactor knows of it.
#pragma once

#include <coroutine>

namespace sidelatch::explore {

class Started {
 public:
  struct promise_type {
    Started get_return_object() { return Started(std::coroutine_handle<promise_type>::from_promise(*this)); }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  /// Destroys it, also if it waits.
  ~Started() { handle_.destroy(); }
  [[nodiscard]] bool done() const noexcept { return handle_.done(); }

 private:
  explicit Started(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace sidelatch::explore
