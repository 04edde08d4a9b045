// What a memory server notes of tuples when a switch recovers them (switch_recovery.h), so that a client which was cut
// off several switches ago still learns what became of its WRITE.
//
// Each recovery begins an epoch, whose versions are above all of before. So after two of them a tuple's word no longer
// tells whether a WRITE of the epoch before has happened. But the word that the first of them has found does, together
// with the version of the WRITE that was made again there, if one was. Both are noted before anything changes them.
//
// A version is that which a WRITE would give, or has given.
#pragma once

#include <sidelatch/fabric/types.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::fabric::verbs {

struct TupleNote {
  std::uint64_t epoch = 0;    ///< its first version
  std::uint64_t word = 0;     ///< that the recovery has found in memory, of an epoch before
  std::uint64_t granted = 0;  ///< version of the WRITE that was to be made again; 0: of none
  friend bool operator==(const TupleNote&, const TupleNote&) = default;
};

enum class Fate : std::uint8_t { undecided, happened, lost };

/// What became of a WRITE by the switch of this recovery, which still serves. `is_open`: it waits for nobody any more.
/// Undecided: the WRITE is to be made again.
[[nodiscard]] Fate fate_now(const TupleNote& note, bool is_open, std::uint64_t version);

struct Recalled {
  Fate fate = Fate::undecided;
  std::uint64_t version = 0;  ///< of the WRITE, if it is undecided: a WRITE that was made again has another one
};
/// What became of a WRITE before the last of these recoveries. `notes`: of one tuple, the earliest first.
[[nodiscard]] Recalled recall(std::span<const TupleNote> notes, std::uint64_t version);

class EpochNotes {
 public:
  /// Of a row, and no more. What is older is forgotten, and asking for it is an error.
  static constexpr std::size_t kMostEpochs = 16;

  /// The first words of the slots of `stride` bytes from `memory` on, before they change.
  void begin(const RemoteSpan& memory, std::uint64_t stride, std::uint64_t epoch, std::vector<std::uint64_t> words);
  /// Before the tuple at `tuple` is written again. Throws std::invalid_argument if the latest epoch of its row is
  /// another one.
  void grant(const RemoteSpan& tuple, std::uint64_t epoch, std::uint64_t version);
  /// Throws std::out_of_range if the epoch after `version` is forgotten.
  [[nodiscard]] Recalled recall(const RemoteSpan& tuple, std::uint64_t version) const;

 private:
  struct Epoch {
    RemoteSpan memory{};
    std::uint64_t stride = 0;
    std::uint64_t first = 0;
    std::uint64_t forgotten = 0;  // the latest epoch of this row that was
    std::vector<std::uint64_t> words{};
    std::map<std::uint64_t, std::uint64_t> granted{};  // versions, by the tuple's place

    [[nodiscard]] std::optional<std::uint64_t> place_of(const RemoteSpan& tuple) const;
  };
  std::list<Epoch> epochs_;
};

}  // namespace sidelatch::fabric::verbs
