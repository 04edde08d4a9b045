// What the structures share: ending a guard whose object is unchanged.
#pragma once

#include <sidelatch/sync/scheme.h>

namespace sidelatch::structures {

/// Throws std::invalid_argument for a latch with a queue, which none of the structures can use.
const sync::Scheme& without_queue(const sync::Scheme& scheme);

/// Unlatches the object and leaves it unchanged; an empty guard needs nothing. A latch that was taken over must be
/// committed instead: nothing else unlatches it.
[[nodiscard]] fabric::Task<void> leave(sync::ExclusiveGuard& guard);

}  // namespace sidelatch::structures
