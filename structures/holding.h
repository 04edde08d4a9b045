// What the structures do with latches: look at one, and end a guard whose object stays as it is.
#pragma once

#include <sidelatch/sync/scheme.h>

#include <cstdint>

namespace sidelatch::structures {

/// The object's latch word, without waiting for whoever holds it.
[[nodiscard]] fabric::Task<std::uint64_t> read_latch(sync::Session& session, sync::Object object);

/// Unlatches, and leaves the object as it was; nothing to do for an empty guard. What was taken over must be committed:
/// nothing else unlatches it.
[[nodiscard]] fabric::Task<void> leave(sync::ExclusiveGuard& guard);

}  // namespace sidelatch::structures
