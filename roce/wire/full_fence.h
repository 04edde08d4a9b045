// The fence of Dekker's pattern: one side writes A and reads B, the other writes B and reads A, and at least one of
// them sees the other's write. Release and acquire alone do not give that.
#pragma once

#include <atomic>

namespace sidelatch::roce {

inline void full_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not support fences, and GCC rejects them under it. Its runtime orders atomic operations.
  static std::atomic<int> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace sidelatch::roce
