// Registered memory of an execution.
#pragma once

#include "event.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sidelatch::explore {

/// Registered memory of an execution: the same addresses each time.
class Arena {
 public:
  Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  /// Zeroed and page-aligned. Throws std::length_error if there is no room.
  [[nodiscard]] std::byte* take(std::uint64_t bytes);
  /// Everything is free again.
  void reset() noexcept;
  /// Bytes of the arena, numbered alike in each execution and each thread.
  [[nodiscard]] Range range(const std::byte* data, std::uint64_t length, bool writes) const noexcept {
    const auto begin = static_cast<std::uintptr_t>(data - base_);
    return {begin, data == nullptr ? begin : begin + length, writes};
  }
  /// The pages that hold bytes that were taken.
  [[nodiscard]] std::span<std::byte> pages_of(std::span<const std::byte> bytes) const noexcept;
  [[nodiscard]] bool holds(const std::byte* byte) const noexcept { return byte >= base_ && byte < base_ + kBytes; }
  /// A byte that was taken, to write it.
  [[nodiscard]] std::byte* at(const std::byte* byte) const noexcept { return base_ + (byte - base_); }
  /// Calls `take(offset, bytes)` for all that was taken.
  template <class Take>
  void for_each(const Take& take) const {
    for (const Taken& taken : taken_) {
      take(taken.offset, std::span<const std::byte>(base_ + taken.offset, taken.bytes));
    }
  }
  /// Of all bytes that were taken.
  [[nodiscard]] std::uint64_t hash() const noexcept;

 private:
  static constexpr std::uint64_t kBytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kPage = 4096;
  std::byte* base_;
  std::uint64_t used_ = 0;
  struct Taken {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  std::vector<Taken> taken_;
};

}  // namespace sidelatch::explore
