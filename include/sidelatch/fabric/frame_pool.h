// FramePool: a per-thread pool of coroutine frames in size classes. A warmed-up operation allocates nothing.
//
// Blocks are multiples of 64 bytes up to 4 KiB; larger frames go to operator new. A block may be released on another
// thread than the one that took it: it joins that thread's pool. Under AddressSanitizer the pool is bypassed, so that
// the sanitizer sees uses of freed frames.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define SIDELATCH_POOL_FRAMES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIDELATCH_POOL_FRAMES 0
#endif
#endif
#ifndef SIDELATCH_POOL_FRAMES
#define SIDELATCH_POOL_FRAMES 1
#endif

namespace sidelatch::fabric {

struct FramePoolStats {
  std::uint64_t taken = 0;      ///< blocks handed out by this thread's pool since it began
  std::uint64_t allocated = 0;  ///< of these, how many had to come from operator new
};

namespace detail {

struct FreeFrame {
  FreeFrame* next;
};

inline constexpr std::size_t kFrameGrain = 64;
inline constexpr std::size_t kLargestFrame = 4096;

// Constant-initialized and without destructor: reading them costs next to nothing. A cleaner (frame_pool.cpp), which
// has a destructor, releases their blocks. It is made when a thread takes or gets its first block.
inline constinit thread_local std::array<FreeFrame*, kLargestFrame / kFrameGrain> free_frames{};
inline constinit thread_local FramePoolStats frame_stats{};
inline constinit thread_local bool has_frame_cleaner = false;
// Looked at only where the lists are empty and there is no cleaner.
inline constinit thread_local bool frames_unpooled = false;

}  // namespace detail

class FramePool {
 public:
  [[nodiscard]] static void* take(std::size_t bytes) {
    ++detail::frame_stats.taken;
    if (pooled(bytes)) [[likely]] {
      detail::FreeFrame*& list = list_of(bytes);
      if (list != nullptr) [[likely]] {
        detail::FreeFrame* block = list;
        list = block->next;
        return block;
      }
    }
    return allocate(bytes);
  }
  static void give_back(void* block, std::size_t bytes) noexcept {
    if (pooled(bytes) && detail::has_frame_cleaner) [[likely]] {
      detail::FreeFrame*& list = list_of(bytes);
      list = ::new (block) detail::FreeFrame{list};
      return;
    }
    release(block, bytes);
  }
  /// Counters of the calling thread.
  [[nodiscard]] static FramePoolStats stats() noexcept { return detail::frame_stats; }
  /// For a world that looks at its tasks' memory: while true, the calling thread's frames come from operator new and go
  /// back to operator delete, zeroed or not as these do it. The pool is emptied.
  static void set_unpooled(bool unpooled) noexcept;
  [[nodiscard]] static bool unpooled() noexcept { return detail::frames_unpooled; }

 private:
  [[nodiscard]] static bool pooled(std::size_t bytes) noexcept {
    return SIDELATCH_POOL_FRAMES != 0 && bytes <= detail::kLargestFrame && bytes != 0;
  }
  [[nodiscard]] static detail::FreeFrame*& list_of(std::size_t bytes) noexcept {
    return detail::free_frames[(bytes - 1) / detail::kFrameGrain];
  }
  [[nodiscard]] static void* allocate(std::size_t bytes);
  static void release(void* block, std::size_t bytes) noexcept;
};

/// A coroutine promise that derives from this gets its frame from the pool.
struct PooledFrame {
  [[nodiscard]] static void* operator new(std::size_t bytes) { return FramePool::take(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { FramePool::give_back(block, bytes); }
};

}  // namespace sidelatch::fabric
