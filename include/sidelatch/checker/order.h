// Does a NIC keep the order of two requests of one queue pair? (docs/memory-model.md, rule 5.)
//
//   Observation seen = probe_order(storage, clients, Pair::read_read, {.bytes = 4096});
//
// Two requests on the same word are posted as one chain, with one doorbell. The values show which was executed first:
//
//   read_read     READ of a block, then READ of its last word: the first saw more
//   read_write    READ of a block, then WRITE of its last word: the READ saw the later WRITE
//   write_read    WRITE of a block, then READ of its last word: the READ did not see it
//   write_atomic  WRITE of a block, then FETCH-ADD on its last word: it did not add to what was written
//   atomic_read   FETCH-ADD, then READ of the word: the READ did not see it
//
// Three more must hold whatever the others show:
//
//   fenced_read_write      as read_write, the WRITE with the fence flag (rule 6)
//   fenced_atomic_write    FETCH-ADD, then WRITE of the word with the fence flag: the FETCH-ADD added to it (rule 6)
//   completed_write_read   WRITE of a block and, after its completion, READ on another queue pair (rule 2)
//
// In read_read, atomic_read and fenced_atomic_write other clients keep incrementing the same word.
//
// As a control, both requests are also posted at the same time on two queue pairs, where nothing orders them. The
// control shows whether the probe would see an inversion. Its results are control_chances and control_seen in the
// observation's detail.
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

enum class Pair : std::uint8_t {
  read_read,
  read_write,
  write_read,
  write_atomic,
  atomic_read,
  fenced_read_write,
  fenced_atomic_write,
  completed_write_read,
};
[[nodiscard]] std::string_view name(Pair pair);  ///< "order/read-read", "visibility/read-after-completion"

struct OrderOptions {
  std::uint64_t bytes = 4096;  ///< per block: a multiple of 8, 8 to 1 MiB; a longer block takes longer to execute
  /// The probe ends after this many chances, after this many chains without any chance, or after ten times as many
  /// chains.
  std::uint64_t chances = 20'000;
  /// Called from time to time; false ends the probe with the results so far.
  std::function<bool()> keep_going = [] { return true; };

  /// Throws std::invalid_argument naming the value and the allowed range.
  void validate() const;
};

/// `clients`: at least one. The others do the counting; a single client counts on further queue pairs.
[[nodiscard]] Observation probe_order(fabric::Node& storage, std::span<fabric::Node* const> clients, Pair pair,
                                      const OrderOptions& options);

}  // namespace sidelatch::checker
