#include "crc32.h"

#include <isa-l/crc.h>

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sidelatch::roce {

namespace {

// Reflected: the highest power of x is the lowest bit, and the first bit of a message is the lowest of its byte.
constexpr std::uint32_t kPolynomial = 0xedb88320;

// Slicing by 8: table t holds the remainder of a byte that t more bytes follow.
constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

constexpr Tables kTables = [] {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    }
    tables[0][byte] = crc;
  }
  for (std::size_t t = 1; t < kSlices; ++t) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tables[t][byte] = (tables[t - 1][byte] >> 8) ^ tables[0][tables[t - 1][byte] & 0xff];
    }
  }
  return tables;
}();

enum class Copying : bool { no, yes };

// The word at `from` + `offset`. Loads each byte once: the stored bytes and the covered bytes must be the same. `to` is
// used only when copying.
template <class Word, Copying Copy>
Word take(const std::byte* from, std::byte* to, std::size_t offset) {
  Word word{};
  std::memcpy(&word, from + offset, sizeof word);
  if constexpr (Copy == Copying::yes) {
    // Keeps the compiler from loading again for the store.
    asm volatile("" : "+r"(word));
    std::memcpy(to + offset, &word, sizeof word);
  }
  return word;
}

// Bytes `i` to `length`. Shifting assumes that the lowest address holds the lowest bits, as on x86-64 and every other
// target of this project.
template <Copying Copy>
std::uint32_t portable(std::uint32_t state, std::byte* to, const std::byte* from, std::size_t length,
                       std::size_t i = 0) {
  for (; i + kSlices <= length; i += kSlices) {
    const std::uint64_t word = take<std::uint64_t, Copy>(from, to, i) ^ state;
    state = 0;
    for (std::size_t t = 0; t < kSlices; ++t) {
      state ^= kTables[kSlices - 1 - t][(word >> (8 * t)) & 0xff];
    }
  }
  if (i + 4 <= length) {
    const std::uint32_t word = take<std::uint32_t, Copy>(from, to, i) ^ state;
    state = 0;
    for (std::size_t t = 0; t < 4; ++t) {
      state ^= kTables[3 - t][(word >> (8 * t)) & 0xff];
    }
    i += 4;
  }
  for (; i < length; ++i) {
    state = (state >> 8) ^ kTables[0][(state ^ take<std::uint8_t, Copy>(from, to, i)) & 0xff];
  }
  return state;
}

#if defined(__x86_64__)

// x^n modulo the polynomial, reflected to 33 bits for a carry-less multiplication: the product of reflected numbers
// lies one bit lower than that of ordinary numbers.
constexpr std::int64_t power_of_x(unsigned n) {
  std::uint32_t power = 0x80000000;  // x^0
  for (unsigned i = 0; i < n; ++i) {
    power = (power & 1) != 0 ? (power >> 1) ^ kPolynomial : power >> 1;
  }
  return static_cast<std::int64_t>(std::uint64_t{power} << 1);
}

constexpr unsigned kLaneBits = 128;
constexpr std::size_t kLane = kLaneBits / 8;
constexpr std::size_t kLanes = 4;  // folded side by side, to hide the latency of the multiplication

// Moves a lane over `Bits` bits of message: its low half, which holds the higher powers, by 32 bits more, its high half
// by 32 less. (The halves differ by 64 bits, and a CRC shifts in 32 bits.)
template <unsigned Bits>
constexpr std::array<std::int64_t, 2> kFold = {power_of_x(Bits + 32), power_of_x(Bits - 32)};
// The paper gives these values, bits reflected.
static_assert(kFold<kLanes * kLaneBits>[0] == 0x154442bd4 && kFold<kLanes * kLaneBits>[1] == 0x1c6e41596);
static_assert(kFold<kLaneBits>[0] == 0x1751997d0 && kFold<kLaneBits>[1] == 0x0ccaa009e);
static_assert(power_of_x(64) == 0x163cd6124);

// The polynomial with its highest power, and x^64 divided by it: Barrett's reduction.
constexpr std::int64_t kWholePolynomial = std::int64_t{kPolynomial} << 1 | 1;
constexpr std::int64_t kQuotient = [] {
  std::int64_t quotient = 0;
  std::uint32_t rest = kPolynomial;  // the remainder of x^32; each step raises the power by one
  for (unsigned i = 1; i < 33; ++i) {
    quotient |= static_cast<std::int64_t>(rest & 1) << i;
    rest = (rest & 1) != 0 ? (rest >> 1) ^ kPolynomial : rest >> 1;
  }
  return quotient | 1;
}();
static_assert(kWholePolynomial == 0x1db710641 && kQuotient == 0x1f7011641);

#define SIDELATCH_PCLMUL gnu::target("pclmul,sse4.1")

template <Copying Copy>
[[SIDELATCH_PCLMUL, gnu::always_inline]] inline __m128i take_lane(const std::byte* from, std::byte* to,
                                                                  std::size_t offset) {
  __m128i lane = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + offset));
  if constexpr (Copy == Copying::yes) {
    asm volatile("" : "+x"(lane));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + offset), lane);
  }
  return lane;
}

