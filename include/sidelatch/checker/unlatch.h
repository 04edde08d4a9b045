// Can a WRITE be lost between the load and the store of an atomic? (docs/memory-model.md, rule 8.) It matters for a
// latch that is released by WRITE while others change it by atomics.
//
//   Observation seen = probe_lost_unlatch(storage, clients, Opcode::fetch_add, {});
//
// One client WRITEs a word with a rising number in its upper half and reads it back. Meanwhile the other clients change
// the lower half by atomics, as waiting readers do. Nobody else changes the upper half, so a missing number was
// overwritten by an atomic that had loaded the word before the WRITE.
//
// Thread-safety: runs on the reactor of its nodes, in that thread.
#pragma once

#include <sidelatch/checker/observation.h>
#include <sidelatch/fabric/node.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace sidelatch::checker {

struct UnlatchOptions {
  std::uint64_t chances = 20'000;     ///< WRITEs
  std::uint32_t atomics_at_once = 8;  ///< by the others, at least 1
  /// Called from time to time; false ends the probe with the results so far.
  std::function<bool()> keep_going = [] { return true; };

  /// Throws std::invalid_argument naming the value and the allowed range.
  void validate() const;
};

[[nodiscard]] std::string_view unlatch_name(fabric::Opcode against);  ///< "unlatch/write-against-fetch-add"

/// `against`: fetch_add or compare_swap. `clients`: at least one; the first one writes. Throws std::invalid_argument.
[[nodiscard]] Observation probe_lost_unlatch(fabric::Node& storage, std::span<fabric::Node* const> clients,
                                             fabric::Opcode against, const UnlatchOptions& options);

}  // namespace sidelatch::checker
