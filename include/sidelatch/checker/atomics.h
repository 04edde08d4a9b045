// Are a NIC's atomics atomic with respect to each other, and to those of the CPU beside the memory?
// (docs/memory-model.md, rule 8.)
//
//   Observation seen = probe_atomics(storage, clients, Rival::cpu, {});
//
// All participants add 1 to one word and count their additions. Additions that the word lacks in the end were lost.
// Against each other, clients use FETCH-ADD and CAS in turn. Against the CPU they use FETCH-ADD, and each addition of
// the CPU is a chance.
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

enum class Rival : std::uint8_t { nic, cpu };
[[nodiscard]] std::string_view name(Rival rival);  ///< "atomics/nic"

struct AtomicsOptions {
  std::uint64_t chances = 20'000;  ///< additions: all of them, or the CPU's
  std::uint32_t at_once = 8;       ///< atomics under way, at least 2
  /// Called from time to time; false ends the probe with the results so far.
  std::function<bool()> keep_going = [] { return true; };

  /// Throws std::invalid_argument naming the value and the allowed range.
  void validate() const;
};

/// `clients`: at least one.
[[nodiscard]] Observation probe_atomics(fabric::Node& storage, std::span<fabric::Node* const> clients, Rival rival,
                                        const AtomicsOptions& options);

}  // namespace sidelatch::checker
