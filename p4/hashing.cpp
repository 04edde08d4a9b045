#include <sidelatch/p4/hashing.h>

#include "roce/big_endian.h"
#include "roce/crc32.h"

#include <array>

namespace sidelatch::p4 {

namespace {

constexpr std::array<std::uint16_t, 256> kCrc16 = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0xa001 : crc >> 1;
    }
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

// The sum of 16-bit words, to be folded. A sum of larger words folds to the same, because 2^16 is 1 modulo 0xffff.
std::uint64_t sum_of_words(const std::byte* bytes, std::size_t count) {
  std::uint64_t sum = 0;
  for (; count >= 4; bytes += 4, count -= 4) {
    sum += roce::load32(bytes);
  }
  if (count >= 2) {
    sum += roce::load16(bytes);
    bytes += 2;
    count -= 2;
  }
  return count == 0 ? sum : sum + (std::to_integer<std::uint64_t>(*bytes) << 8);
}

// Calls `take` with every 16-bit word of the two parts as one sequence.
template <class Take>
void words(std::span<const std::byte> bytes, std::span<const std::byte> more, Take take) {
  bool upper = true;
  unsigned word = 0;
  for (const std::span<const std::byte> part : {bytes, more}) {
    for (const std::byte byte : part) {
      if (upper) {
        word = std::to_integer<unsigned>(byte) << 8;
      } else {
        take(word | std::to_integer<unsigned>(byte));
      }
      upper = !upper;
    }
  }
  if (!upper) {
    take(word);
  }
}

}  // namespace

std::uint64_t hash(HashAlgorithm algorithm, std::span<const std::byte> bytes,
                   std::span<const std::byte> more) noexcept {
  switch (algorithm) {
    case HashAlgorithm::crc32:
      return roce::crc32_finish(roce::crc32_extend(roce::crc32_extend(roce::kCrc32Start, bytes), more));
    case HashAlgorithm::crc16: {
      unsigned crc = 0;
      for (const std::span<const std::byte> part : {bytes, more}) {
        for (const std::byte byte : part) {
          crc = (crc >> 8) ^ kCrc16[(crc ^ std::to_integer<unsigned>(byte)) & 0xff];
        }
      }
      return crc;
    }
    case HashAlgorithm::identity: {
      std::uint64_t value = 0;
      for (std::size_t i = 0; i < bytes.size() && i < 8; ++i) {
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
      }
      return value;
    }
    case HashAlgorithm::csum16: {
      std::uint64_t sum = 0;
      if (bytes.size() % 2 == 0) {
        sum = sum_of_words(bytes.data(), bytes.size()) + sum_of_words(more.data(), more.size());
      } else {
        words(bytes, more, [&](unsigned word) { sum += word; });
      }
      while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
      }
      return ~sum & 0xffff;
    }
    case HashAlgorithm::xor16: {
      unsigned value = 0;
      words(bytes, more, [&](unsigned word) { value ^= word; });
      return value;
    }
  }
  return 0;
}

}  // namespace sidelatch::p4
