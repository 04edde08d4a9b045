// ExclusiveLatch: a latch with one mode, by compare-and-swap, and the optimizations of its four steps.
//
//   step      CAS latch   READ object   WRITE payload   unlatch
//   Acquire   basic:       CAS, wait, READ, wait
//             speculative: CAS and READ in one doorbell: the atomic is executed before the READ (rule 5)
//   Release   basic:       WRITE, wait, FETCH-ADD, wait
//             combined:    WRITE and FETCH-ADD in one doorbell: the WRITE is placed before the atomic (rule 5)
//             async:       the same, but nobody waits: the buffer is reused when a later completion shows it is free
//   WriteUnlatch           one WRITE of payload and latch, which has the highest address: lines are placed in ascending
//                          order (rule 3, `observed` only). Needs a footer layout.
//
// Acquire and Release combine freely; the paper's levels are "basic", "speculative" (with basic release), "combined"
// and "async" (both with speculative acquisition).
//
// Write unlatch works because the latch is taken only by CAS: a failed CAS stores nothing, so it cannot bring the
// latched word back (rule 8). On a latch to which others add, the unlatch could be lost; RwLatch therefore does not use
// it.
//
// An unlatch subtracts the word that the acquisition stored. Source: TODS 2025, sections 3.1 and 3.3, figures 3 and 7.
//
// Thread-safety: no state.
#pragma once

#include <sidelatch/sync/scheme.h>

#include <optional>
#include <string>

namespace sidelatch::sync {

enum class Acquire : std::uint8_t { basic, speculative };
enum class Release : std::uint8_t { basic, combined, async };
enum class WriteUnlatch : std::uint8_t { awaited, async };

/// The levels that TODS 2025, figure 8, compares; each adds one optimization.
enum class LatchLevel : std::uint8_t { basic, speculative, combined, async };
[[nodiscard]] std::string_view name(LatchLevel level);
[[nodiscard]] constexpr Acquire acquire_of(LatchLevel level) {
  return level == LatchLevel::basic ? Acquire::basic : Acquire::speculative;
}
[[nodiscard]] constexpr Release release_of(LatchLevel level) {
  return level == LatchLevel::async      ? Release::async
         : level == LatchLevel::combined ? Release::combined
                                         : Release::basic;
}

class ExclusiveLatch final : public Scheme {
 public:
  explicit ExclusiveLatch(LatchLevel level = LatchLevel::async)
      : ExclusiveLatch(acquire_of(level), release_of(level)) {}
  ExclusiveLatch(Acquire acquire, Release release);
  ExclusiveLatch(Acquire acquire, WriteUnlatch unlatch);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {}; }
  [[nodiscard]] LayoutKind default_layout() const noexcept override {
    return write_unlatch_ ? LayoutKind::padded_footer : LayoutKind::padded;
  }

  /// For schemes whose writers latch exclusively. Latches for `scheme` and reads the record, and the header if it is
  /// decoupled; empty if the deadline passed.
  [[nodiscard]] fabric::Task<ExclusiveGuard> acquire(const Scheme& scheme, Session& session, Object object,
                                                     std::source_location place, Takeover takeover) const;
  /// Posts the WRITE and the unlatch. With write unlatch the WRITE must be the whole record. Throws
  /// LatchError::lease_expired before anything is posted.
  [[nodiscard]] fabric::Task<void> write_and_unlatch(Hold& hold, fabric::WorkRequest write) const;
  /// The same for a WRITE and a second request, a WRITE or an atomic, that makes the first current; always in one
  /// doorbell.
  [[nodiscard]] fabric::Task<void> write_and_unlatch(Hold& hold, fabric::WorkRequest write,
                                                     fabric::WorkRequest publish) const;
  /// Only unlatches.
  [[nodiscard]] fabric::Task<void> unlatch(Hold& hold) const;
  [[nodiscard]] bool unlatches_by_write() const noexcept { return write_unlatch_.has_value(); }

 protected:
  [[nodiscard]] fabric::Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                                      Takeover takeover) const override;
  [[nodiscard]] fabric::Task<void> commit(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> abort(Hold& hold) const override;
  [[nodiscard]] fabric::Task<ReadGuard> do_begin_read(Session& session, Object object,
                                                      std::source_location place) const override;
  [[nodiscard]] fabric::Task<bool> validate(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> release(Hold& hold) const override;

 private:
  [[nodiscard]] fabric::Task<void> give_up(Hold& hold) const;
  [[nodiscard]] bool is_async() const noexcept {
    return write_unlatch_ ? *write_unlatch_ == WriteUnlatch::async : release_ == Release::async;
  }
  [[nodiscard]] fabric::Task<void> commit_async(Hold& hold) const;

  Acquire acquire_;
  Release release_;
  std::optional<WriteUnlatch> write_unlatch_;
  std::string name_;
};

}  // namespace sidelatch::sync
