// Bits of packets, for the interpreter and for compiled programs.
#pragma once

#include <sidelatch/p4/bits.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::p4 {

/// `width` bits from bit `at` on, the first bit of a byte being its highest. The bits must lie in `bytes`.
[[nodiscard]] inline U128 read_bits(std::span<const std::byte> bytes, std::size_t at, unsigned width) noexcept {
  U128 value = 0;
  while (width > 0) {
    const unsigned in_byte = 8 - static_cast<unsigned>(at % 8);
    const unsigned take = width < in_byte ? width : in_byte;
    const unsigned byte = std::to_integer<unsigned>(bytes[at / 8]);
    value = value << take | ((byte >> (in_byte - take)) & ((1U << take) - 1));
    at += take;
    width -= take;
  }
  return value;
}

/// Writes `width` bits; the other bits of the bytes stay.
inline void write_bits(std::span<std::byte> bytes, std::size_t at, unsigned width, U128 value) noexcept {
  while (width > 0) {
    const unsigned in_byte = 8 - static_cast<unsigned>(at % 8);
    const unsigned take = width < in_byte ? width : in_byte;
    const unsigned mask = ((1U << take) - 1) << (in_byte - take);
    const auto part = static_cast<unsigned>(value >> (width - take)) << (in_byte - take) & mask;
    std::byte& byte = bytes[at / 8];
    byte = static_cast<std::byte>((std::to_integer<unsigned>(byte) & ~mask) | part);
    at += take;
    width -= take;
  }
}

/// Of `used` bits those that are in the part that begins at bit `before` and has room for `width`.
[[nodiscard]] constexpr unsigned bits_in_part(std::uint64_t used, std::uint64_t before, unsigned width) noexcept {
  const std::uint64_t more = used > before ? used - before : 0;
  return more < width ? static_cast<unsigned>(more) : width;
}

}  // namespace sidelatch::p4
