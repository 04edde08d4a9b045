// SendQueue: the work requests of a queue pair's send queue, with the requester's notes on each.
//
// Requests have ascending numbers that never wrap; those from first() to end() are to be carried out. A request is done
// when it has completed. Its entry is free for another one then, or, after hold_until_polled(), when the program has
// polled its completion or that of a later request. The providers of real NICs do the latter, so programs that count
// on a full queue never overrun their completion queue.
//
// Thread-safety: none.
#pragma once

#include "memory_access.h"
#include "memory_table.h"
#include "roce/psn.h"
#include "work.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::softnic::nic {

/// The requester's state of one request.
struct SendEntry {
  SendRequest request{};     ///< its `sges` are stored in the queue
  std::uint64_t length = 0;  ///< bytes of the local buffer
  Psn first{};               ///< its packets, or those of its answer, have this and the following numbers
  std::uint32_t packets = 0;
  std::uint32_t answered = 0;  ///< packets of the answer received so far
  bool has_begun = false;      ///< its packet numbers are assigned
  /// The status with which it completes when all earlier requests have completed.
  std::optional<CompletionStatus> failure{};
};

class SendQueue {
 public:
  SendQueue(std::uint32_t depth, std::uint32_t most_sges, std::uint32_t most_inline);

  [[nodiscard]] std::uint32_t depth() const noexcept { return static_cast<std::uint32_t>(entries_.size()); }
  [[nodiscard]] std::uint32_t most_sges() const noexcept { return most_sges_; }
  [[nodiscard]] std::uint32_t most_inline() const noexcept { return most_inline_; }
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  [[nodiscard]] bool is_empty() const noexcept { return first_ == end_; }
  [[nodiscard]] std::uint32_t room() const noexcept { return depth() - static_cast<std::uint32_t>(end_ - retired_); }
  [[nodiscard]] SendEntry& at(std::uint64_t number) noexcept { return entries_[number % entries_.size()]; }

  /// Copies the request and, if it is inlined, its bytes from the poster's memory.
  [[nodiscard]] Post post(const SendRequest& request) noexcept;
  void pop() noexcept {
    ++first_;
    retired_ = holds_ ? retired_ : first_;
  }
  void clear() noexcept { first_ = retired_ = end_; }
  void hold_until_polled() noexcept { holds_ = true; }
  /// Frees the entries up to that of this request, whose completion was polled.
  void retire(std::uint64_t number) noexcept { retired_ = std::max(retired_, number + 1); }

  /// Whether all parts of the local buffer have these rights.
  [[nodiscard]] bool may_touch(std::uint64_t number, const MemoryTable& table, Domain domain, Rights needed) noexcept;
  /// Copies bytes [offset, offset + into.size()) of the local buffer. False if the buffer may no longer be read, or a
  /// page of it is gone, whose address is then in `gone`.
  [[nodiscard]] bool gather(std::uint64_t number, std::uint64_t offset, std::span<std::byte> into,
                            const MemoryTable& table, Domain domain, MemoryAccess& memory,
                            const std::byte*& gone) noexcept;
  /// Copies `bytes` to the local buffer at `offset`. Returns false and writes nothing if the buffer may no longer be
  /// written; false also if a page of it is gone, whose address is then in `gone`.
  [[nodiscard]] bool scatter(std::uint64_t number, std::uint64_t offset, std::span<const std::byte> bytes,
                             const MemoryTable& table, Domain domain, MemoryAccess& memory,
                             const std::byte*& gone) noexcept;

 private:
  [[nodiscard]] std::span<std::byte> inline_of(std::uint64_t number) noexcept;

  std::uint32_t most_sges_;
  std::uint32_t most_inline_;
  std::uint32_t inline_room_;  // at least the word of an ATOMIC WRITE
  std::vector<SendEntry> entries_;
  std::vector<Sge> sges_;           // most_sges_ for each entry
  std::vector<std::byte> inlined_;  // inline_room_ for each entry
  bool holds_ = false;
  std::uint64_t retired_ = 0;  // entries before this one are free; not after first_
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace sidelatch::softnic::nic
