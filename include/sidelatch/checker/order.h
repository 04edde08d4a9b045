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
//   atomic_atomic FETCH-ADD, then FETCH-ADD on the word: the second one's old value is not the higher one
//
// Five more must hold whatever the others show:
//
//   fenced_read_write        as read_write, the WRITE with the fence flag (rule 6)
//   fenced_atomic_write      FETCH-ADD, then WRITE of the word with the fence flag: the FETCH-ADD added to it (rule 6)
//   fenced_atomic_atomic     FETCH-ADD, then FETCH-ADD with the fence flag on another word of the line (rule 6). Other
//                            clients READ both words: one READ saw the second FETCH-ADD and not the first
//   completed_write_read     WRITE of a block and, after its completion, READ on another queue pair (rule 2)
//   completed_write_atomic   the same with a FETCH-ADD on the block's last word in place of the READ (rule 2)
//
// In read_read, and where the first request is a FETCH-ADD, other clients keep incrementing its word. A chain of
// fenced_atomic_atomic is a chance if a READ saw one FETCH-ADD without the other.
//
// As a control, both requests are also posted where nothing orders them: at the same time on two queue pairs, those of
// atomic_atomic and fenced_atomic_atomic the second one first. The control shows whether the probe would see an
// inversion. Its results are control_chances and control_seen in the observation's detail.
//
// Thread-safety: runs on the reactor of its nodes, in that thread.
#pragma once

#include <sidelatch/checker/observation.h>
#include <sidelatch/fabric/node.h>

#include <array>
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
  atomic_atomic,
  fenced_read_write,
  fenced_atomic_write,
  fenced_atomic_atomic,
  completed_write_read,
  completed_write_atomic,
};
inline constexpr std::array kAllPairs = {Pair::read_read,
                                         Pair::read_write,
                                         Pair::write_read,
                                         Pair::write_atomic,
                                         Pair::atomic_read,
                                         Pair::atomic_atomic,
                                         Pair::fenced_read_write,
                                         Pair::fenced_atomic_write,
                                         Pair::fenced_atomic_atomic,
                                         Pair::completed_write_read,
                                         Pair::completed_write_atomic};
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
