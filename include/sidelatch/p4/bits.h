// Values of P4's bit<N> and int<N>, N up to 128, as unsigned numbers below 2^N. An int<N> is kept in two's complement.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>

namespace sidelatch::p4 {

__extension__ typedef unsigned __int128 U128;  // NOLINT(modernize-use-using): __extension__ needs typedef

/// The widest bit<N> and int<N>.
inline constexpr unsigned kWidest = 128;

/// The N lowest bits set; N up to 128.
[[nodiscard]] constexpr U128 ones(unsigned width) noexcept {
  return width >= kWidest ? ~U128{0} : (U128{1} << width) - 1;
}

/// Whether the highest of `width` bits is set.
[[nodiscard]] constexpr bool is_negative(U128 value, unsigned width) noexcept {
  return width != 0 && ((value >> (width - 1)) & 1) != 0;
}

/// An int<width> as an int<128>.
[[nodiscard]] constexpr U128 extend_sign(U128 value, unsigned width) noexcept {
  return is_negative(value, width) ? value | ~ones(width) : value;
}

}  // namespace sidelatch::p4
