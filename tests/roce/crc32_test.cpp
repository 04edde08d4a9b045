// Every level of the CRC against its definition, bit by bit.
#include "roce/crc32.h"

#include "tests/roce/samples.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace sidelatch::roce {
namespace {

constexpr Crc32Level kLevels[] = {Crc32Level::portable, Crc32Level::pclmul, Crc32Level::isal};

std::uint32_t by_definition(std::uint32_t state, std::span<const std::byte> bytes) {
  constexpr std::uint32_t kPolynomial = 0x04c11db7;
  // Not reflected: the state turned around, and each byte's lowest bit first.
  const auto reversed = [](std::uint32_t value) {
    std::uint32_t out = 0;
    for (unsigned bit = 0; bit < 32; ++bit) {
      out |= (value >> bit & 1) << (31 - bit);
    }
    return out;
  };
  std::uint32_t remainder = reversed(state);
  for (const std::byte byte : bytes) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::uint32_t next = std::to_integer<std::uint32_t>(byte) >> bit & 1;
      const bool divides = ((remainder >> 31) ^ next) != 0;
      remainder = divides ? (remainder << 1) ^ kPolynomial : remainder << 1;
    }
  }
  return reversed(remainder);
}

TEST(Crc32, HasThePublishedCheckValue) {
  // The CRC-32 (IEEE 802.3) of "123456789" in catalogues of CRCs.
  const std::string_view digits = "123456789";
  for (const Crc32Level level : kLevels) {
    if (supported(level)) {
      EXPECT_EQ(crc32_finish(crc32_extend(kCrc32Start, std::as_bytes(std::span(digits)), level)), 0xcbf43926U)
          << name(level);
    }
  }
}

TEST(Crc32, EveryLevelIsTheDefinitionAtEveryLength) {
  int levels = 0;
  for (const Crc32Level level : kLevels) {
    if (!supported(level)) {
      continue;
    }
    ++levels;
    for (std::size_t length = 0; length <= 300; ++length) {
      // Exactly this long, so that AddressSanitizer detects a byte too many.
      const Bytes from = payload_of(length);
      Bytes to(length, std::byte{0xee});
      const std::uint32_t expected = by_definition(0x89abcdef, from);
      ASSERT_EQ(crc32_extend(0x89abcdef, from, level), expected) << name(level) << " " << length;
      ASSERT_EQ(crc32_copy(0x89abcdef, to.data(), from, level), expected) << name(level) << " " << length;
      ASSERT_EQ(to, from) << name(level) << " " << length;
    }
  }
  EXPECT_GE(levels, 1);
}

TEST(Crc32, AddressesNeedNoAlignment) {
  const Bytes bytes = payload_of(5000);
  for (const Crc32Level level : kLevels) {
    for (std::size_t offset = 0; supported(level) && offset < 20; ++offset) {
      const auto part = std::span(bytes).subspan(offset, 4096 + offset);
      Bytes to(part.size() + 33);
      EXPECT_EQ(crc32_copy(kCrc32Start, to.data() + 33 - offset, part, level), by_definition(kCrc32Start, part));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), to.begin() + 33 - static_cast<std::ptrdiff_t>(offset)));
    }
  }
}

TEST(Crc32, PartsAreAsTheWhole) {
  const Bytes bytes = payload_of(1000);
  for (const Crc32Level level : kLevels) {
    for (std::size_t cut = 0; supported(level) && cut <= bytes.size(); cut += 13) {
      const std::uint32_t first = crc32_extend(kCrc32Start, std::span(bytes).first(cut), level);
      EXPECT_EQ(crc32_extend(first, std::span(bytes).subspan(cut), level), by_definition(kCrc32Start, bytes)) << cut;
    }
  }
}

TEST(Crc32, TheBestLevelIsOneThatTheCpuHas) {
  EXPECT_TRUE(supported(Crc32Level::portable));
  EXPECT_TRUE(supported(best_crc32_level()));
  EXPECT_TRUE(best_crc32_level() != Crc32Level::portable || !supported(Crc32Level::pclmul));
}

// A READ's answer is made from memory that others write to meanwhile. The writer is another process, so that
// ThreadSanitizer does not report this intended race.
TEST(Crc32, ACopyIsCoveredAsItWasTakenWhileItsSourceChanges) {
  constexpr std::size_t kLength = 4096;
  void* const shared = ::mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const words = static_cast<std::uint64_t*>(shared);
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    for (std::uint64_t round = 1;; ++round) {
      for (std::size_t i = 0; i < kLength / 8; ++i) {
        std::atomic_ref(words[i]).store(round * 0x9e3779b97f4a7c15, std::memory_order_relaxed);
      }
    }
  }
  const std::span from(static_cast<const std::byte*>(shared), kLength);
  Bytes to(kLength);
  for (const Crc32Level level : kLevels) {
    int mixtures = 0;
    for (int i = 0; supported(level) && i < 200'000 && mixtures < 20'000; ++i) {
      const std::uint32_t state = crc32_copy(kCrc32Start, to.data(), from, level);
      const bool is_mixture = std::memcmp(to.data(), to.data() + kLength - 8, 8) != 0;
      if (is_mixture) {
        ++mixtures;
        EXPECT_EQ(state, crc32_extend(kCrc32Start, to, level)) << name(level);
      }
    }
    std::printf("%s: %d copies were mixtures\n", std::string(name(level)).c_str(), mixtures);
  }
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  ::munmap(shared, kLength);
}

}  // namespace
}  // namespace sidelatch::roce
