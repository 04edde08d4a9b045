// CRC64 by tables, as programs have it that do not use carry-less multiplication: the baseline of this library's
// kernels, and what the papers' clients do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sidelatch::bench::micro {

/// Slicing by eight: eight tables of 256 entries, eight bytes per step. It computes the same CRC as the library.
class TableCrc64 {
 public:
  TableCrc64() {
    constexpr std::uint64_t kReflected = 0xc96c5795d7870f42;
    for (std::uint64_t byte = 0; byte < 256; ++byte) {
      std::uint64_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc & 1) != 0 ? (crc >> 1) ^ kReflected : crc >> 1;
      }
      tables_[0][byte] = crc;
    }
    for (std::size_t t = 1; t < 8; ++t) {
      for (std::size_t byte = 0; byte < 256; ++byte) {
        tables_[t][byte] = (tables_[t - 1][byte] >> 8) ^ tables_[0][tables_[t - 1][byte] & 0xff];
      }
    }
  }
  [[nodiscard]] std::uint64_t operator()(std::span<const std::byte> bytes) const {
    std::uint64_t crc = ~std::uint64_t{0};
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, 8);
      word ^= crc;
      // Written out: as a loop, some compilers make vectors of the lookups, which are slower.
      crc = tables_[7][word & 0xff] ^ tables_[6][(word >> 8) & 0xff] ^ tables_[5][(word >> 16) & 0xff] ^
            tables_[4][(word >> 24) & 0xff] ^ tables_[3][(word >> 32) & 0xff] ^ tables_[2][(word >> 40) & 0xff] ^
            tables_[1][(word >> 48) & 0xff] ^ tables_[0][word >> 56];
    }
    for (; i < bytes.size(); ++i) {
      crc = (crc >> 8) ^ tables_[0][(crc ^ static_cast<std::uint64_t>(bytes[i])) & 0xff];
    }
    return ~crc;
  }

 private:
  std::array<std::array<std::uint64_t, 256>, 8> tables_{};
};

}  // namespace sidelatch::bench::micro
