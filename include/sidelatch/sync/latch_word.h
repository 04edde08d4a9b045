// The 8-byte latch word, the same for every latch.
//
//   bit 0        held exclusively
//   bits 1-31    shared holders (RwLatch), and readers that check whether the latch is free
//   bits 32-47   exclusive holder: the session's owner id, 0 for a session without one
//   bits 48-63   the owner's epoch: counts its acquisitions, so that two of them look different
//
// Zero is free. A session without owner id takes the latch by the plain 0 -> 1 of TODS 2025, section 3.1; leases are
// based on owner and epoch (lease.h).
//
// Readers add kOneReader and subtract it again; the sum cannot reach bit 32 before 2^31 of them are under way.
#pragma once

#include <cstdint>

namespace sidelatch::sync {

inline constexpr std::uint64_t kFree = 0;
inline constexpr std::uint64_t kExclusive = 1;
inline constexpr std::uint64_t kOneReader = 2;
inline constexpr std::uint64_t kReadersMask = 0xffff'fffe;

/// What the holder of a ticket (TicketLatch) has added to the served ticket, in the sense of a hold: subtracting it
/// unlatches. The counter in the lower half must not carry into the upper one.
[[nodiscard]] constexpr std::uint64_t turn_word(std::uint32_t ticket) {
  return ticket == 0xffff'ffff ? 0xffff'ffff : ~std::uint64_t{0};
}
/// Whether nobody has a ticket: the counters are equal.
[[nodiscard]] constexpr bool is_served(std::uint64_t word) {
  return static_cast<std::uint32_t>(word) == static_cast<std::uint32_t>(word >> 32);
}
[[nodiscard]] constexpr bool is_turn(std::uint64_t word) { return word == 0xffff'ffff || word == ~std::uint64_t{0}; }

[[nodiscard]] constexpr std::uint64_t exclusive_word(std::uint16_t owner, std::uint16_t epoch) {
  return owner == 0 ? kExclusive : std::uint64_t{epoch} << 48 | std::uint64_t{owner} << 32 | kExclusive;
}
/// The word of an exclusive holder in 32 bits, for registers of switches: bit 0 held, bits 1-16 the owner, bits 17-31
/// the low bits of its epoch. Readers have no room.
[[nodiscard]] constexpr std::uint64_t compact_word(std::uint64_t word) {
  return (word >> 48 & 0x7fff) << 17 | (word >> 32 & 0xffff) << 1 | (word & kExclusive);
}
/// What compact_word() has left of the word.
[[nodiscard]] constexpr std::uint64_t expanded_word(std::uint64_t compact) {
  return (compact >> 17 & 0x7fff) << 48 | (compact >> 1 & 0xffff) << 32 | (compact & kExclusive);
}
[[nodiscard]] constexpr bool is_exclusive(std::uint64_t word) { return (word & kExclusive) != 0; }
[[nodiscard]] constexpr std::uint64_t readers_of(std::uint64_t word) { return (word & kReadersMask) / kOneReader; }
[[nodiscard]] constexpr std::uint16_t owner_of(std::uint64_t word) { return static_cast<std::uint16_t>(word >> 32); }
[[nodiscard]] constexpr std::uint16_t epoch_of(std::uint64_t word) { return static_cast<std::uint16_t>(word >> 48); }
/// The word without its readers: the exclusive holder.
[[nodiscard]] constexpr std::uint64_t holder_of(std::uint64_t word) { return word & ~kReadersMask; }

}  // namespace sidelatch::sync
