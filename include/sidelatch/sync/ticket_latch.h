// TicketLatch: a latch with one mode that is given in the order of asking. One word holds both counters:
//
//   bits 0-31    the ticket that is served now
//   bits 32-63   the next ticket
//
//   Acquire  FETCH-ADD takes a ticket and shows the one that is served. If they are equal, the latch is held: one
//            request. Otherwise the client READs the word until its ticket is served, then the object. It waits longer
//            the more are before it.
//            speculative: FETCH-ADD and READ of the object in one doorbell (rule 5, atomic \ READ); the READ counts if
//            the ticket was served at once
//   Release  as ExclusiveLatch: WRITE, then FETCH-ADD of 1 on the served ticket; combined and async in one doorbell
//            (rule 5, WRITE \ atomic)
//
// Why the unlatch is a FETCH-ADD. A WRITE of the word erases the ticket of who asks meanwhile; two clients then have
// one ticket (broken/ticket-write-unlatch). A WRITE of the lower half alone is no remedy: a NIC's FETCH-ADD that has
// loaded the word before stores the old half back (rule 8). And under `relaxed` a second WRITE may be placed before the
// first (rule 5), so the latch would be free before the object is whole; an atomic may not.
//
// A free latch has equal counters, so its word is not 0. Ask is_free().
//
// Who waits in the queue cannot leave it. So a session with a deadline does not queue: it takes the latch only when it
// is free and nobody waits, and tries again until the deadline. It never overtakes one who waits. A session with a
// lease is refused (std::invalid_argument): nobody could take the place of a dead client. After a lost connection a
// client whose ticket is known passes the latch on when its turn comes (Session::settle()); a ticket that may or may
// not have been taken is in doubt (Session::in_doubt()).
//
// Thread-safety: no state.
#pragma once

#include <sidelatch/sync/exclusive_latch.h>

#include <string>

namespace sidelatch::sync {

class TicketLatch : public Scheme {
 public:
  explicit TicketLatch(LatchLevel level = LatchLevel::async) : TicketLatch(acquire_of(level), release_of(level)) {}
  TicketLatch(Acquire acquire, Release release);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {}; }
  [[nodiscard]] bool queues() const noexcept override { return true; }
  [[nodiscard]] bool is_free(std::uint64_t word) const noexcept override;

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

 private:
  [[nodiscard]] fabric::Task<void> wait_for_turn(Session& session, Object object, fabric::LocalSpan into,
                                                 std::uint32_t ticket) const;

  ExclusiveLatch unlatcher_;  // its unlatch subtracts what the hold has added
  Acquire acquire_;
  std::string name_;
};

}  // namespace sidelatch::sync
