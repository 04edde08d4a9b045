// No allocation after warm-up. This program counts its own: operator new is replaced.
#include "cycle.h"
#include "nic_operations.h"
#include "verbs_operations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::uint64_t> g_allocations{0};

void* counted(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

namespace sidelatch::sync {
namespace {

TEST(Allocations, AnExclusiveCycleMakesNoneOnceWarm) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "frames are not pooled under AddressSanitizer, so that it sees their use after their end";
#endif
  Cycle cycle;
  const std::uint64_t cold = g_allocations.load();
  cycle.run_latched(1000);
  const std::uint64_t warm = g_allocations.load();
  EXPECT_GT(warm, cold) << "nothing is counted";
  cycle.run_latched(100'000);
  EXPECT_EQ(g_allocations.load(), warm);
}

TEST(Allocations, OperationsOverVerbsMakeNoneOnceWarm) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "frames are not pooled under AddressSanitizer, so that it sees their use after their end";
#endif
  fabric::verbs::Operations operations;
  const auto run_all = [&](int times) {
    operations.run_reads(times);
    operations.run_writes(times);
    operations.run_atomics(times);
    operations.run_chains(times);
  };
  const std::uint64_t cold = g_allocations.load();
  run_all(1000);
  const std::uint64_t warm = g_allocations.load();
  EXPECT_GT(warm, cold) << "nothing is counted";
  run_all(25'000);
  EXPECT_EQ(g_allocations.load(), warm);
}

TEST(Allocations, TheSoftwareNicMakesNoneOnceWarm) {
  softnic::nic::NicOperations operations;
  operations.run(10);
  const std::uint64_t warm = g_allocations.load();
  EXPECT_GT(warm, 0U) << "nothing is counted";
  operations.run(10'000);
  EXPECT_EQ(g_allocations.load(), warm);
}

}  // namespace
}  // namespace sidelatch::sync
