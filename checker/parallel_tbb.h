// The only caller of oneTBB's loops. Its source is built without ThreadSanitizer, like the library it calls (see
// cmake/SidelatchLibrary.cmake). It uses no std::function, whose code would be shared with sources built with the
// sanitizer.
#pragma once

#include <cstddef>

namespace sidelatch::checker {

using TbbJob = void (*)(void* context, std::size_t index);

/// Calls `job(context, 0)` to `job(context, count - 1)`, each once, and returns when all have ended.
void tbb_for(std::size_t count, TbbJob job, void* context);

}  // namespace sidelatch::checker