[[SIDELATCH_PCLMUL, gnu::always_inline]] inline __m128i fold(__m128i lane, __m128i powers, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(lane, powers, 0x00);
  const __m128i high = _mm_clmulepi64_si128(lane, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, next), high);
}

template <unsigned Bits>
[[SIDELATCH_PCLMUL, gnu::always_inline]] inline __m128i powers_for() {
  return _mm_set_epi64x(kFold<Bits>[1], kFold<Bits>[0]);
}

// The remainder of 16 bytes.
[[SIDELATCH_PCLMUL, gnu::always_inline]] inline std::uint32_t reduce(__m128i lane) {
  const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
  // From 128 bits to 96 and to 64: the lower part is moved over the rest.
  lane = _mm_xor_si128(_mm_clmulepi64_si128(lane, powers_for<kLaneBits>(), 0x10), _mm_srli_si128(lane, 8));
  lane = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(lane, low_word), _mm_set_epi64x(0, power_of_x(64)), 0x00),
                       _mm_srli_si128(lane, 4));
  const __m128i barrett = _mm_set_epi64x(kQuotient, kWholePolynomial);
  const __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(lane, low_word), barrett, 0x10);
  const __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_word), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(lane, multiple), 1));
}

template <Copying Copy>
[[SIDELATCH_PCLMUL]] std::uint32_t pclmul(std::uint32_t state, std::byte* to, const std::byte* from,
                                          std::size_t length) {
  if (length < kLane) {
    return portable<Copy>(state, to, from, length);
  }
  const __m128i start = _mm_cvtsi32_si128(static_cast<int>(state));
  __m128i lane = _mm_xor_si128(take_lane<Copy>(from, to, 0), start);
  std::size_t i = kLane;
  if (length >= kLanes * kLane) {
    __m128i lanes[kLanes] = {lane, take_lane<Copy>(from, to, kLane), take_lane<Copy>(from, to, 2 * kLane),
                             take_lane<Copy>(from, to, 3 * kLane)};
    const __m128i powers = powers_for<kLanes * kLaneBits>();
    for (i = kLanes * kLane; i + kLanes * kLane <= length; i += kLanes * kLane) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        lanes[l] = fold(lanes[l], powers, take_lane<Copy>(from, to, i + l * kLane));
      }
    }
    lane = lanes[0];
    for (std::size_t l = 1; l < kLanes; ++l) {
      lane = fold(lane, powers_for<kLaneBits>(), lanes[l]);
    }
  }
  for (; i + kLane <= length; i += kLane) {
    lane = fold(lane, powers_for<kLaneBits>(), take_lane<Copy>(from, to, i));
  }
  return portable<Copy>(reduce(lane), to, from, length, i);
}

#undef SIDELATCH_PCLMUL

// The library wants the sum of everything before, and returns the sum: the inverted states.
template <Copying Copy>
std::uint32_t isal(std::uint32_t state, std::byte* to, const std::byte* from, std::size_t length) {
  if (length < kIsalFrom) {
    return pclmul<Copy>(state, to, from, length);
  }
  const std::byte* covered = from;
  if constexpr (Copy == Copying::yes) {
    std::memcpy(to, from, length);
    covered = to;  // the source may have changed since
  }
  return ~::crc32_gzip_refl(~state, reinterpret_cast<const unsigned char*>(covered), length);
}

#endif

template <Copying Copy>
std::uint32_t run(std::uint32_t state, std::byte* to, std::span<const std::byte> from, Crc32Level level) {
#if defined(__x86_64__)
  if (level == Crc32Level::isal) {
    return isal<Copy>(state, to, from.data(), from.size());
  }
  if (level == Crc32Level::pclmul) {
    return pclmul<Copy>(state, to, from.data(), from.size());
  }
#else
  (void)level;
#endif
  return portable<Copy>(state, to, from.data(), from.size());
}

}  // namespace

std::string_view name(Crc32Level level) {
  return level == Crc32Level::isal ? "isal" : level == Crc32Level::pclmul ? "pclmul" : "portable";
}

bool supported(Crc32Level level) {
#if defined(__x86_64__)
  if (level != Crc32Level::portable) {
    return __builtin_cpu_supports("pclmul") != 0;
  }
#endif
  return level == Crc32Level::portable;
}

Crc32Level best_crc32_level() {
  static const Crc32Level kBest = [] {
#if defined(__x86_64__)
    // What the library's way with 512 bits needs. Its other ways are no faster than ours.
    if (supported(Crc32Level::isal) && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2")) {
      return Crc32Level::isal;
    }
#endif
    return supported(Crc32Level::pclmul) ? Crc32Level::pclmul : Crc32Level::portable;
  }();
  return kBest;
}

std::uint32_t crc32_extend(std::uint32_t state, std::span<const std::byte> bytes, Crc32Level level) {
  return run<Copying::no>(state, nullptr, bytes, level);
}

std::uint32_t crc32_copy(std::uint32_t state, std::byte* to, std::span<const std::byte> from, Crc32Level level) {
  return run<Copying::yes>(state, to, from, level);
}

}  // namespace sidelatch::roce
