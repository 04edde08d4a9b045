// Blocks that change threads.
#include "common/sanitizers.h"

#include <sidelatch/fabric/frame_pool.h>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sidelatch::fabric {
namespace {

TEST(FramePoolThreads, ABlockJoinsThePoolOfTheThreadThatReleasesIt) {
  constexpr std::size_t kBytes = 2000;
  std::vector<void*> blocks;
  std::thread([&] {
    for (int i = 0; i < 50; ++i) {
      blocks.push_back(FramePool::take(kBytes));
    }
  }).join();  // its pool has ended, its blocks have not

  FramePoolStats there;
  std::thread([&] {
    for (void* block : blocks) {
      FramePool::give_back(block, kBytes);
    }
    for (void*& block : blocks) {
      block = FramePool::take(kBytes);
    }
    there = FramePool::stats();
    for (void* block : blocks) {
      FramePool::give_back(block, kBytes);
    }
  }).join();
  EXPECT_EQ(there.taken, 50U);
#if SIDELATCH_HAS_ASAN
  EXPECT_EQ(there.allocated, 50U);
#else
  EXPECT_EQ(there.allocated, 0U);
#endif
}

}  // namespace
}  // namespace sidelatch::fabric
