// SwitchedVersion: optimistic reads whose versions and latches are at the switch before the memory node
// (p4/switch_optimistic.p4; TODS 2025, section 5.5).
//
//   operation   requests, each after the answer of the one before
//   read        READ of the record: its word is the version if nobody else had it latched meanwhile; else it is odd
//   validate    READ of the word, which the switch answers
//   latch       READ of the record, CAS of the word from v to v + 1, which the switch answers
//   commit      WRITE of the record; the switch puts v + 2 into its word, and unlatches when the answer passes it
//   abort       CAS of the word from v + 1 to v
//
// The READ comes before the CAS because the latch at the switch waits for nothing at the memory node, and a READ does:
// the memory node may have acknowledged the WRITE before and not placed it (memory model, rules 2 and 7).
//
// The switch keeps one request of a queue pair in flight, so a session and its queue pair must not be used for anything
// else meanwhile, and guards of one session end one after the other. The session's next request waits for what a
// destroyed task has left in flight. A record is one packet at most, and lies on a slot of 2^n bytes:
// LayoutKind::slotted.
//
// There are no leases: the switch knows who holds what, and its control plane ends clients that have died
// (switchsync/optimistic_switch.h). A session with an owner id is refused. If the queue pair fails, so has its
// connection at the switch; what it had latched is given back there, too. A guard that is dropped while the queue
// pair works is given back by the session's next operation, settle(), close() or end.
//
// On a memory node without the switch all of this would run, and readers would accept torn records. So a session says
// that its queue pair passes one: SessionOptions::versions_at_switch. Else std::invalid_argument.
//
// Thread-safety: no state.
#pragma once

#include <sidelatch/sync/scheme.h>

namespace sidelatch::sync {

class SwitchedVersion final : public Scheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "optimistic/switch"; }
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.header_inside = true, .slot = true}; }
  [[nodiscard]] LayoutKind default_layout() const noexcept override { return LayoutKind::slotted; }
  [[nodiscard]] LatchPlace place() const noexcept override { return LatchPlace::tuples_at_switch; }
  /// The switch's tuples are of one size; other records are latched at the memory node.
  [[nodiscard]] const Scheme& for_single_records() const noexcept override;

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
};

}  // namespace sidelatch::sync
