#include <sidelatch/checker/parallel.h>

#include "parallel_tbb.h"

#include <atomic>
#include <exception>

namespace sidelatch::checker {
namespace {

// oneTBB orders each job after the caller's earlier steps and before its later ones. ThreadSanitizer does not see this,
// because the library is not built with it. `begun` and `ended` repeat the order in terms that it sees. For the same
// reason this code, not oneTBB, carries exceptions to the caller.
struct Loop {
  const std::function<void(std::size_t)>* job;
  std::atomic<bool> begun{false};
  std::atomic<bool> failed{false};
  std::exception_ptr error = nullptr;  // from the job that set `failed`
  std::atomic<std::size_t> ended{0};
};

void run_one(void* context, std::size_t index) {
  Loop& loop = *static_cast<Loop*>(context);
  (void)loop.begun.load(std::memory_order_acquire);
  // A skipped job ends below, too: the caller is ordered after its check of `failed`.
  try {
    if (!loop.failed.load(std::memory_order_relaxed)) {
      (*loop.job)(index);
    }
  } catch (...) {
    if (!loop.failed.exchange(true)) {
      loop.error = std::current_exception();
    }
  }
  loop.ended.fetch_add(1, std::memory_order_release);
}

}  // namespace

void for_each_index(std::size_t count, const std::function<void(std::size_t)>& job) {
  Loop loop{.job = &job};
  loop.begun.store(true, std::memory_order_release);
  tbb_for(count, run_one, &loop);
  (void)loop.ended.load(std::memory_order_acquire);
  if (loop.error) {
    std::rethrow_exception(loop.error);
  }
}

}  // namespace sidelatch::checker
