// The hash algorithms of v1model, over bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::p4 {

/// By the numbers of v1model's HashAlgorithm.
enum class HashAlgorithm : std::uint8_t { crc32 = 0, crc16 = 2, identity = 5, csum16 = 6, xor16 = 7 };

/// crc32: of Ethernet. crc16: CRC-16/ARC (polynomial 0x8005, reflected). identity: the first eight bytes as a number.
/// csum16: of RFC 1071. xor16: all 16-bit words. `more` follows `bytes`; an odd last byte is the upper half of a word.
[[nodiscard]] std::uint64_t hash(HashAlgorithm algorithm, std::span<const std::byte> bytes,
                                 std::span<const std::byte> more = {}) noexcept;

}  // namespace sidelatch::p4
