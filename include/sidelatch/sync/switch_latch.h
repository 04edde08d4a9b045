// SwitchLatch: an exclusive latch in a word apart from its object (remote_latches.h): at a switch, which answers after
// half a round trip (TODS 2025, section 5.4). Latch and object are on two queue pairs, so nothing orders their requests
// but waiting:
//
//   step      requests                               why it waits
//   latch     CAS of the word                        a READ that is sent with it may be sampled before it
//   READ      READ of the record
//   WRITE     WRITE of the payload, and a READ       an unlatch that is sent with it may come before it is placed; the
//             behind it in the same doorbell         READ returns when it is (rule 5), also after a revocation (rule
//             10)
//   unlatch   CAS of the word to 0
//
// So the levels of ExclusiveLatch do not carry over: speculative reads and combined unlatches rely on the order within
// one queue pair.
//
// With owner ids and leases a dead holder's latch is taken over as in other schemes. It is enough to revoke the queue
// pair to the object's memory: the unlatch compares, so one that comes late finds another word and changes nothing. An
// owner's words repeat after 2^15 acquisitions, since they have 32 bits.
//
// Needs SessionOptions::latches; without them latch() and begin_read() throw std::invalid_argument. The record's own
// latch word is not used.
//
// Thread-safety: no state.
#pragma once

#include <sidelatch/sync/scheme.h>

namespace sidelatch::sync {

class SwitchLatch : public Scheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "latch-switch"; }
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {}; }
  [[nodiscard]] LatchPlace place() const noexcept override { return LatchPlace::words_at_switch; }

 protected:
  [[nodiscard]] fabric::Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                                      Takeover takeover) const override;
  [[nodiscard]] fabric::Task<void> commit(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> abort(Hold& hold) const override;
  [[nodiscard]] fabric::Task<ReadGuard> do_begin_read(Session& session, Object object,
                                                      std::source_location place) const override;
  [[nodiscard]] fabric::Task<bool> validate(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> release(Hold& hold) const override;
  [[nodiscard]] fabric::Task<std::uint64_t> do_peek(Session& session, Object object) const override;

  /// The request that ends the hold, for the latches' queue pair.
  [[nodiscard]] static fabric::WorkRequest unlatch_of(const Hold& hold);
};

}  // namespace sidelatch::sync
