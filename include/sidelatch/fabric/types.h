// Addresses, keys, spans and time: the vocabulary of every fabric.
//
// A LocalSpan names bytes of this process that a NIC may read or write; a RemoteSpan names bytes of another node. Both
// carry the key that the NIC checks, so neither can be built from a bare pointer by accident: they come from a
// MemoryRegion (memory_region.h). Sub-spans are checked: a range that leaves its parent throws std::out_of_range and
// names the range and the limit.
//
// Thread-safety: all types here are plain values.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace sidelatch::fabric {

/// Time of a world, in picoseconds since it began: virtual in the simulator, steady-clock on a NIC.
using Duration = std::chrono::duration<std::int64_t, std::pico>;
using Time = Duration;

/// A Duration in nanoseconds, with fraction.
[[nodiscard]] constexpr double to_ns(Duration d) { return static_cast<double>(d.count()) / 1e3; }
/// A Duration from nanoseconds, rounded to picoseconds.
[[nodiscard]] constexpr Duration from_ns(double ns) {
  return Duration{static_cast<std::int64_t>(ns * 1e3 + (ns < 0 ? -0.5 : 0.5))};
}

/// Bytes of a cache line, the unit that a coherent DMA reads or writes whole (PCIe, x86).
inline constexpr std::size_t kLineBytes = 64;

/// An address in the memory of a target node. Offsets are bytes.
struct RemoteAddress {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(RemoteAddress, RemoteAddress) = default;
  friend constexpr RemoteAddress operator+(RemoteAddress a, std::uint64_t bytes) { return {a.value + bytes}; }
  friend constexpr std::uint64_t operator-(RemoteAddress a, RemoteAddress b) { return a.value - b.value; }
};

/// The key that opens a region to other nodes.
struct RKey {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(RKey, RKey) = default;
};

/// The key that opens a region to the node's own NIC.
struct LKey {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(LKey, LKey) = default;
};

/// `length` bytes of a target node's memory, and the key to them. Plain data: it may be sent to another process.
struct RemoteSpan {
  RemoteAddress address;
  std::uint64_t length = 0;
  RKey rkey;
  std::uint32_t reserved = 0;  ///< so that there is no padding: two spans that are equal have the same bytes

  /// Bytes [offset, offset + bytes) of this span. Throws std::out_of_range if they are not all inside it.
  [[nodiscard]] RemoteSpan subspan(std::uint64_t offset, std::uint64_t bytes) const;
};

/// `length` bytes of this process's registered memory, and the key that its NIC checks.
struct LocalSpan {
  std::byte* data = nullptr;
  std::uint64_t length = 0;
  LKey lkey;
  std::uint32_t reserved = 0;  ///< so that there is no padding

  /// Bytes [offset, offset + bytes) of this span. Throws std::out_of_range if they are not all inside it.
  [[nodiscard]] LocalSpan subspan(std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] std::span<std::byte> bytes() const { return {data, static_cast<std::size_t>(length)}; }
};

// Bytes that are never set would go to other processes, and would look to the explorer like something that a client
// knows.
static_assert(std::has_unique_object_representations_v<RemoteSpan> &&
              std::has_unique_object_representations_v<LocalSpan>);

}  // namespace sidelatch::fabric
