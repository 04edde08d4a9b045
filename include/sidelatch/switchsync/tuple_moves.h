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
// If a request fails in between, the move is given up: the tuple is what it was. A WRITE whose connection has failed
// may still be placed later, and would then bring an old version back. So the memory's end of that connection must be
// gone before another one is used for moves. If the switch restarts, all tuples are cold, with the versions of a new
// epoch: recover() of optimistic_switch.h. Clients take no part in a move, so one that dies leaves nothing of it
// behind. A client that dies with a latch leaves a hot tuple, which stays hot while it is latched or in doubt.
//
// The switch and the words are interfaces: a control plane in this process that reaches memory by a queue pair is what
// they are by default; `sidelatch switch` calls its control plane in another thread, and asks the memory server.
//
// Thread-safety: as that of the interfaces. One call at a time.
#pragma once

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/task.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/switchsync/optimistic_switch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace sidelatch::switchsync {

/// The switch's part of a move: functions of OptimisticSwitch, which say more.
class TupleCache {
 public:
  TupleCache() = default;
  TupleCache(const TupleCache&) = delete;
  TupleCache& operator=(const TupleCache&) = delete;
  virtual ~TupleCache() = default;

  [[nodiscard]] virtual bool is_hot(std::uint32_t tuple) = 0;
  [[nodiscard]] virtual bool is_moving(std::uint32_t tuple) = 0;
  [[nodiscard]] virtual std::size_t room() = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> next_hot(std::uint32_t from) = 0;
  [[nodiscard]] virtual bool begin_to_heat(std::uint32_t tuple) = 0;
  virtual void end_to_heat(std::uint32_t tuple, std::uint64_t version) = 0;
  [[nodiscard]] virtual std::optional<std::uint64_t> begin_to_cool(std::uint32_t tuple) = 0;
  virtual void end_to_cool(std::uint32_t tuple) = 0;
  /// give_up_move(), if the tuple still moves.
  virtual void give_up(std::uint32_t tuple) = 0;
};

/// The words of tuples that move, in memory.
class TupleWords {
 public:
  TupleWords() = default;
  TupleWords(const TupleWords&) = delete;
  TupleWords& operator=(const TupleWords&) = delete;
  virtual ~TupleWords() = default;

  /// The word, when all WRITEs of the tuple that were acknowledged are placed.
  [[nodiscard]] virtual fabric::Task<std::uint64_t> read(std::uint32_t tuple) = 0;
  /// It is placed when this returns.
  [[nodiscard]] virtual fabric::Task<void> write(std::uint32_t tuple, std::uint64_t version) = 0;
};

class TupleMoves {
 public:
  /// `memory`: of the tuples of add_tuples(), which returned `first`. `direct` reaches it by the memory node's NIC that
  /// the clients use, and its packets pass as they are (OptimisticSwitch::add_direct()), or not through the switch.
  /// `buffer`: 8 bytes. All outlive this object. Throws std::invalid_argument if the memory or the buffer is too short,
  /// and std::logic_error if the switch has no program that caches.
  TupleMoves(OptimisticSwitch& control, std::uint32_t first, fabric::QueuePair& direct, fabric::RemoteSpan memory,
             fabric::LocalSpan buffer);
  /// For `count` tuples from `first` on. Both outlive this object.
  TupleMoves(TupleCache& cache, TupleWords& words, std::uint32_t first, std::uint64_t count);

  /// The tuple is hot, if this returns true. False: there is no room, and all hot tuples of these are held; or the
  /// tuple moves already. Try again. Throws what the interfaces throw (FabricError), and std::invalid_argument if there
  /// is no such tuple.
  [[nodiscard]] fabric::Task<bool> heat(std::uint32_t tuple);
  /// The tuple is cold, if this returns true. False: it is held, or in doubt, or moves already. Throws as heat().
  [[nodiscard]] fabric::Task<bool> cool(std::uint32_t tuple);

 private:
  void require(std::uint32_t tuple, const char* what) const;
  [[nodiscard]] fabric::Task<bool> make_room();

  std::unique_ptr<TupleCache> own_cache_;
  std::unique_ptr<TupleWords> own_words_;
  TupleCache* cache_;
  TupleWords* words_;
  std::uint32_t first_;
  std::uint64_t count_;
  std::uint32_t hand_ = 0;  // the next one of them that may become cold, as a clock's
};

}  // namespace sidelatch::switchsync
