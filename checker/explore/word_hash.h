// A hash of words, for what an exploration compares.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

namespace sidelatch::explore {

[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
  return hash ^ hash >> 29;
}

/// `hash` with the words of `bytes`, each as `shown(word)`; zeros fill the last one.
template <class Shown = std::identity>
[[nodiscard]] std::uint64_t mixed(std::uint64_t hash, std::span<const std::byte> bytes,
                                  const Shown& shown = {}) noexcept {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
    hash = mixed(hash, shown(word));
  }
  return hash;
}

}  // namespace sidelatch::explore
