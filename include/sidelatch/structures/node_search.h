// The search for a key in a node: branch-free, so it takes the same few steps for all keys.
//
//   std::size_t at = count_less(keys, key);        // where std::lower_bound would point
//
// Thread-safety: a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::structures {

/// The number of the sorted `keys` that are less than `key`, as std::lower_bound gives it.
[[nodiscard]] inline std::size_t count_less(std::span<const std::uint64_t> keys, std::uint64_t key) {
  const std::uint64_t* base = keys.data();
  std::size_t length = keys.size();
  while (length > 1) {
    const std::size_t half = length / 2;
    base += static_cast<std::size_t>(base[half - 1] < key) * half;  // no branch to mispredict
    length -= half;
  }
  const auto before = static_cast<std::size_t>(base - keys.data());
  return before + (length == 1 && *base < key ? 1U : 0U);
}

}  // namespace sidelatch::structures
