// Shared by the latches: names, the WRITE of a payload, and the checks around leases.
#pragma once

#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/guard.h>

#include <cstring>
#include <source_location>
#include <string>
#include <string_view>

namespace sidelatch::sync {

/// "basic", "speculative", "combined" or "async"; "basic+async", for example, for other combinations.
[[nodiscard]] std::string level_name(Acquire acquire, Release release);

/// The payload alone, without the latch word.
[[nodiscard]] inline fabric::WorkRequest write_payload(const Hold& hold) {
  const RecordShape& shape = *hold.object.shape;
  return fabric::write(hold.buffer.part(shape.payload, shape.payload_words()),
                       hold.object.part(shape.payload, shape.payload_words()));
}

/// Posts `unlatch`, the request that ends the hold, and waits for it unless `async`.
[[nodiscard]] fabric::Task<void> post_unlatch(Hold& hold, fabric::WorkRequest unlatch, bool async);

/// After a commit failed by `cause`; `posted`: it may have happened; `unlatched`: the unlatch, too. Throws a
/// FabricError of the same status that says what is lost and what is not.
[[noreturn]] void throw_commit_failed(const fabric::FabricError& cause, const Hold& hold, bool posted, bool unlatched);

/// Whether the hold is older than its lease.
[[nodiscard]] bool lease_is_over_now(const Hold& hold);
[[nodiscard]] inline bool lease_is_over(const Hold& hold) {
  return hold.session->has_lease() && lease_is_over_now(hold);
}
[[noreturn]] void throw_lease_expired(const Hold& hold);

/// Makes the memory node end the queue pairs of the holder in `word`. Throws LatchError::takeover_refused, and
/// LatchError::held_by_self if that holder is this session.
[[nodiscard]] fabric::Task<void> revoke_holder(Session& session, Object object, std::uint64_t word);

[[noreturn]] void throw_holder_lost(const Object& object, std::uint64_t word);

/// Throws std::invalid_argument if the session has a lease, which a latch with a queue cannot have.
void refuse_lease(const Session& session, std::string_view scheme);

// The next attempt reads all of these bytes again before it looks at them.
inline void forget_failed_attempt(Session& session, const fabric::LocalSpan& bytes) {
  if (session.qp().reactor().explores()) {
    std::memset(bytes.data, 0xa5, bytes.length);
  }
}

// The next attempt reads all of the buffer again before it looks at it. A world that explores sees that only if no
// bytes of the failed attempt are left.
inline void forget_failed_attempt(Session& session, const ObjectBuffer& buffer) {
  if (session.qp().reactor().explores()) {
    const fabric::LocalSpan all = buffer.part(0, buffer.shape().client_bytes);
    std::memset(all.data, 0xa5, all.length);
  }
}

// An acquisition may end without an outcome: by an exception, or because its task is destroyed. A hold that has its
// word then may have latched the object. One that became a guard has no buffer any more.
class AcquisitionUnderWay {
 public:
  explicit AcquisitionUnderWay(Hold& hold) noexcept : hold_(&hold) {}
  AcquisitionUnderWay(const AcquisitionUnderWay&) = delete;
  AcquisitionUnderWay& operator=(const AcquisitionUnderWay&) = delete;
  ~AcquisitionUnderWay() {
    if (hold_->buffer.valid() && hold_->word != 0 && posting.happened() && !hold_->qp().reactor().abandons_tasks())
        [[unlikely]] {
      leave();
    }
  }
  /// Call it before each attempt that takes a word that is `seen` now; the first may take a free one without it.
  void begin(std::uint64_t seen) noexcept {
    posting = {};
    expected = seen;
    latched = false;
  }

  fabric::Posting posting;  // of the request that latches
  std::uint64_t expected = 0;
  bool latched = false;  // for certain

 private:
  void leave();

  Hold* hold_;
};

// The end of a hold may end without an outcome, too. What was posted happens. The session owes the rest.
class ReleaseUnderWay {
 public:
  /// `write`, `publish`: of a commit; they outlive this object. `free_by_write`: the last of them unlatches.
  explicit ReleaseUnderWay(Hold& hold, const fabric::WorkRequest* write = nullptr,
                           const fabric::WorkRequest* publish = nullptr, bool free_by_write = false) noexcept
      : hold_(&hold), write_(write), publish_(publish), free_by_write_(free_by_write) {}
  ReleaseUnderWay(const ReleaseUnderWay&) = delete;
  ReleaseUnderWay& operator=(const ReleaseUnderWay&) = delete;
  ~ReleaseUnderWay() {
    if (!is_over_ && !hold_->qp().reactor().abandons_tasks()) [[unlikely]] {
      leave();
    }
  }
  void is_over() noexcept { is_over_ = true; }

  fabric::Posting unlatch;  // of the request that unlatches

 private:
  void leave();

  Hold* hold_;
  const fabric::WorkRequest* write_;
  const fabric::WorkRequest* publish_;
  bool free_by_write_;
  bool is_over_ = false;
};

}  // namespace sidelatch::sync
