// Words that threads store and load at the same time.
#include "softnic/nic/shared_bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::size_t kVersionBytes = 512;
constexpr int kRounds = 20'000;

// All bytes of a word are equal, whatever its version.
TEST(SharedBytesThreaded, AlignedWordsAreWhole) {
  // 8 bytes off a line, so that words before, in and behind whatever is copied at a time are seen.
  alignas(64) std::array<std::byte, kVersionBytes + 64> memory{};
  std::byte* const shared = memory.data() + 8;
  std::atomic<bool> stops{false};
  std::thread writer([&] {
    std::array<std::byte, kVersionBytes> version{};
    for (unsigned round = 1; !stops.load(std::memory_order_relaxed); ++round) {
      version.fill(static_cast<std::byte>(round));
      static_cast<void>(store_shared(shared, version));
    }
  });
  std::size_t broken = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::array<std::byte, kVersionBytes> read{};
    static_cast<void>(load_shared(read, shared));
    for (std::size_t at = 0; at < kVersionBytes; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, read.data() + at, sizeof word);
      broken += word % 0x0101010101010101 != 0 ? 1U : 0U;
    }
  }
  stops = true;
  writer.join();
  EXPECT_EQ(broken, 0U);
}

// Of 4 bytes, stored and loaded alone: counters of rings. Failed: the bytes of a counter were of two values.
TEST(SharedBytesThreaded, AlignedHalfWordsAreWhole) {
  for (const std::size_t offset : {std::size_t{0}, std::size_t{4}}) {
    alignas(64) std::array<std::byte, 64> memory{};
    std::byte* const shared = memory.data() + offset;
    std::atomic<bool> stops{false};
    std::thread writer([&] {
      for (std::uint32_t round = 1; !stops.load(std::memory_order_relaxed); ++round) {
        std::array<std::byte, 4> version{};
        version.fill(static_cast<std::byte>(round));
        static_cast<void>(store_shared(shared, version));
      }
    });
    std::size_t broken = 0;
    for (int round = 0; round < 10 * kRounds; ++round) {
      std::array<std::byte, 4> read{};
      static_cast<void>(load_shared(read, shared));
      std::uint32_t value = 0;
      std::memcpy(&value, read.data(), sizeof value);
      broken += value % 0x0101'0101 != 0 ? 1U : 0U;
    }
    stops = true;
    writer.join();
    EXPECT_EQ(broken, 0U) << "at offset " << offset;
  }
}

}  // namespace
}  // namespace sidelatch::softnic::nic
