// Intrusive lists of suspended coroutines. Everything in the library waits in them.
//
// A Waiter is part of an awaiter, so it lies in the waiting coroutine's frame. It leaves its list when it is destroyed,
// so destroying a suspended task is safe. A Waiter is in at most one list.
//
// Thread-safety: a list and its waiters belong to one thread.
#pragma once

#include <coroutine>

namespace sidelatch::fabric {

class WaitList;

class Waiter {
 public:
  Waiter() noexcept = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter() { unlink(); }

  [[nodiscard]] bool linked() const noexcept { return next_ != nullptr; }
  void unlink() noexcept {
    if (next_ != nullptr) {
      previous_->next_ = next_;
      next_->previous_ = previous_;
      next_ = previous_ = nullptr;
    }
  }

  /// The coroutine to resume; null for a waiter that other code handles.
  std::coroutine_handle<> handle;

 private:
  friend class WaitList;
  Waiter* next_ = nullptr;
  Waiter* previous_ = nullptr;
};

/// First in, first out.
class WaitList {
 public:
  WaitList() noexcept { head_.next_ = head_.previous_ = &head_; }
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;
  ~WaitList() {
    while (!empty()) {
      front().unlink();
    }
    head_.next_ = head_.previous_ = nullptr;
  }

  [[nodiscard]] bool empty() const noexcept { return head_.next_ == &head_; }
  [[nodiscard]] Waiter& front() const noexcept { return *head_.next_; }
  [[nodiscard]] Waiter& back() const noexcept { return *head_.previous_; }
  void push_back(Waiter& waiter) noexcept { insert_before(waiter, head_); }
  void push_front(Waiter& waiter) noexcept { insert_before(waiter, *head_.next_); }
  /// The waiter before `waiter`, or null if it is the first.
  [[nodiscard]] Waiter* before(const Waiter& waiter) const noexcept {
    return waiter.previous_ == &head_ ? nullptr : waiter.previous_;
  }
  /// The waiter after `waiter`, or null if it is the last.
  [[nodiscard]] Waiter* after(const Waiter& waiter) const noexcept {
    return waiter.next_ == &head_ ? nullptr : waiter.next_;
  }
  void insert_after(Waiter& waiter, Waiter& position) noexcept { insert_before(waiter, *position.next_); }

 private:
  static void insert_before(Waiter& waiter, Waiter& position) noexcept {
    waiter.unlink();
    waiter.previous_ = position.previous_;
    waiter.next_ = &position;
    position.previous_->next_ = &waiter;
    position.previous_ = &waiter;
  }

  Waiter head_;
};

}  // namespace sidelatch::fabric
