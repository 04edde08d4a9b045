// The torn-read experiment: one writer, one reader, a ring of blocks (TODS 2025, section 1 and figure 1(b)).
//
//   TornReads seen = probe_torn_reads(storage, writer, reader, {.block_bytes = 512, .reads = 100000});
//   seen.undetected   // equal header and footer, mixed body: what the bookend scheme would have accepted
//
// The writer fills a block with a number and writes it to the next slot with one WRITE; the number grows with each
// WRITE. The reader READs whole blocks and checks every word. It follows the slot that is written next, so that most
// writes overlap a read. probe_scheme() does the same with a scheme's own update() and read() instead of the bare WRITE
// and READ.
//
// Thread-safety: runs on the reactor of its nodes, in that thread.
#pragma once

#include <sidelatch/checker/observation.h>
#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/node.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::checker {

class SwitchPlace;

struct RingOptions {
  std::uint64_t block_bytes = 512;        ///< a multiple of 8, 64 to 1 MiB
  std::uint64_t ring_bytes = 50'000'000;  ///< at least two blocks
  std::uint64_t offset = 0;  ///< of a block in its line, for the torn-read probe: a multiple of 8, up to 56
  std::uint64_t reads = 100'000;
  /// The longest that a writer waits for a latch, by the world's clock.
  fabric::Duration patience = std::chrono::milliseconds(10);
  /// Called from time to time; false ends the probe with the results so far.
  std::function<bool()> keep_going = [] { return true; };
  /// For schemes that need a switch (sync::LatchPlace): of the storage node; it serves nothing yet.
  SwitchPlace* place = nullptr;

  /// Throws std::invalid_argument naming the value and the allowed range.
  void validate() const;
};

/// A block that mixes two writes, word by word.
struct TornBlock {
  std::uint64_t slot = 0;
  std::vector<std::uint64_t> words;
};

/// Each read counts as one of the three.
struct TornReads {
  std::uint64_t block_bytes = 0;
  std::uint64_t reads = 0;
  std::uint64_t consistent = 0;  ///< one number in all words
  std::uint64_t detected = 0;    ///< header and footer differ
  std::uint64_t undetected = 0;  ///< header and footer agree, some word between differs
  std::uint64_t writes = 0;
  std::optional<TornBlock> evidence = {};  ///< the first undetected one
  /// Blocks were mixed at multiples of this many bytes from the start of a line. With enough mixed blocks, this is the
  /// unit that the target copies whole. 0: no block was mixed.
  std::uint64_t granularity = 0;
  /// Counts of the places where a block changes from one write to another: those with the later write at the lower
  /// address, and those with it at the higher address. A WRITE placed in ascending order leaves the later write in
  /// front for READs that ascend faster.
  std::uint64_t later_in_front = 0;
  std::uint64_t later_behind = 0;
};

/// For reports with one line per variant: chances are reads, and seen are mixed reads.
[[nodiscard]] Observation as_observation(std::string name, const TornReads& reads);

[[nodiscard]] TornReads probe_torn_reads(fabric::Node& storage, fabric::Node& writer, fabric::Node& reader,
                                         const RingOptions& options);

struct SchemeReads {
  std::uint64_t object_bytes = 0;
  std::uint64_t reads = 0;
  std::uint64_t accepted = 0;
  std::uint64_t rejected = 0;  ///< the scheme saw a writer and asked for a retry
  std::uint64_t torn = 0;      ///< accepted although mixed
  std::uint64_t writes = 0;
  std::optional<TornBlock> evidence = {};  ///< the first torn read; words of the payload
  bool stuck = false;                      ///< a latch stayed held until patience ended: an unlatch was lost
};

[[nodiscard]] SchemeReads probe_scheme(fabric::Node& storage, fabric::Node& writer, fabric::Node& reader,
                                       const SelectedScheme& scheme, const RingOptions& options);

/// "4711 x3, 4710 x13": the numbers of a block in order, each with its run length; at most `most` of them.
[[nodiscard]] std::string describe(const TornBlock& block, std::size_t most = 6);

}  // namespace sidelatch::checker
