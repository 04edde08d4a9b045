// TupleMoves: makes tuples of p4/switch_cached.p4 hot, for who is to latch them, and others cold in their place.
//
//   TupleMoves moves(control, first, direct, memory, buffer);       // first: of add_tuples()
//   bool can_be_latched = co_await moves.heat(tuple);
//   bool is_cold = co_await moves.cool(tuple);                      // false: somebody holds it
//
// Where the truth is. A hot tuple's version and holder are in the switch's registers. A cold one is held by nobody, and
// its version is its word in memory. A tuple that moves is hot, and its version is odd: nobody latches it, and no READ
// of it is good. Versions go on from one to the other: none comes twice.
//
// To make one hot (in this order):
//   1. the table's entry, with an odd version: no CAS is told that the tuple is cold any more
//   2. one move more of the tuple's group: READs of a cold tuple that passed before are not good any more
//   3. a READ of its word: what it has, as nobody can WRITE a cold tuple
//   4. this version, at the switch: it can be latched
// To make one cold:
//   1. an odd version. It is refused if somebody holds the tuple, or its WRITE is on its way, or it is in doubt
//   2. a READ of its word: all that was acknowledged is placed then (memory model, rule 2)
//   3. the version into its word, if it has another one (an unlatch without a WRITE), and a READ that waits for that
//   4. the entry goes. A READ that passed while it was hot finds an odd version in its place
//
// If a request fails in between, the move is given up: the tuple is what it was. If the switch restarts, all tuples are
// cold, with the versions of a new epoch: recover() of optimistic_switch.h. Clients take no part in a move, so one that
// dies leaves nothing of it behind. A client that dies with a latch leaves a hot tuple, which stays hot while it is
// latched or in doubt.
//
// Thread-safety: as that of OptimisticSwitch. One call at a time, as they share the buffer.
#pragma once

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/task.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/switchsync/optimistic_switch.h>

#include <cstdint>

namespace sidelatch::switchsync {

class TupleMoves {
 public:
  /// `memory`: of the tuples of add_tuples(), which returned `first`. `direct` reaches it by the memory node's NIC that
  /// the clients use, and its packets pass as they are (OptimisticSwitch::add_direct()), or not through the switch.
  /// `buffer`: 8 bytes. All outlive this object. Throws std::invalid_argument if the memory or the buffer is too short,
  /// and std::logic_error if the switch has no program that caches.
  TupleMoves(OptimisticSwitch& control, std::uint32_t first, fabric::QueuePair& direct, fabric::RemoteSpan memory,
             fabric::LocalSpan buffer);

  /// The tuple is hot, if this returns true. False: there is no room, and all hot tuples of this row are held; or the
  /// tuple moves already. Try again. Throws FabricError, and std::invalid_argument if there is no such tuple.
  [[nodiscard]] fabric::Task<bool> heat(std::uint32_t tuple);
  /// The tuple is cold, if this returns true. False: it is held, or in doubt, or moves already. Throws as heat().
  [[nodiscard]] fabric::Task<bool> cool(std::uint32_t tuple);

 private:
  [[nodiscard]] fabric::RemoteSpan word_of(std::uint32_t tuple) const;
  [[nodiscard]] fabric::Task<std::uint64_t> read_word(std::uint32_t tuple);
  [[nodiscard]] fabric::Task<bool> make_room();

  OptimisticSwitch* control_;
  std::uint32_t first_;
  std::uint64_t slot_bytes_;
  std::uint64_t count_;
  fabric::QueuePair* direct_;
  fabric::RemoteSpan memory_;
  fabric::LocalSpan buffer_;
  std::uint32_t hand_ = 0;  // the next one of the row that may become cold, as a clock's
};

}  // namespace sidelatch::switchsync
