#include <sidelatch/fabric/frame_pool.h>

#include <array>
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

namespace {

constexpr bool kPooled = SIDELATCH_POOL_FRAMES != 0;
constexpr std::size_t kGrain = 64;
constexpr std::size_t kLargest = 4096;

struct FreeBlock {
  FreeBlock* next;
};

struct ThreadPool {
  std::array<FreeBlock*, kLargest / kGrain> free{};
  FramePoolStats stats;

  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() {
    for (FreeBlock*& list : free) {
      while (list != nullptr) {
        FreeBlock* block = list;
        list = block->next;
        ::operator delete(block);
      }
    }
  }
};

thread_local ThreadPool pool;

constexpr std::size_t size_class(std::size_t bytes) { return (bytes - 1) / kGrain; }

}  // namespace

void* FramePool::take(std::size_t bytes) {
  ++pool.stats.taken;
  if (kPooled && bytes <= kLargest && bytes != 0) {
    FreeBlock*& list = pool.free[size_class(bytes)];
    if (list != nullptr) {
      FreeBlock* block = list;
      list = block->next;
      return block;
    }
    ++pool.stats.allocated;
    return ::operator new((size_class(bytes) + 1) * kGrain);
  }
  ++pool.stats.allocated;
  return ::operator new(bytes);
}

void FramePool::give_back(void* block, std::size_t bytes) noexcept {
  if (kPooled && bytes <= kLargest && bytes != 0) {
    FreeBlock*& list = pool.free[size_class(bytes)];
    auto* freed = ::new (block) FreeBlock{list};
    list = freed;
    return;
  }
  ::operator delete(block);
}

FramePoolStats FramePool::stats() noexcept { return pool.stats; }

}  // namespace sidelatch::fabric
