#include <sidelatch/fabric/frame_pool.h>

namespace sidelatch::fabric {

namespace {

constinit thread_local bool cleaned = false;

void empty_the_pool() noexcept {
  detail::has_frame_cleaner = false;
  for (detail::FreeFrame*& list : detail::free_frames) {
    while (list != nullptr) {
      detail::FreeFrame* block = list;
      list = block->next;
      ::operator delete(block);
    }
  }
}

struct Cleaner {
  Cleaner() = default;
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;
  ~Cleaner() {
    cleaned = true;
    empty_the_pool();
  }
};

void clean_up_when_the_thread_ends() {
  static thread_local const Cleaner kCleaner;
  static_cast<void>(kCleaner);
  detail::has_frame_cleaner = !cleaned;
}

}  // namespace

void* FramePool::allocate(std::size_t bytes) {
  ++detail::frame_stats.allocated;
  if (!pooled(bytes) || detail::frames_unpooled) {
    return ::operator new(bytes);
  }
  clean_up_when_the_thread_ends();
  return ::operator new((bytes + detail::kFrameGrain - 1) / detail::kFrameGrain * detail::kFrameGrain);
}

// Handles three cases: the first frame to end in a thread that has taken none, a frame that ends after the thread's
// cleaner, and a frame that is not pooled.
void FramePool::release(void* block, std::size_t bytes) noexcept {
  if (!pooled(bytes) || cleaned || detail::frames_unpooled) {
    ::operator delete(block);
    return;
  }
  clean_up_when_the_thread_ends();
  detail::FreeFrame*& list = list_of(bytes);
  list = ::new (block) detail::FreeFrame{list};
}

void FramePool::set_unpooled(bool unpooled) noexcept {
  if (unpooled && detail::has_frame_cleaner) {
    empty_the_pool();
  }
  detail::frames_unpooled = unpooled;
}

}  // namespace sidelatch::fabric
