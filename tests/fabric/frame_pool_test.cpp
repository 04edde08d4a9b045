// The pool of coroutine frames. Under AddressSanitizer it hands every block to operator new, by design.
#include "common/sanitizers.h"

#include <sidelatch/fabric/frame_pool.h>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace sidelatch::fabric {
namespace {

#if SIDELATCH_HAS_ASAN
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif

FramePoolStats since(const FramePoolStats& before) {
  const FramePoolStats now = FramePool::stats();
  return {now.taken - before.taken, now.allocated - before.allocated};
}

TEST(FramePools, ABlockOfTheSameSizeClassIsReused) {
  // 3000 and 3008 bytes are both 47 grains of 64.
  FramePool::give_back(FramePool::take(3000), 3000);
  const FramePoolStats before = FramePool::stats();
  for (int i = 0; i < 100; ++i) {
    void* block = FramePool::take(3008);
    std::memset(block, 1, 3008);
    FramePool::give_back(block, 3008);
  }
  EXPECT_EQ(since(before).taken, 100U);
  EXPECT_EQ(since(before).allocated, kPooled ? 0U : 100U);
}

TEST(FramePools, BlocksThatAreHeldAreDistinctAndUsableToTheirLastByte) {
  std::vector<void*> blocks;
  for (const std::size_t bytes : {1UL, 63UL, 64UL, 65UL, 4095UL, 4096UL, 4097UL, 100'000UL}) {
    for (int i = 0; i < 3; ++i) {
      void* block = FramePool::take(bytes);
      std::memset(block, static_cast<int>(blocks.size()), bytes);
      blocks.push_back(block);
    }
  }
  std::size_t index = 0;
  for (const std::size_t bytes : {1UL, 63UL, 64UL, 65UL, 4095UL, 4096UL, 4097UL, 100'000UL}) {
    for (int i = 0; i < 3; ++i, ++index) {
      const auto* block = static_cast<const unsigned char*>(blocks[index]);
      EXPECT_EQ(block[0], index);
      EXPECT_EQ(block[bytes - 1], index);
      FramePool::give_back(blocks[index], bytes);
    }
  }
}

TEST(FramePools, ABlockAboveFourKibibytesIsNotKept) {
  const FramePoolStats before = FramePool::stats();
  for (int i = 0; i < 10; ++i) {
    FramePool::give_back(FramePool::take(4097), 4097);
  }
  EXPECT_EQ(since(before).allocated, 10U);
}

}  // namespace
}  // namespace sidelatch::fabric
