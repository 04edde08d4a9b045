// Adapter: a software NIC that runs. It owns the NIC, the wire that it is at, the memory access and one thread, and
// lets any thread of the process use the NIC.
//
//   Adapter adapter(settings);
//   adapter.listen([&](nic::Nic& nic) { ... hand on notifications of completion queues, and events ... });
//   const std::uint32_t key = adapter.call([&](nic::Nic& nic) { return nic.register_memory(region); });
//   adapter.post([&](nic::Nic&) { return pair.post_send(request); });     // leaves at once
//   adapter.poll([&](nic::Nic&) { return completions.poll(into); });      // if 0, drives the NIC and tries again
//
// Who drives. A program that polls a completion queue in a loop drives the NIC by itself, in its own thread, from
// within poll(): on a small machine every change of threads costs more than an operation. The adapter's thread drives
// when nobody has polled for a while (kTurn), waiting for frames in the wire. With an order (Settings::order) it alone
// drives, so that memory is touched by another thread than the program's, and races are real.
//
// Thread-safety: any thread may call anything, but the functions that are handed in run under the adapter's lock and
// must not call the adapter. Destruction: nobody uses it any more.
#pragma once

#include "settings.h"

#include "roce/wire/wire.h"
#include "softnic/nic/memory_access.h"
#include "softnic/nic/nic.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sidelatch::softnic {

class Adapter {
 public:
  /// For so long after poll() the caller is expected to poll again, and the adapter's thread lets it drive.
  static constexpr std::chrono::microseconds kTurn{200};
  /// On a machine where waking a thread takes long, an emulated one say, up to this: each look whether the caller is
  /// still there takes a CPU from it.
  static constexpr std::chrono::microseconds kLongestTurn{5'000};
  /// For a program that has lately not come back, though there was something for it: one that polls for the completion
  /// of its WRITE, then watches memory for its peer's.
  static constexpr std::chrono::microseconds kShortTurn{20};
  /// Who polls for so long in vain lets other threads run between two polls: the peer, which it has woken, may be
  /// waiting for this very CPU, and the scheduler would leave it there until its next tick, for milliseconds.
  static constexpr std::chrono::microseconds kPoliteAfter{5};

  /// Throws as open_wire().
  explicit Adapter(const Settings& settings);
  /// For tests: at this wire.
  Adapter(const Settings& settings, std::unique_ptr<roce::Wire> wire);
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;
  /// Frames that wait are sent, as far as the wire takes them.
  ~Adapter();

  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  /// Of the NIC: MAC, GIDs, MTU and limits. They do not change.
  [[nodiscard]] const nic::NicOptions& options() const noexcept { return nic_->options(); }

  /// `heard` is called under the lock, by any thread, each time that the NIC may have reported something: there
  /// it asks completion queues for notifications and the NIC for events. It must not throw. Set before anything else is
  /// called.
  void listen(std::function<void(nic::Nic&)> heard);

  /// Runs `use(nic)` under the lock, and returns what it returns. What the call has given the NIC to send is sent.
  template <class Use>
  auto call(Use use) {
    const Turn turn(*this);
    return use(*nic_);
  }
  /// As call(); named apart, for what it is for: posting work.
  template <class Use>
  auto post(Use use) {
    return call(std::move(use));
  }
  /// Runs `take(nic)`, which returns how many completions it took. If there were none, the NIC is driven, if it is the
  /// caller's turn, and `take` tried once more.
  template <class Take>
  std::size_t poll(Take take) {
    let_thread_in();
    const std::size_t taken = poll_once(take);
    if (taken == 0 && callers_find_nothing_.load(std::memory_order_relaxed)) {
      callers_that_yield_.fetch_add(1, std::memory_order_relaxed);
      std::this_thread::yield();
      callers_that_yield_.fetch_sub(1, std::memory_order_relaxed);
    }
    return taken;
  }
  /// The caller is going to sleep until it is notified: the adapter's thread takes over at once.
  void rest();

  /// Where frames for this address go: asks for it, and waits for an answer for `at_most`. Nothing: nobody answered.
  [[nodiscard]] std::optional<roce::MacAddress> resolve(const roce::Gid& gid, std::chrono::milliseconds at_most);

  /// In a child, after fork(2): as Wire::abandon(). The adapter is not used, nor destroyed, there.
  void abandon() noexcept {
    if (wire_ != nullptr) {
      wire_->abandon();
    }
  }

  [[nodiscard]] nic::NicCounters nic_counters();
  [[nodiscard]] roce::WireCounters wire_counters();

  /// Leaves the wire, for good: what waits is sent, as far as the wire takes it, and the NIC stands still from then on,
  /// as if the wire had failed. For the end of the process, when other threads may still call the adapter.
  void leave() noexcept;

  /// A wire that fails while the NIC runs (WireError) stops it: nothing is sent or received any more, requests run into
  /// their time limits, and this says why. Empty: it runs.
  [[nodiscard]] std::string failure();
  /// Whether it has stopped so. May be asked from what was handed to listen(), which is told of it.
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_.load(std::memory_order_relaxed); }

