// Time as the software NIC has it: nanoseconds since any moment, given by the caller, never going back.
//
// The NIC reads no clock: the same calls with the same times give the same frames.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <limits>

namespace sidelatch::softnic::nic {

using Time = std::uint64_t;

/// A deadline that does not come.
inline constexpr Time kNever = std::numeric_limits<Time>::max();

/// `now` and `duration` later; kNever rather than a time that wraps around.
[[nodiscard]] constexpr Time after(Time now, Time duration) noexcept {
  return duration > kNever - now ? kNever : now + duration;
}

}  // namespace sidelatch::softnic::nic
