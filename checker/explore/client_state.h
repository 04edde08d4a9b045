// ClientState: all that a client knows between two of its steps, as bytes that can be compared: the frames and heap
// blocks that its task can reach, its node's registered memory, and some numbers of its queue pairs.
//
// Numbers of requests that have completed count as equal: all that a task can do with one is to ask whether the request
// is done. Bytes that a program's library declares to be tallies (Reactor::keep_out_of_state) are left out.
#pragma once

#include "zone.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::explore {

/// Requests of queue pairs that are explored have numbers above this one: so a number can be told from other words. The
/// queue pair's number is in bits 32 to 47. A program's own word would be taken for a number if it were one of a
/// request of this execution, which small numbers below a tag of 16 bits might be: so the numbers begin far above such
/// a tag.
inline constexpr std::uint64_t kRequestNumbers = 0x5e9d'0000'a7c3'0000;

[[nodiscard]] constexpr std::uint64_t first_request_number(std::uint16_t qp) {
  return kRequestNumbers + (std::uint64_t{qp} << 32);
}
/// Whether a word may be the number of a request; then its queue pair is queue_pair_of(word).
[[nodiscard]] constexpr bool may_be_request_number(std::uint64_t word) { return word >> 48 == kRequestNumbers >> 48; }
[[nodiscard]] constexpr std::uint16_t queue_pair_of(std::uint64_t word) { return word >> 32 & 0xffff; }

/// The lowest address of this thread's stack; 0 if the system does not say it.
[[nodiscard]] std::uintptr_t lowest_of_this_stack() noexcept;

class ClientState {
 public:
  /// Begins a new state; keeps capacity.
  void clear() noexcept;
  /// Addresses in this thread's stack below `top` count as equal: no frame there outlives a task's wait, but compilers
  /// leave such addresses in coroutine frames.
  void leave_out_stack(const void* top) noexcept;
  /// Bytes whose place is part of the state. `completed` gives the number of completed requests of a queue pair.
  template <class Completed>
  void add(std::span<const std::byte> bytes, bool is_registered, const Completed& completed);
  void add_number(std::uint64_t number) { numbers_.push_back(number); }
  /// Leaves out the part of the last added bytes that lies in `tally`.
  void leave_out(std::span<const std::byte> tally) noexcept;

  friend bool operator==(const ClientState& a, const ClientState& b) {
    return a.pieces_ == b.pieces_ && a.numbers_ == b.numbers_ && a.bytes_ == b.bytes_;
  }
  [[nodiscard]] std::uint64_t hash() const noexcept;
  /// "12 bytes of its frames and heap differ, the first in a block of 320 bytes": why two states are not equal.
  [[nodiscard]] std::string difference(const ClientState& other) const;

 private:
  [[nodiscard]] bool is_on_stack(std::uintptr_t word) const noexcept {
    return word - stack_low_ < stack_high_ - stack_low_;
  }

  struct Piece {
    const std::byte* at;
    std::size_t begin;  // in bytes_
    std::size_t length;
    bool is_registered;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  std::vector<Piece> pieces_;
  std::vector<std::byte> bytes_;
  std::vector<std::uint64_t> numbers_;
  std::uintptr_t stack_low_ = 0;
  std::uintptr_t stack_high_ = 0;
};

template <class Completed>
void ClientState::add(std::span<const std::byte> bytes, bool is_registered, const Completed& completed) {
  pieces_.push_back({bytes.data(), bytes_.size(), bytes.size(), is_registered});
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  if (is_registered) {
    return;  // what NICs move has no numbers of requests
  }
  std::byte* const copy = bytes_.data() + pieces_.back().begin;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, copy + at, sizeof word);
    if (is_on_stack(word)) [[unlikely]] {
      std::memset(copy + at, 0, sizeof word);
    } else if (may_be_request_number(word)) [[unlikely]] {
      const std::uint16_t qp = queue_pair_of(word);
      if (word - first_request_number(qp) <= completed(qp)) {
        word = first_request_number(qp);
        std::memcpy(copy + at, &word, sizeof word);
      }
    }
  }
}

}  // namespace sidelatch::explore
