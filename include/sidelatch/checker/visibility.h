// When does a WRITE become visible, and in which order do its lines? (docs/memory-model.md, rules 2, 3 and 5.)
//
//   Observation seen = probe_visibility(storage, clients, Sight::lines_within_write, {});
//
// WRITEs of rising numbers go to one block, and the CPU of the memory's machine keeps looking at it. The probes are
// skipped if the memory is on another machine. READs cannot replace that CPU: their own lines may be out of order too
// (rule 4), and a READ posted after a completion waits for the completed request (rule 2).
//
//   lines_within_write   the last line has a number, and an earlier line an older one
//   write_write          a block and, after it on the same queue pair, a word: the word has a number, and the block an
//                        older one
//   after_completion     the WRITE has completed, and the CPU sees an older number
//
// Controls show whether the probe would have seen the effect. For lines_within_write the control is the opposite: the
// first line has a number and the last line an older one, so the CPU looked during the WRITE. For write_write the
// control is the same on two queue pairs. Their results are control_chances and control_seen in the detail.
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

enum class Sight : std::uint8_t { lines_within_write, write_write, after_completion };
[[nodiscard]] std::string_view name(Sight sight);  ///< "lines/within-write"

struct VisibilityOptions {
  std::uint64_t bytes = 4096;      ///< of the block: a multiple of 64, 128 to 1 MiB
  std::uint64_t chances = 20'000;  ///< the probe ends after this many
  /// Called from time to time; false ends the probe with the results so far.
  std::function<bool()> keep_going = [] { return true; };

  /// Throws std::invalid_argument naming the value and the allowed range.
  void validate() const;
};

/// `clients`: at least one; the first one writes. In a simulation that takes short cuts the CPU would see only whole
/// WRITEs, so switch observation on (Simulation::observe).
[[nodiscard]] Observation probe_visibility(fabric::Node& storage, std::span<fabric::Node* const> clients, Sight sight,
                                           const VisibilityOptions& options);

}  // namespace sidelatch::checker
