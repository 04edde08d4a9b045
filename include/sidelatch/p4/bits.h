// Values of P4's bit<N> and int<N>, N up to 128, as unsigned numbers below 2^N. An int<N> is kept in two's complement.
//
// Thread-safety: functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::p4 {

__extension__ typedef unsigned __int128 U128;  // NOLINT(modernize-use-using): __extension__ needs typedef

/// The widest bit<N> and int<N>.
inline constexpr unsigned kWidest = 128;

/// The N lowest bits set; N up to 128.
[[nodiscard]] constexpr U128 ones(unsigned width) noexcept {
  return width >= kWidest ? ~U128{0} : (U128{1} << width) - 1;
}

/// A MAC or an IPv4 address as a key or an argument of a program: its bytes, at most 8, the first one highest.
[[nodiscard]] constexpr std::uint64_t address_number(std::span<const std::uint8_t> bytes) noexcept {
  std::uint64_t number = 0;
  for (const std::uint8_t byte : bytes) {
    number = number << 8 | byte;
  }
  return number;
}

/// The address of so many bytes that this number is.
template <std::size_t Bytes>
[[nodiscard]] constexpr std::array<std::uint8_t, Bytes> address_of(std::uint64_t number) noexcept {
  std::array<std::uint8_t, Bytes> bytes{};
  for (std::size_t i = Bytes; i-- > 0; number >>= 8) {
    bytes[i] = static_cast<std::uint8_t>(number);
  }
  return bytes;
}

/// Whether the highest of `width` bits is set.
[[nodiscard]] constexpr bool is_negative(U128 value, unsigned width) noexcept {
  return width != 0 && ((value >> (width - 1)) & 1) != 0;
}

/// An int<width> as an int<128>.
[[nodiscard]] constexpr U128 extend_sign(U128 value, unsigned width) noexcept {
  return is_negative(value, width) ? value | ~ones(width) : value;
}

/// Saturating sum or difference, of `width` bits.
[[nodiscard]] constexpr U128 saturate(U128 a, U128 b, unsigned width, bool is_signed, bool subtract) noexcept {
  const U128 all = ones(width);
  const U128 result = (subtract ? a - b : a + b) & all;
  if (!is_signed) {
    const bool overflow = subtract ? a < b : result < a;
    return overflow ? (subtract ? U128{0} : all) : result;
  }
  // Overflow: the operands (of a difference: a and -b) have one sign, the result the other.
  const bool negative_b = is_negative(b, width) != subtract;
  const bool overflow = is_negative(a, width) == negative_b && is_negative(result, width) != is_negative(a, width);
  if (!overflow) {
    return result;
  }
  const U128 lowest = U128{1} << (width - 1);
  return is_negative(a, width) ? lowest : lowest - 1;
}

/// A shift by any number of bits; to the right it is arithmetic if is_signed.
[[nodiscard]] constexpr U128 shift(U128 a, U128 by, unsigned width, bool is_signed, bool left) noexcept {
  const bool fill = !left && is_signed && is_negative(a, width);
  if (by >= width) {
    return fill ? ones(width) : 0;
  }
  const auto count = static_cast<unsigned>(by);
  if (left) {
    return (a << count) & ones(width);
  }
  return fill ? (extend_sign(a, width) >> count | ~(~U128{0} >> count)) & ones(width) : a >> count;
}

/// `width`: of the operands.
[[nodiscard]] constexpr bool is_less(U128 a, U128 b, unsigned width, bool is_signed) noexcept {
  if (!is_signed || is_negative(a, width) == is_negative(b, width)) {
    return a < b;
  }
  return is_negative(a, width);
}

}  // namespace sidelatch::p4
