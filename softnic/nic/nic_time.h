// The software NIC's time: nanoseconds since an arbitrary moment, given by the caller, never decreasing.
//
// The NIC reads no clock: the same calls with the same times give the same frames.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <limits>

namespace sidelatch::softnic::nic {

using Time = std::uint64_t;

/// A deadline that never comes.
inline constexpr Time kNever = std::numeric_limits<Time>::max();

/// `now` plus `duration`, or kNever if the sum would wrap around.
[[nodiscard]] constexpr Time after(Time now, Time duration) noexcept {
  return duration > kNever - now ? kNever : now + duration;
}

}  // namespace sidelatch::softnic::nic
