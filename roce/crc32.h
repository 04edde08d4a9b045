// Fast CRC-32 of Ethernet (IEEE 802.3: polynomial 0x04c11db7, reflected), which the ICRC uses.
//
//   std::uint32_t state = crc32_extend(kCrc32Start, header);
//   state = crc32_copy(state, packet, payload);          // copies, and covers the copied bytes
//   const std::uint32_t crc = crc32_finish(state);
//
// What is fastest is chosen at run time. Where the CPU multiplies without carry 512 bits at a time (AVX-512 and
// VPCLMULQDQ), that is ISA-L, for long inputs. With PCLMULQDQ alone ISA-L is not faster (docs/performance.md), and it
// cannot copy in the same pass, so this file folds itself. Else there are tables. All levels give the same values.
// Source of the folding: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel, 2009; of the tables: M. Kounavis, F. Berry, "A Systematic Approach to Building High Performance,
// Software-Based, CRC Generators", ISCC 2005.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sidelatch::roce {

/// The state before the first byte: all ones. Between calls the state is not inverted.
inline constexpr std::uint32_t kCrc32Start = 0xffffffff;

/// isal: as pclmul below kIsalFrom bytes.
enum class Crc32Level : std::uint8_t { portable, pclmul, isal };
inline constexpr std::size_t kIsalFrom = 256;
[[nodiscard]] std::string_view name(Crc32Level level);
/// Whether this CPU supports the level.
[[nodiscard]] bool supported(Crc32Level level);
/// The fastest level on this CPU.
[[nodiscard]] Crc32Level best_crc32_level();

/// The state after `bytes`.
[[nodiscard]] std::uint32_t crc32_extend(std::uint32_t state, std::span<const std::byte> bytes,
                                         Crc32Level level = best_crc32_level());
/// Copies `from` to the same number of bytes at `to`, and returns the state after them. The state is that of the bytes
/// at `to` even if `from` is written concurrently; `to` must not be. The two must not overlap.
[[nodiscard]] std::uint32_t crc32_copy(std::uint32_t state, std::byte* to, std::span<const std::byte> from,
                                       Crc32Level level = best_crc32_level());

/// The checksum itself: the state inverted.
[[nodiscard]] constexpr std::uint32_t crc32_finish(std::uint32_t state) noexcept { return ~state; }

}  // namespace sidelatch::roce
