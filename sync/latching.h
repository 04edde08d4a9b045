// What the latches share: names, the WRITE of a payload, and the checks around leases.
#pragma once

#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/guard.h>

#include <string_view>

namespace sidelatch::sync {

/// "basic", "speculative", "combined" or "async"; for other combinations "basic+async", say.
[[nodiscard]] std::string_view level_name(Acquire acquire, Release release);

/// The payload alone, without the latch word.
[[nodiscard]] fabric::WorkRequest write_payload(const Hold& hold);

/// Throws LatchError::lease_expired if the hold is older than its lease allows.
void check_lease(const Hold& hold);
inline void require_lease(const Hold& hold) {
  if (hold.session->has_lease()) {
    check_lease(hold);
  }
}

/// Has the memory node end the queue pairs of the holder in `word`, once. Throws LatchError::takeover_refused.
[[nodiscard]] fabric::Task<void> revoke_holder(Session& session, Object object, std::uint64_t word);

[[noreturn]] void throw_holder_lost(const Object& object, std::uint64_t word);

}  // namespace sidelatch::sync
