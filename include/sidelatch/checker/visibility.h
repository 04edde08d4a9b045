// When does a WRITE become visible, and in which order its lines? (docs/memory-model.md, rules 2, 3 and 5.)
//
//   Observation seen = probe_visibility(storage, clients, Sight::lines_within_write, {});
//
// WRITEs of rising numbers go to one block, and the CPU of the memory's machine looks at it all the while. If that is
// another machine they are skipped: what a client's READs see tells of the order of their own lines too (rule 4), and
// a READ that is posted behind a completion waits for what has completed (rule 2).
//
//   lines_within_write   its last line has a number, and a line in front of it an older one
//   write_write          a block and, behind it on the same queue pair, a word: the word has a number, and the block an
//                        older one
//   after_completion     the WRITE has completed, and the CPU sees an older number
//
// Controls say whether such a thing would have been seen. For lines_within_write it is the opposite: the first line has
// a number, and the last one an older one, so that the look fell into the WRITE. For write_write it is the same on two
// queue pairs. They are in the detail as control_chances and control_seen.
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
  std::uint64_t chances = 20'000;  ///< after that many it ends
  /// Asked now and then; false ends the probe with what it has.
  std::function<bool()> keep_going = [] { return true; };

  /// Throws std::invalid_argument naming the value and the allowed range.
  void validate() const;
};

/// `clients`: at least one; the first one writes. In a simulation that takes short cuts the CPU would see whole WRITEs:
/// observe it (Simulation::observe).
[[nodiscard]] Observation probe_visibility(fabric::Node& storage, std::span<fabric::Node* const> clients, Sight sight,
                                           const VisibilityOptions& options);

}  // namespace sidelatch::checker
