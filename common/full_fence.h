// The fence of Dekker's pattern: one side writes A and reads B, the other writes B and reads A, and at least one of
// them sees the other's write. Release and acquire alone do not give that.
#pragma once

#include "common/sanitizers.h"

#include <atomic>

namespace sidelatch {

inline void full_fence() noexcept {
#if SIDELATCH_HAS_TSAN
  // ThreadSanitizer does not know fences, and GCC refuses them under it. Its own runtime orders what it sees.
  static std::atomic<int> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace sidelatch
