// ReceiveQueue: receive requests in posting order, of one queue pair or shared by several.
//
// A queue pair takes the oldest request when a message begins, and keeps a copy until the message has ended. Its entry
// is free for another request then, or, after hold_until_polled(), when the program has polled the completion. Source:
// InfiniBand Architecture Specification, volume 1, 10.2 (shared receive queues) and 11.4 (post receive).
//
// Thread-safety: none.
#pragma once

#include "work.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sidelatch::softnic::nic {

/// A receive request that is being filled. `sges` lives as long as its owner.
struct ReceiveBuffer {
  std::uint64_t id = 0;
  std::vector<Sge> sges;  ///< has room for the maximum; only the first `sge_count` are valid
  std::uint32_t sge_count = 0;
  std::uint64_t length = 0;  ///< bytes of all sges

  [[nodiscard]] std::span<const Sge> parts() const noexcept { return std::span(sges).first(sge_count); }
};

class CompletionQueue;

class ReceiveQueue {
 public:
  /// `number`: of a shared queue, for its event.
  ReceiveQueue(std::uint32_t depth, std::uint32_t most_sges, std::uint32_t number = 0);

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return static_cast<std::uint32_t>(entries_.size()); }
  [[nodiscard]] std::uint32_t most_sges() const noexcept { return most_sges_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  [[nodiscard]] Post post(const ReceiveRequest& request) noexcept;
  /// Takes out the oldest request and copies it into `into`, which has room for most_sges(). False if there is none.
  [[nodiscard]] bool take(ReceiveBuffer& into) noexcept;
  /// Bytes of room in the oldest request, which must exist.
  [[nodiscard]] std::uint64_t first_length() const noexcept { return entries_[first_].length; }
  void clear() noexcept { first_ = size_ = held_ = 0; }
  void hold_until_polled() noexcept { holds_ = true; }
  /// Frees the entry of one request that was taken: its completion was polled, or it gets none.
  void retire() noexcept { held_ -= held_ == 0 ? 0U : 1U; }
  /// `depth` must be at least size().
  void resize(std::uint32_t depth);

  /// Shared queues: report once when fewer than `limit` requests are left; 0: never (11.2, modify SRQ).
  void set_limit(std::uint32_t limit) noexcept { limit_ = limit; }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  /// Whether the limit event must be reported now; true only once.
  [[nodiscard]] bool has_reached_limit() noexcept;

  /// Shared queues, kept by the NIC: the protection domain, and the number of queue pairs that use the queue.
  std::uint32_t domain = 0;
  std::uint32_t users = 0;
  /// XRC: its domain, and where its messages are reported.
  std::uint32_t xrc_domain = 0;
  CompletionQueue* completions = nullptr;

 private:
  struct Entry {
    std::uint64_t id = 0;
    std::uint32_t sge_count = 0;
    std::uint64_t length = 0;
  };

  std::uint32_t number_;
  std::uint32_t most_sges_;
  std::vector<Entry> entries_;
  std::vector<Sge> sges_;  // most_sges_ for each entry
  std::uint32_t first_ = 0;
  std::uint32_t size_ = 0;
  bool holds_ = false;
  std::uint32_t held_ = 0;  // taken, and not free yet
  std::uint32_t limit_ = 0;
};

}  // namespace sidelatch::softnic::nic
