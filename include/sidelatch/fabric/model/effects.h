// What an atomic does to its word, and 8-byte words in byte memory.
//
//   AtomicEffect effect = apply_atomic(request, load_word(word));
//   if (effect.stores) store_word(word, effect.value);
//   // effect.old goes back to the initiator
//
// Words are little-endian on every host.
//
// Thread-safety: pure functions; load_word and store_word are plain memory accesses, not atomic ones.
#pragma once

#include <sidelatch/fabric/work_request.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace sidelatch::fabric::model {

/// Bytes of the word that an atomic works on; its address is a multiple of this.
inline constexpr std::size_t kWordBytes = 8;

struct AtomicEffect {
  std::uint64_t old = 0;    ///< the value that goes back to the initiator
  bool stores = false;      ///< false for a CAS that found another value than it expected
  std::uint64_t value = 0;  ///< what the word becomes if `stores`
  friend constexpr bool operator==(const AtomicEffect&, const AtomicEffect&) = default;
};

/// The effect of `request` on a word that holds `old`. Throws std::invalid_argument if it is no atomic.
[[nodiscard]] constexpr AtomicEffect apply_atomic(const WorkRequest& request, std::uint64_t old) {
  switch (request.opcode) {
    case Opcode::compare_swap:
      return old == request.compare ? AtomicEffect{old, true, request.swap_or_add} : AtomicEffect{old, false, old};
    case Opcode::fetch_add:
      return {old, true, old + request.swap_or_add};
    default:
      throw std::invalid_argument("memory model: apply_atomic needs a CAS or a FETCH-ADD");
  }
}

/// The 8-byte little-endian word at `from`, which needs no alignment.
[[nodiscard]] inline std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&word, from, kWordBytes);
  } else {
    for (std::size_t i = kWordBytes; i-- > 0;) {
      word = word << 8 | static_cast<std::uint64_t>(from[i]);
    }
  }
  return word;
}

/// Stores `word` at `to` as 8 little-endian bytes; `to` needs no alignment.
inline void store_word(std::byte* to, std::uint64_t word) {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(to, &word, kWordBytes);
  } else {
    for (std::size_t i = 0; i < kWordBytes; ++i) {
      to[i] = static_cast<std::byte>(word >> (8 * i));
    }
  }
}

}  // namespace sidelatch::fabric::model
