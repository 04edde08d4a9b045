// Adapter: a running software NIC. It owns the NIC, its wire, the memory access and one thread, and lets any thread of
// the process use the NIC.
//
//   Adapter adapter(settings);
//   adapter.listen([&](nic::Nic& nic) { ... hand on notifications of completion queues, and events ... });
//   const std::uint32_t key = adapter.call([&](nic::Nic& nic) { return nic.register_memory(region); });
//   adapter.post([&](nic::Nic&) { return pair.post_send(request); });     // leaves at once
//   adapter.poll([&](nic::Nic&) { return completions.poll(into); });      // if 0, drives the NIC and tries again
//
// Two kinds of threads drive the NIC. A program that polls a completion queue in a loop drives it in its own thread,
// from within poll(), because on a small machine every thread switch costs more than an operation. The adapter's thread
// drives when nobody has polled for a while (kTurn), and then waits for frames in the wire. A program that polls and
// then watches memory leaves too early for such turns: the thread sleeps beside it, woken by each frame, while the
// program still drives in its own calls (only on wires that can be shared). With an order (Settings::order) only the
// adapter's thread drives, so a thread other than the program's touches memory, and races are real.
//
// Thread-safety: any thread may call anything, but functions passed in run under the adapter's lock and must not call
// the adapter. Nobody may use the adapter during its destruction.
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
  /// For this long after poll() the caller is expected to poll again, and the adapter's thread lets it drive.
  static constexpr std::chrono::microseconds kTurn{200};
  /// The longest turn, for machines that need long to wake a thread, such as emulated ones: each check for the caller
  /// takes a CPU from it.
  static constexpr std::chrono::microseconds kLongestTurn{5'000};
  /// The turn of a program that recently did not come back although there was something for it, on a wire that cannot
  /// be shared: it may poll for the completion of its WRITE, then watch memory for its peer's WRITE.
  static constexpr std::chrono::microseconds kShortTurn{20};
  /// A caller that polls this long without a completion yields the CPU between polls: the peer that it has woken may be
  /// waiting for the same CPU, and the scheduler would let it wait until the next tick, for milliseconds.
  static constexpr std::chrono::microseconds kPoliteAfter{5};

  /// Throws as open_wire().
  explicit Adapter(const Settings& settings);
  /// For tests: uses this wire.
  Adapter(const Settings& settings, std::unique_ptr<roce::Wire> wire);
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;
  /// Sends waiting frames as far as the wire takes them.
  ~Adapter();

  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  /// The NIC's MAC, GIDs, MTU and limits. They do not change.
  [[nodiscard]] const nic::NicOptions& options() const noexcept { return nic_->options(); }

  /// Any thread calls `heard` under the lock each time that the NIC may have reported something. `heard` asks
  /// completion queues for notifications and the NIC for events. It must not throw. Set it before any other call.
  void listen(std::function<void(nic::Nic&)> heard);

  /// Runs `use(nic)` under the lock, and returns its result. Sends the frames that the call has caused.
  template <class Use>
  auto call(Use use) {
    const Turn turn(*this);
    return use(*nic_);
  }
  /// Same as call(); a separate name for posting work.
  template <class Use>
  auto post(Use use) {
    return call(std::move(use));
  }
  /// Runs `take(nic)`, which returns how many completions it took. If there were none and it is the caller's turn,
  /// drives the NIC and tries `take` once more.
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
  /// Call before sleeping until a notification: the adapter's thread takes over at once.
  void rest();
  /// Carries out what has been posted, as far as that needs no answer. Call before a command that depends on it: on
  /// hardware, the NIC is done with that before the driver has passed it the command. With an order nothing is done.
  void settle();

  /// The MAC for frames to this address: asks for it, and waits up to `at_most` for an answer. Nothing: nobody
  /// answered.
  [[nodiscard]] std::optional<roce::MacAddress> resolve(const roce::Gid& gid, std::chrono::milliseconds at_most);

  /// Which process has this address: Wire::occupant(). Nothing also for our own, and if the wire has failed.
  [[nodiscard]] std::optional<std::uint64_t> occupant(const roce::Gid& gid);

  /// For a child after fork(2), like Wire::abandon(). The child must neither use nor destroy the adapter.
  void abandon() noexcept {
    if (wire_ != nullptr) {
      wire_->abandon();
    }
  }

  [[nodiscard]] nic::NicCounters nic_counters();
  [[nodiscard]] roce::WireCounters wire_counters();

  /// Leaves the wire for good: sends waiting frames as far as the wire takes them, and then the NIC stands still. Calls
  /// go on, but nothing is sent, received or timed any more, and nothing is reported that they do not cause themselves.
  /// For the end of the process, when other threads may still call the adapter.
  void leave() noexcept;

  /// Why the NIC stopped; empty if it runs. A wire that fails while the NIC runs (WireError) stops the NIC: nothing is
  /// sent or received any more, and all requests complete with errors (Nic::fail()).
  [[nodiscard]] std::string failure();
  /// Whether the NIC has stopped for that reason. The function passed to listen(), which is called then, may call this.
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_.load(std::memory_order_relaxed); }

 private:
  // The lock for one call. Its end sends the frames that the call has caused.
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

  // A frame that the wire had no room for. Its queue pair is stalled meanwhile.
  struct Held {
    std::vector<std::byte> frame;
    std::uint32_t queue_pair = 0;
    Clock::time_point since;
  };
  // A station for which the wire has no room.
  struct FullStation {
    roce::MacAddress station{};
    Clock::time_point since;
    Clock::time_point tried;   // when the wire was last asked
    std::uint64_t looked = 0;  // the look in which that was
  };

  // Functions of the adapter's thread.
  void run();
  void wait_for_turn(std::unique_lock<std::mutex>& lock);
  void wait_in_wire(std::unique_lock<std::mutex>& lock);
  void sleep_beside_callers(std::unique_lock<std::mutex>& lock);
  void lock_for_thread(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::chrono::nanoseconds time_to_wait() const;
  // Yields so that a caller that polls in a loop lets the thread have the lock.
  void let_thread_in() const noexcept {
    for (int i = 0; i < 64 && thread_wants_lock_.load(std::memory_order_relaxed); ++i) {
      std::this_thread::yield();
    }
  }

  // Functions of callers, with the lock.
  template <class Take>
  std::size_t poll_once(Take& take) {
    const std::unique_lock lock(mutex_);
    const std::size_t taken = take(*nic_);
    return taken != 0 || !drive_for_caller() ? taken : take(*nic_);
  }
  bool drive_for_caller();
  void send_for_caller();
  [[nodiscard]] bool shares_wire() const noexcept;
  void wake_thread_for_what_is_left();
  void leave_wire(std::unique_lock<std::mutex>& lock);
  void interrupt_thread_while(const bool& condition, std::unique_lock<std::mutex>& lock);

  // Functions of the driving thread, with the lock and outside the wire.
  bool drive();
  bool receive(nic::Time now);
  bool transmit(nic::Time now);
  bool send_held();
  [[nodiscard]] bool send(std::span<const std::byte> frame);
  void hold(std::span<const std::byte> frame);
  void tell();
  void fail(const char* why);
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
  std::atomic<bool> callers_find_nothing_{false};  // for longer than kPoliteAfter
  bool thread_is_in_wire_ = false;                 // waiting in the wire; nobody else touches the wire then
  bool thread_sleeps_ = false;                     // beside the callers, who may use the wire
  bool callers_rest_ = false;                      // since rest()
  Clock::time_point thread_wakes_at_{};            // while it sleeps; in the past if it has been woken
  bool stops_ = false;
  Clock::time_point callers_turn_until_{};
  Clock::time_point moved_at_{};  // when the NIC last had anything to do
  Clock::duration turn_ = kTurn;
  Clock::duration wakes_late_by_ = kLongestTurn;  // the least delay of the last wakes_
  int wakes_ = 0;
  int short_turns_ = 0;           // this many of the next turns last kShortTurn, or are shared
  std::vector<std::byte> frame_;  // the one that is being sent
  std::vector<Held> held_;        // one at most for each queue pair, the oldest first
  std::vector<FullStation> full_;
  std::uint64_t looks_ = 0;  // at what is held
  std::string failure_;
  std::atomic<bool> has_failed_{false};
  std::thread thread_;
};

}  // namespace sidelatch::softnic
