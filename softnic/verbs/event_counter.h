// EventCounter: a descriptor that is readable while events wait, one read per event (eventfd(2), EFD_SEMAPHORE).
//
// The program owns the descriptor: it may poll or select it, and make it non-blocking with fcntl(2).
//
// Thread-safety: any thread may call anything.
#pragma once

namespace sidelatch::softnic::verbs {

class EventCounter {
 public:
  /// Throws VerbsError.
  EventCounter();
  EventCounter(const EventCounter&) = delete;
  EventCounter& operator=(const EventCounter&) = delete;
  ~EventCounter();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  void add() const noexcept;
  /// Waits for an event, unless the descriptor is non-blocking. False with errno: EAGAIN, EINTR. A cancellation point:
  /// no caller may be noexcept, and none may hold a lock.
  [[nodiscard]] bool take() const;
  /// Takes one event back, if there is one. Never waits.
  void take_back() const noexcept;

 private:
  int descriptor_;
};

}  // namespace sidelatch::softnic::verbs
