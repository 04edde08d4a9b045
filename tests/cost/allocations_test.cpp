// No allocation after warm-up. This program replaces operator new to count its own.
#include "cycle.h"

#include "common/sanitizers.h"
#include "nic_operations.h"
#include "tests/paths.h"
#include "verbs_operations.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/switch.h>

#include <gtest/gtest.h>

#include <array>
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
#if SIDELATCH_HAS_ASAN
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
#if SIDELATCH_HAS_ASAN
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

// Both ways of a frame through it: to one port, and to all.
TEST(Allocations, TheP4SwitchMakesNoneOnceWarm) {
  p4::Switch device(p4::compile_file(in_source_tree("p4/l2_l3.p4")), {.ports = 4, .icrc = true});
  p4::TableState& switching = device.state().table("switching");
  switching.add({{.value = 1}}, "forward", {2});
  switching.set_default("flood", {1});
  device.set_multicast_group(1, {{1, 0}, {2, 1}, {3, 3}});
  std::array<std::byte, 200> frame{};
  const auto run = [&](int times) {
    std::size_t departed = 0;
    for (int i = 0; i < times; ++i) {
      frame[5] = static_cast<std::byte>(i % 2);
      device.receive(0, frame);
      device.run();
      while (device.departed()) {
        ++departed;
      }
    }
    return departed;
  };
  run(10);
  const std::uint64_t warm = g_allocations.load();
  EXPECT_GT(warm, 0U) << "nothing is counted";
  EXPECT_EQ(run(10'000), 5000U + 5000U * 2);  // a flooded frame does not go back
  EXPECT_EQ(g_allocations.load(), warm);
}

}  // namespace
}  // namespace sidelatch::sync
