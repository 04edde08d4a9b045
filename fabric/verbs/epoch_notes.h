// What a memory server notes of tuples when a switch recovers them (switch_recovery.h), so that a client which was cut
// off several switches ago still learns what became of its WRITE.
//
// Each recovery begins an epoch, whose versions are above all of before. So after two of them a tuple's word no longer
// tells whether a WRITE of the epoch before has happened. But the word that the first of them has found does, together
// with the version of the WRITE that was made again there, if one was. Both are noted before anything changes them.
//
// A tuple whose holder has ended while its WRITE was on its way is in doubt: it may be torn, and stays latched. Its
// word in memory becomes odd then, one below the version that the WRITE would have given, so that the next switch knows
// it, too. Whoever writes the tuple next gives its word that version. If that is an heir, the version no longer tells
// whose WRITE it was; and a tuple whose holder has ended before its WRITE came by gets its version without one. Both
// are noted before.
//
// Clients are known by their owner ids.
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
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {

struct TupleNote {
  std::uint64_t epoch = 0;    ///< its first version
  std::uint64_t word = 0;     ///< that the recovery has found in memory, of an epoch before
  std::uint64_t granted = 0;  ///< version of the WRITE that was to be made again; 0: of none
  friend bool operator==(const TupleNote&, const TupleNote&) = default;
};

/// unknown: the tuple was in doubt, and another client has inherited it.
enum class Fate : std::uint8_t { undecided, happened, lost, unknown };

/// Of a word that a recovery has found.
[[nodiscard]] constexpr bool is_in_doubt(std::uint64_t word) noexcept { return word % 2 != 0; }

/// What became of a WRITE by the switch of this recovery, which still serves. `is_open`: it waits for nobody any more.
/// Undecided: the WRITE is to be made again.
[[nodiscard]] Fate fate_now(const TupleNote& note, bool is_open, std::uint64_t version);

struct Recalled {
  Fate fate = Fate::undecided;
  std::uint64_t version = 0;  ///< of the WRITE, if it is undecided: a WRITE that was made again has another one
};
/// What is to be told of a WRITE.
struct Decided {
  Fate fate = Fate::lost;  ///< lost, or unknown to all but the heir
  std::uint16_t heir = 0;  ///< who was to make a WRITE of the same version
  friend bool operator==(const Decided&, const Decided&) = default;
};
/// By the versions that the WRITEs would have given.
using Fates = std::map<std::uint64_t, Decided>;
/// What became of a WRITE before the last of these recoveries. `notes`: of one tuple, the earliest first. `decided`: of
/// that tuple, by EpochNotes::decide(). `owner`: who asks.
[[nodiscard]] Recalled recall(std::span<const TupleNote> notes, const Fates& decided, std::uint64_t version,
                              std::uint16_t owner);

class EpochNotes {
 public:
  /// Of a row, and no more. What is older is forgotten, and asking for it is an error.
  static constexpr std::size_t kMostEpochs = 16;

  /// The first words of the slots of `stride` bytes from `memory` on, before they change.
  void begin(const RemoteSpan& memory, std::uint64_t stride, std::uint64_t epoch, std::vector<std::uint64_t> words);
  /// Before the tuple at `tuple` is written again. Throws std::invalid_argument if the latest epoch of its row is
  /// another one.
  void grant(const RemoteSpan& tuple, std::uint64_t epoch, std::uint64_t version);
  /// Before a client inherits the tuple, whose WRITE gives it that version (unknown), or the tuple gets it without a
  /// WRITE (lost). Throws std::invalid_argument for another fate.
  void decide(const RemoteSpan& tuple, std::uint64_t version, const Decided& decided);
  /// Throws std::out_of_range if the epoch after `version` is forgotten.
  [[nodiscard]] Recalled recall(const RemoteSpan& tuple, std::uint64_t version, std::uint16_t owner) const;
  /// The first version of the latest epoch of all; 0: there is none. No epoch comes twice, also if no word shows it.
  [[nodiscard]] std::uint64_t latest() const noexcept { return latest_; }

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
  std::uint64_t latest_ = 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Fates> decided_;  // by key and address
};

}  // namespace sidelatch::fabric::verbs
