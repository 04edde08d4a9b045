// What a NIC's lock table looks like from outside: which address bits choose a slot, and what one slot can do.
//
// Two groups of workers use atomics on two words whose addresses differ in one bit. If they are no faster together than
// all on one word, both words share a slot, so the bit does not choose the slot. TODS 2025, section 3.2.
//
// Thread-safety: runs on the reactor of its nodes, in that thread.
#pragma once

#include <sidelatch/checker/closed_loop.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace sidelatch::checker {

struct LockTable {
  std::uint32_t address_bits = 0;  ///< from bit 0 to the highest bit that chooses a slot; 0 if none does
  std::uint64_t slots = 1;         ///< 2 to the number of bits that choose
  std::uint64_t slot_bytes = 0;    ///< neighbours that share a slot: 2 to the lowest bit that chooses; 0 if none does
  double contended_mops = 0;       ///< all workers on one word
  double uncontended_mops = 0;     ///< each worker on a word of its own, packed
};

struct LockTableOptions {
  fabric::Duration warm_up = std::chrono::microseconds(100);  ///< of each loop, by the world's clock
  fabric::Duration measured = std::chrono::microseconds(500);
  /// If the first loop completes fewer operations, all loops measure for longer: a slow device needs more time for the
  /// same precision.
  std::uint64_t least_operations = 0;
  /// Called between the loops; false ends the probe without a result.
  std::function<bool()> keep_going = [] { return true; };
};

[[nodiscard]] std::optional<LockTable> probe_lock_table(fabric::Node& storage, std::span<fabric::Node* const> clients,
                                                        const LockTableOptions& options = {});

}  // namespace sidelatch::checker
