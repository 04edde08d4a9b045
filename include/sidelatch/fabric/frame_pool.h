// Where coroutine frames live: a per-thread pool of size classes, so that a warmed-up operation allocates nothing.
//
// Blocks are multiples of 64 bytes up to 4 KiB; larger frames go to operator new. A block may be released on another
// thread than the one that took it: it joins that thread's pool. Under AddressSanitizer the pool is bypassed, so that a
// frame used after its end is seen.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sidelatch::fabric {

struct FramePoolStats {
  std::uint64_t taken = 0;      ///< blocks handed out by this thread's pool since it began
  std::uint64_t allocated = 0;  ///< of these, how many had to come from operator new
};

class FramePool {
 public:
  [[nodiscard]] static void* take(std::size_t bytes);
  static void give_back(void* block, std::size_t bytes) noexcept;
  /// Counters of the calling thread.
  [[nodiscard]] static FramePoolStats stats() noexcept;
};

/// A coroutine promise that derives from this gets its frame from the pool.
struct PooledFrame {
  [[nodiscard]] static void* operator new(std::size_t bytes) { return FramePool::take(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { FramePool::give_back(block, bytes); }
};

}  // namespace sidelatch::fabric
