// Does a scheme keep its writers apart on this NIC? For latches: the torn-read experiment has only one writer, so it
// does not exercise them.
//
//   SchemeReads seen = probe_exclusion(storage, clients, select_scheme("latch-rw/async"), {});
//   seen.torn    // a payload that mixes updates, or updates that were lost
//
// Several clients update one object. Each finds the same number in all words and writes the next number to all of them.
// In the end the number equals the number of updates.
//
// Thread-safety: runs on the reactor of its nodes, in that thread.
#pragma once

#include <sidelatch/checker/torn_read.h>

#include <span>

namespace sidelatch::checker {

class SwitchPlace;

struct ExclusionOptions {
  std::uint64_t object_bytes = 256;  ///< maximum size of the record; 64 to 1 MiB
  std::uint64_t updates = 20'000;    ///< of all writers together
  std::uint32_t writers = 4;         ///< at least 2
  /// The longest that a writer waits for the latch, by the world's clock.
  fabric::Duration patience = std::chrono::milliseconds(100);
  /// Called from time to time; false ends the probe with the results so far.
  std::function<bool()> keep_going = [] { return true; };
  /// As RingOptions::place.
  SwitchPlace* place = nullptr;

  /// Throws std::invalid_argument naming the value and the allowed range.
  void validate() const;
};

/// `reads` and `accepted` are updates, each of which reads the object. `clients`: at least one.
[[nodiscard]] SchemeReads probe_exclusion(fabric::Node& storage, std::span<fabric::Node* const> clients,
                                          const SelectedScheme& scheme, const ExclusionOptions& options);

}  // namespace sidelatch::checker
