// What the structures share: ending a guard whose object is unchanged, and finding latches that nobody will end.
#pragma once

#include <sidelatch/sync/scheme.h>

namespace sidelatch::structures {

/// Throws std::invalid_argument for a latch with a queue, which none of the structures can use.
const sync::Scheme& without_queue(const sync::Scheme& scheme);

/// Unlatches the object and leaves it unchanged; an empty guard needs nothing. A latch that was taken over must be
/// committed instead: nothing else unlatches it.
[[nodiscard]] fabric::Task<void> leave(sync::ExclusiveGuard& guard);

/// For checkers, of an object that nobody uses: the latch word if the latch stays held, else 0. An owner's latch does
/// not stay held for a session with leases, which takes it over.
[[nodiscard]] fabric::Task<std::uint64_t> stays_latched(const sync::Scheme& scheme, sync::Session& session,
                                                        sync::Object object);

}  // namespace sidelatch::structures
