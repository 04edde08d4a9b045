// Numbers in packets: big-endian, at any address.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sidelatch::roce {

namespace detail {

constexpr std::uint16_t swap_bytes(std::uint16_t value) noexcept { return __builtin_bswap16(value); }
constexpr std::uint32_t swap_bytes(std::uint32_t value) noexcept { return __builtin_bswap32(value); }
constexpr std::uint64_t swap_bytes(std::uint64_t value) noexcept { return __builtin_bswap64(value); }

// The unsigned type of `Bytes` bytes that the CPU swaps with one instruction; void if there is none.
template <std::size_t Bytes>
using Word = std::conditional_t<
    Bytes == 2, std::uint16_t,
    std::conditional_t<Bytes == 4, std::uint32_t, std::conditional_t<Bytes == 8, std::uint64_t, void>>>;
// GCC 12 does not find these instructions by itself.
template <std::size_t Bytes>
inline constexpr bool kSwaps = !std::is_void_v<Word<Bytes>> && std::endian::native == std::endian::little;

}  // namespace detail

/// The number in the first `Bytes` bytes at `in`.
template <std::size_t Bytes, class T>
[[nodiscard]] constexpr T load_big_endian(const std::byte* in) noexcept {
  static_assert(Bytes <= sizeof(T));
  if constexpr (detail::kSwaps<Bytes>) {
    if (!std::is_constant_evaluated()) {
      detail::Word<Bytes> word{};
      std::memcpy(&word, in, Bytes);
      return static_cast<T>(detail::swap_bytes(word));
    }
  }
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

/// Writes the low `Bytes` bytes of `value` to the first bytes at `out`.
template <std::size_t Bytes>
constexpr void store_big_endian(std::byte* out, std::uint64_t value) noexcept {
  if constexpr (detail::kSwaps<Bytes>) {
    if (!std::is_constant_evaluated()) {
      const auto word = detail::swap_bytes(static_cast<detail::Word<Bytes>>(value));
      std::memcpy(out, &word, Bytes);
      return;
    }
  }
  for (std::size_t i = 0; i < Bytes; ++i) {
    out[i] = static_cast<std::byte>(value >> (8 * (Bytes - 1 - i)));
  }
}
constexpr void store8(std::byte* out, std::uint8_t value) noexcept { store_big_endian<1>(out, value); }
constexpr void store16(std::byte* out, std::uint16_t value) noexcept { store_big_endian<2>(out, value); }
constexpr void store24(std::byte* out, std::uint32_t value) noexcept { store_big_endian<3>(out, value); }
constexpr void store32(std::byte* out, std::uint32_t value) noexcept { store_big_endian<4>(out, value); }
constexpr void store64(std::byte* out, std::uint64_t value) noexcept { store_big_endian<8>(out, value); }

}  // namespace sidelatch::roce
