// Numbers as they stand in packets: big-endian, at any address.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sidelatch::fabric::roce {

/// The number in the first `Bytes` bytes at `in`.
template <std::size_t Bytes, class T>
[[nodiscard]] constexpr T load_big_endian(const std::byte* in) noexcept {
  static_assert(Bytes <= sizeof(T));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < Bytes; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(in[i]);
  }
  return static_cast<T>(value);
}
[[nodiscard]] constexpr std::uint8_t load8(const std::byte* in) noexcept {
  return load_big_endian<1, std::uint8_t>(in);
}
[[nodiscard]] constexpr std::uint16_t load16(const std::byte* in) noexcept {
  return load_big_endian<2, std::uint16_t>(in);
}
[[nodiscard]] constexpr std::uint32_t load24(const std::byte* in) noexcept {
  return load_big_endian<3, std::uint32_t>(in);
}
[[nodiscard]] constexpr std::uint32_t load32(const std::byte* in) noexcept {
  return load_big_endian<4, std::uint32_t>(in);
}
[[nodiscard]] constexpr std::uint64_t load64(const std::byte* in) noexcept {
  return load_big_endian<8, std::uint64_t>(in);
}

/// The low `Bytes` bytes of `value`, to the first bytes at `out`.
template <std::size_t Bytes>
constexpr void store_big_endian(std::byte* out, std::uint64_t value) noexcept {
  for (std::size_t i = 0; i < Bytes; ++i) {
    out[i] = static_cast<std::byte>(value >> (8 * (Bytes - 1 - i)));
  }
}
constexpr void store8(std::byte* out, std::uint8_t value) noexcept { store_big_endian<1>(out, value); }
constexpr void store16(std::byte* out, std::uint16_t value) noexcept { store_big_endian<2>(out, value); }
constexpr void store24(std::byte* out, std::uint32_t value) noexcept { store_big_endian<3>(out, value); }
constexpr void store32(std::byte* out, std::uint32_t value) noexcept { store_big_endian<4>(out, value); }
constexpr void store64(std::byte* out, std::uint64_t value) noexcept { store_big_endian<8>(out, value); }

}  // namespace sidelatch::fabric::roce
