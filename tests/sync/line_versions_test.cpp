#include <sidelatch/sync/line_versions.h>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace sidelatch::sync::kernels {
namespace {

constexpr Level kLevels[] = {Level::portable, Level::avx2, Level::avx512};

std::vector<std::byte> numbers(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(i * 131 + 7);
  }
  return out;
}

// The place of payload byte i by definition, byte by byte.
std::uint64_t place_of(const RecordShape& shape, std::uint64_t i) {
  const std::uint64_t width = shape.line_versions;
  const std::uint64_t per_line = 64 - width;
  if (!shape.header_last) {
    return i < 48 ? 16 + i : 64 + (i - 48) / per_line * 64 + width + (i - 48) % per_line;
  }
  const std::uint64_t before = (shape.bytes / 64 - 1) * per_line;
  return i < before ? i / per_line * 64 + width + i % per_line : shape.bytes - 64 + (i - before);
}

TEST(LineVersionKernels, EveryLevelScattersAndGathersAsDefined) {
  int levels = 0;
  for (const Level level : kLevels) {
    if (!supported(level)) {
      continue;
    }
    ++levels;
    for (const std::uint32_t width : {2U, 8U}) {
      for (const LayoutKind kind : {LayoutKind::padded, LayoutKind::footer}) {
        for (std::uint64_t bytes = 1; bytes <= 400; ++bytes) {
          const RecordShape shape =
              make_shape({.version = true, .line_versions = width, .header_inside = true}, kind, bytes);
          const std::vector<std::byte> payload = numbers(bytes);
          // Exactly as long as the record and the payload, so that AddressSanitizer detects a byte too many.
          std::vector<std::byte> record(shape.bytes, std::byte{0xee});
          scatter_lines(record, shape, 0x1234567890abcdefULL, payload, level);
          for (std::uint64_t i = 0; i < bytes; ++i) {
            ASSERT_EQ(record[place_of(shape, i)], payload[i]) << name(level) << " " << bytes << " " << i;
          }
          for (std::uint64_t b = 0; b < 16; ++b) {
            ASSERT_EQ(record[shape.header + b], std::byte{0xee}) << "the header is not its business";
          }
          std::vector<std::byte> gathered(bytes);
          ASSERT_TRUE(gather_lines(record, shape, 0x1234567890abcdefULL, gathered, level));
          ASSERT_EQ(gathered, payload) << name(level) << " " << bytes;
        }
      }
    }
  }
  EXPECT_GE(levels, 1);
}

TEST(LineVersionKernels, EveryLevelFindsOneLineOfAnotherVersion) {
  for (const Level level : kLevels) {
    if (!supported(level)) {
      continue;
    }
    for (const std::uint32_t width : {2U, 8U}) {
      const RecordShape shape =
          make_shape({.version = true, .line_versions = width, .header_inside = true}, LayoutKind::padded, 600);
      std::vector<std::byte> record(shape.bytes);
      std::vector<std::byte> payload = numbers(600);
      for (std::uint64_t line = 1; line < shape.lines(); ++line) {
        scatter_lines(record, shape, 77, payload, level);
        record[line * 64] ^= std::byte{1};
        EXPECT_FALSE(gather_lines(record, shape, 77, payload, level)) << name(level) << " line " << line;
      }
    }
  }
}

TEST(LineVersionKernels, TheHighestVersionOfALineIsFound) {
  for (const std::uint32_t width : {2U, 8U}) {
    const RecordShape shape =
        make_shape({.version = true, .line_versions = width, .header_inside = true}, LayoutKind::padded, 300);
    std::vector<std::byte> record(shape.bytes);
    const std::vector<std::byte> payload = numbers(300);
    scatter_lines(record, shape, 70'000, payload);
    EXPECT_EQ(highest_version(record, shape, 70'000), 70'000U);
    EXPECT_EQ(highest_version(record, shape, 70'005), 70'005U);  // the header may be ahead of the lines
    const std::uint64_t ahead = 70'003;
    std::memcpy(record.data() + 128, &ahead, width);
    EXPECT_EQ(highest_version(record, shape, 70'000), 70'003U) << width;
  }
}

TEST(LineVersionKernels, NarrowVersionsCompareTheirLowBits) {
  const RecordShape shape =
      make_shape({.version = true, .line_versions = 2, .header_inside = true}, LayoutKind::padded, 300);
  std::vector<std::byte> record(shape.bytes);
  std::vector<std::byte> payload = numbers(300);
  scatter_lines(record, shape, 5, payload);
  EXPECT_TRUE(gather_lines(record, shape, 5 + 65536, payload));
  EXPECT_FALSE(gather_lines(record, shape, 6, payload));
}

}  // namespace
}  // namespace sidelatch::sync::kernels
