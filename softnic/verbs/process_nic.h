// ProcessNic: the software NIC of this process, shared by all contexts, and the mapping of its numbers to verbs
// objects.
//
//   const std::shared_ptr<ProcessNic> nic = acquire();           // made if there is none yet; throws
//   const std::uint32_t key = nic->call([&](nic::Nic& device) { return device.register_memory(region); });
//   release(nic);                                                // the last one takes it off the wire
//
// Guarantees. After fork() the child has no NIC: the inherited one refuses every call with EIO and never touches the
// wire, and a device that the child opens is a new station. The process leaves the wire at exit, after all destructors.
// From then on the NIC stands still: calls succeed, but nothing arrives or completes. So threads that still run learn
// nothing of the end, as with a driver of the kernel.
//
// Thread-safety: any thread may call anything. Members marked "under the lock" are used by functions passed to call(),
// post() and poll(), and by reports of the NIC.
#pragma once

#include "event_counter.h"
#include "guard.h"

#include "softnic/adapter.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace sidelatch::softnic::verbs {

struct CompletionQueue;
struct Context;
struct QueuePair;
struct SharedReceiveQueue;

class ProcessNic {
 public:
  explicit ProcessNic(const Settings& settings);

  [[nodiscard]] const nic::NicOptions& options() const noexcept { return adapter_.options(); }
  [[nodiscard]] const Settings& settings() const noexcept { return adapter_.settings(); }

  /// Like Adapter's functions. They throw VerbsError (EIO) in a child.
  template <class Use>
  auto call(Use use) {
    require_usable();
    return adapter_.call([&](nic::Nic& nic) {
      const Hearing hearing(*this, nic);
      return use(nic);
    });
  }
  template <class Use>
  auto post(Use use) {
    return call(std::move(use));
  }
  template <class Take>
  std::size_t poll(Take take) {
    require_usable();
    return adapter_.poll(std::move(take));
  }
  void rest() {
    require_usable();
    adapter_.rest();
  }
  void settle() {
    require_usable();
    adapter_.settle();
  }
  /// The Ethernet address of a GID. Throws VerbsError (ETIMEDOUT) if nobody answers.
  [[nodiscard]] roce::MacAddress resolve(const roce::Gid& gid);
  /// The same without waiting: it is asked for if nobody knows it yet. Throws VerbsError (EIO) only.
  [[nodiscard]] std::optional<roce::MacAddress> try_resolve(const roce::Gid& gid) {
    require_usable();
    return adapter_.resolve(gid, std::chrono::milliseconds(0));
  }
  /// Which process has this address, if the wire knows: Adapter::occupant(). Throws VerbsError (EIO).
  [[nodiscard]] std::optional<std::uint64_t> occupant(const roce::Gid& gid) {
    require_usable();
    return adapter_.occupant(gid);
  }
  /// Empty: the wire works.
  [[nodiscard]] std::string failure() {
    require_usable();
    return adapter_.failure();
  }

  /// Makes every further call fail.
  void forbid() noexcept { is_usable_.store(false, std::memory_order_relaxed); }
  /// Like Adapter::abandon(), in a child.
  void abandon() noexcept { adapter_.abandon(); }
  /// Calls `farewell`, and leaves the wire.
  void leave() noexcept;

  // Under the lock.

  /// The contexts to notify when the wire fails.
  std::vector<Context*> contexts{};
  /// A handle of each queue pair, by its number.
  std::unordered_map<std::uint32_t, QueuePair*> queue_pairs{};
  /// Further handles of XRC targets (ibv_open_qp(3)).
  std::unordered_set<QueuePair*> opened_pairs{};
  /// The XRC domains: how many handles each has, and those that have a file, by its device and inode.
  std::unordered_map<std::uint32_t, std::uint32_t> xrc_users{};
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> xrc_files{};
  std::unordered_map<std::uint32_t, CompletionQueue*> completion_queues{};
  std::unordered_map<std::uint32_t, SharedReceiveQueue*> shared_receive_queues{};
  /// Called when the NIC may have reported something, for the connection manager's queue pair. It must not throw.
  std::function<void(nic::Nic&)> management{};
  /// Called before the NIC leaves the wire at the end of the process, without the lock. It must not throw.
  std::function<void()> farewell{};
  /// Completion queues for whose next completion the program wants a notification.
  std::vector<CompletionQueue*> armed{};

 private:
  // Handles reports that a call causes without sending anything: requests that are flushed at once.
  class Hearing {
   public:
    Hearing(ProcessNic& owner, nic::Nic& nic) : owner_(owner), nic_(nic) {}
    Hearing(const Hearing&) = delete;
    Hearing& operator=(const Hearing&) = delete;
    ~Hearing() { owner_.hear(nic_); }

   private:
    ProcessNic& owner_;
    nic::Nic& nic_;
  };

  void require_usable() const {
    if (!is_usable_.load(std::memory_order_relaxed)) [[unlikely]] {
      refuse_use();
    }
  }
  [[noreturn]] static void refuse_use();
  void hear(nic::Nic& nic);
  void notify_armed();
  void deliver(const nic::Event& event) const;
  void report_failure();

  bool failure_is_reported_ = false;
  std::atomic<bool> is_usable_{true};
  Adapter adapter_;
};

/// Before a thread waits for an event: ProcessNic::rest(). False with errno: it is another process's.
[[nodiscard]] inline bool rests(ProcessNic& nic) noexcept {
  const int error = error_of([&] { return nic.rest(), 0; });
  errno = error != 0 ? error : errno;
  return error == 0;
}

/// Waits for `counter`, and for what `take` then gives: an optional or a pointer, empty if the event's object was
/// destroyed meanwhile. Empty with errno: the wait was interrupted, or the NIC is another process's. The thread may be
/// cancelled while it waits, so this is not noexcept.
template <class Take>
[[nodiscard]] auto wait_for_event(ProcessNic& nic, EventCounter& counter, Take take) -> decltype(take()) {
  decltype(take()) found{};
  while (!found && rests(nic) && counter.take()) {
    if (const int error = error_of([&] { return found = take(), 0; }); error != 0) {
      errno = error;
      break;
    }
  }
  return found;
}

/// The process's NIC. Throws SettingsError, roce::WireError and others, which describe the error.
[[nodiscard]] std::shared_ptr<ProcessNic> acquire();
/// Gives the NIC back. The NIC leaves the wire when nobody has it any more.
void release(std::shared_ptr<ProcessNic>& nic) noexcept;

/// keep(true) keeps the NIC of acquire() until as many calls of keep(false), so that a GUID does not change while a
/// list of devices lives.
void keep(bool begins) noexcept;

}  // namespace sidelatch::softnic::verbs
