// McsLatch: a queue latch with one mode, in which each client waits on a word of its own memory (Mellor-Crummey and
// Scott, Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors, TOCS 1991). Waiting costs the memory
// node nothing.
//
// The latch word names the last of the queue, by a place of its client (latch_peers.h); 0 is free.
//
//   Acquire  swaps the latch word for the own place: a CAS, again with the word that it has found, until it succeeds.
//            If it was free, the latch is held. Otherwise the client WRITEs its place to its predecessor's memory, and
//            waits until the predecessor has written the turn to its own.
//            speculative: the first CAS and a READ of the object in one doorbell (rule 5, atomic \ READ); the READ
//            counts if the latch was free
//   Release  WRITE of the object, then CAS of the latch word from the own place to free. If that fails there is a
//            successor: the client waits until it has written who it is, and WRITEs it the turn.
//            combined: WRITE and CAS in one doorbell
//
// Why the object is whole when the turn arrives: the CAS is executed after the WRITE is placed (rule 5, WRITE
// \ atomic), under every preset, and its answer comes before the turn is written. A completion of the WRITE alone would
// show that only to READs through the same NIC (rule 2). Without either, the turn may overtake the object, because the
// two go through different queue pairs (rule 7; broken/mcs-early-hand-over).
//
// There is no asynchronous release: who hands over must know how its CAS ended.
//
// Needs SessionOptions::peers: clients reach each other. Deadlines, leases: as TicketLatch. A client that dies, in the
// queue or as holder, stops it. If a connection to a peer is lost, the session keeps what it owes, and settle()
// connects again and repeats the WRITE; the number of the acquisition makes that harmless.
//
// Thread-safety: no state.
#pragma once

#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_peers.h>

#include <string>

namespace sidelatch::sync {

class McsLatch : public Scheme {
 public:
  /// Throws std::invalid_argument for LatchLevel::async.
  explicit McsLatch(LatchLevel level = LatchLevel::combined) : McsLatch(acquire_of(level), release_of(level)) {}
  McsLatch(Acquire acquire, Release release);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {}; }
  [[nodiscard]] bool queues() const noexcept override { return true; }
  [[nodiscard]] bool needs_peers() const noexcept override { return true; }

 protected:
  [[nodiscard]] fabric::Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                                      Takeover takeover) const override;
  [[nodiscard]] fabric::Task<void> commit(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> abort(Hold& hold) const override;
  [[nodiscard]] fabric::Task<ReadGuard> do_begin_read(Session& session, Object object,
                                                      std::source_location place) const override;
  [[nodiscard]] fabric::Task<bool> validate(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> release(Hold& hold) const override;
  [[nodiscard]] fabric::Task<Turn> pass_on(Session& session, OwedLatch& owed) const override;

  /// Throws std::invalid_argument that says what is missing.
  [[nodiscard]] LatchPeers& peers_of(Session& session) const;

 private:
  [[nodiscard]] fabric::Task<void> leave(Hold& hold, const fabric::WorkRequest* write) const;

  Acquire acquire_;
  Release release_;
  std::string name_;
};

}  // namespace sidelatch::sync
