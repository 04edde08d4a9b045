// Numbers in the format of both protocols: little-endian on every machine.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

namespace sidelatch::fabric::verbs {

template <std::unsigned_integral T>
void append(std::vector<std::byte>& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

/// `bytes` must have at least sizeof(T) bytes from `offset` on.
template <std::unsigned_integral T>
[[nodiscard]] T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(bytes[offset + i]) << (8 * i)));
  }
  return value;
}

}  // namespace sidelatch::fabric::verbs
