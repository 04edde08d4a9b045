// ProcessNic: the software NIC of this process, shared by all contexts, and which verbs object has which number there.
//
//   const std::shared_ptr<ProcessNic> nic = acquire();           // made if there is none yet; throws
//   const std::uint32_t key = nic->call([&](nic::Nic& device) { return device.register_memory(region); });
//   release(nic);                                                // the last one takes it off the wire
//
// Guarantees. After fork() the child has no NIC: what it inherited refuses every call with EIO and never touches the
// wire, and a device that it opens is a new station. At the exit of the process the wire is left; who still calls gets
// EIO.
//
// Thread-safety: any thread may call anything. What stands under "under the lock" is used from functions that are
// handed to call(), post() and poll(), and by what the NIC reports.
#pragma once

#include "guard.h"

#include "softnic/adapter.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
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

  /// As Adapter's. Throws VerbsError (EIO) in a child, and at the end of the process.
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
  /// The Ethernet address of a GID. Throws VerbsError (ETIMEDOUT) if nobody answers, (EOPNOTSUPP) for groups.
  [[nodiscard]] roce::MacAddress resolve(const roce::Gid& gid);
  /// Empty: the wire works.
  [[nodiscard]] std::string failure() {
    require_usable();
    return adapter_.failure();
  }

  /// From now on every call is refused.
  void forbid() noexcept { is_usable_.store(false, std::memory_order_relaxed); }
  /// As Adapter's, in a child.
  void abandon() noexcept { adapter_.abandon(); }
  /// Forbids, and leaves the wire.
  void leave() noexcept;

  // Under the lock.

  /// Who is told that the wire has failed.
  std::vector<Context*> contexts{};
  std::unordered_map<std::uint32_t, QueuePair*> queue_pairs{};
  std::unordered_map<std::uint32_t, CompletionQueue*> completion_queues{};
  std::unordered_map<std::uint32_t, SharedReceiveQueue*> shared_receive_queues{};
  /// Completion queues whose next completion the program wants to be told of.
  std::vector<CompletionQueue*> armed{};

 private:
  // What a call reports by itself, without anything being sent: requests that are flushed at once.
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

/// The process's NIC. Throws SettingsError, roce::WireError and others, which say what is wrong.
[[nodiscard]] std::shared_ptr<ProcessNic> acquire();
/// Gives it back. When nobody has it any more it leaves the wire.
void release(std::shared_ptr<ProcessNic>& nic) noexcept;

/// Holds on to what acquire() makes until as many keep(false) have come, so that a GUID stays what it is while a list
/// of devices lives.
void keep(bool begins) noexcept;

}  // namespace sidelatch::softnic::verbs
