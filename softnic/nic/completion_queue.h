// CompletionQueue: completions in the order in which they were added, up to a fixed number.
//
//   queue.arm(CompletionQueue::Arm::any);            // notify me of the next one
//   ... queue.take_notification() ...                 // true, once
//   const std::size_t n = queue.poll(completions);
//
// A completion that finds no room is an overrun: the queue is then broken and rejects further completions. The
// completions that it held can still be polled. Polling a completion frees the entry of its request, where a send or
// receive queue waits for that (hold_until_polled()). Source: InfiniBand Architecture Specification, volume 1, 10.8
// (completion queues) and 11.4 (request completion notification).
//
// Thread-safety: none.
#pragma once

#include "work.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sidelatch::softnic::nic {

class ReceiveQueue;
class SendQueue;

/// The entry of the request that has completed, in a queue that may hold it until the completion is polled.
struct HeldEntry {
  SendQueue* sends = nullptr;
  ReceiveQueue* receives = nullptr;
  std::uint64_t number = 0;  ///< in the send queue
};

class CompletionQueue {
 public:
  enum class Arm : std::uint8_t { none, solicited, any };

  CompletionQueue(std::uint32_t number, std::uint32_t depth) : number_(number), ring_(depth) {}

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return static_cast<std::uint32_t>(ring_.size()); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool has_overrun() const noexcept { return has_overrun_; }

  /// Takes the oldest completions; returns how many.
  [[nodiscard]] std::size_t poll(std::span<Completion> into) noexcept;

  /// Requests one notification, for the next added completion; with `solicited`, for the next that is solicited or not
  /// a success. Arming again can only widen the request.
  void arm(Arm arm) noexcept;
  /// Whether there has been a notification since the last call.
  [[nodiscard]] bool take_notification() noexcept;

  /// False: there was no room, or the queue is broken. The caller must report the first failure.
  [[nodiscard]] bool add(const Completion& completion, bool is_solicited, const HeldEntry& held = {}) noexcept;
  /// Removes the completions of a queue pair that ended or was reset (11.2, destroy QP), and frees their entries.
  void forget(std::uint32_t queue_pair) noexcept;
  /// A receive queue ends before completions of its requests are polled.
  void forget(const ReceiveQueue& queue) noexcept;

  /// `depth` must be at least size().
  void resize(std::uint32_t depth);

  /// The number of queue pairs that use it; kept by the NIC.
  std::uint32_t users = 0;

 private:
  struct Entry {
    Completion completion;
    HeldEntry held;
  };

  static void free(const HeldEntry& held) noexcept;

  std::uint32_t number_;
  std::vector<Entry> ring_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  Arm arm_ = Arm::none;
  bool has_notification_ = false;
  bool has_overrun_ = false;
};

}  // namespace sidelatch::softnic::nic
