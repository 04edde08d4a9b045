// RemoteLatches: latches that lie apart from the objects, in words that another queue pair reaches: those of a
// programmable switch, say (switchsync/word_switch.h).
//
//   SessionOptions options;
//   options.latches = {.queue_pair = to_switch.get(), .words = words, .first = memory.address, .granule = 256};
//   Session session(*to_memory, buffer_bytes(shape), options);
//
// An object's latch is the word (address of its record - first) / granule. Objects whose records begin within one
// granule share a latch: then a session must not hold two of them at once. All sessions of an object need the same
// `first` and `granule`.
//
// A latch word there has 32 bits, because the registers of switches have no more: compact_word() in latch_word.h.
//
// Thread-safety: a value.
#pragma once

#include <sidelatch/fabric/types.h>
#include <sidelatch/sync/layout.h>

#include <cstdint>

namespace sidelatch::fabric {
class QueuePair;
}

namespace sidelatch::sync {

struct RemoteLatches {
  fabric::QueuePair* queue_pair = nullptr;  ///< null: latches are where the objects are; must outlive the session
  fabric::RemoteSpan words{};               ///< 8 bytes each
  fabric::RemoteAddress first{};            ///< of the memory whose objects have their latches in `words`
  std::uint64_t granule = fabric::kLineBytes;

  /// Throws std::invalid_argument that names the field, its value and what is allowed.
  void validate() const;
  /// The word of the object's latch. Throws std::out_of_range for an object without one.
  [[nodiscard]] fabric::RemoteSpan word_of(const Object& object) const;
};

}  // namespace sidelatch::sync