 private:
  // The lock for one call; what the call has made the NIC want to send is sent at its end.
  class Turn {
   public:
    explicit Turn(Adapter& adapter) : adapter_(adapter), lock_(adapter.mutex_) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { adapter_.send_for_caller(); }

   private:
    Adapter& adapter_;
    std::unique_lock<std::mutex> lock_;
  };

  using Clock = std::chrono::steady_clock;

  // The adapter's thread.
  void run();
  void wait_for_turn(std::unique_lock<std::mutex>& lock);
  void wait_in_wire(std::unique_lock<std::mutex>& lock);
  void lock_for_thread(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::chrono::nanoseconds time_to_wait() const;
  // Who polls in a loop would not let it in.
  void let_thread_in() const noexcept {
    for (int i = 0; i < 64 && thread_wants_lock_.load(std::memory_order_relaxed); ++i) {
      std::this_thread::yield();
    }
  }

  // Callers, with the lock.
  template <class Take>
  std::size_t poll_once(Take& take) {
    const std::unique_lock lock(mutex_);
    const std::size_t taken = take(*nic_);
    return taken != 0 || !drive_for_caller() ? taken : take(*nic_);
  }
  bool drive_for_caller();
  void send_for_caller();
  void leave_wire(std::unique_lock<std::mutex>& lock);

  // Whoever drives, with the lock and outside the wire.
  bool drive();
  bool receive(nic::Time now);
  bool transmit(nic::Time now);
  [[nodiscard]] bool send_held();
  template <class Work>
  bool unless_it_fails(Work work) noexcept;

  const Settings settings_;
  const bool callers_may_drive_;
  std::unique_ptr<roce::Wire> wire_;
  std::unique_ptr<nic::MemoryAccess> memory_;
  std::unique_ptr<nic::Nic> nic_;
  std::function<void(nic::Nic&)> heard_;

  std::mutex mutex_;
  std::condition_variable thread_may_drive_;
  std::condition_variable thread_has_left_wire_;
  std::atomic<bool> thread_wants_lock_{false};
  std::atomic<int> callers_that_yield_{0};
  std::atomic<bool> callers_find_nothing_{false};  // since kPoliteAfter
  bool thread_is_in_wire_ = false;                 // waiting; nobody else touches the wire then
  bool stops_ = false;
  Clock::time_point callers_turn_until_{};
  Clock::time_point moved_at_{};  // when the NIC last had anything to do
  Clock::duration turn_ = kTurn;
  Clock::duration wakes_late_by_ = kLongestTurn;  // the least of the last wakes_
  int wakes_ = 0;
  int short_turns_ = 0;          // so many of the looks at whose turn it is come after kShortTurn
  std::vector<std::byte> held_;  // a frame that the wire had no room for; of length held_bytes_
  std::size_t held_bytes_ = 0;
  Clock::time_point held_since_{};
  std::string failure_;
  std::atomic<bool> has_failed_{false};
  std::thread thread_;
};

}  // namespace sidelatch::softnic
