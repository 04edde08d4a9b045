#include <sidelatch/sync/line_versions.h>

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sidelatch::sync::kernels {

using fabric::kLineBytes;

namespace {

// These process runs of full lines, each with a version of Width bytes and kLineBytes - Width of data. Gather returns
// zero if all versions are `version`.
using Gather = std::uint64_t (*)(const std::byte* lines, std::size_t n, std::uint64_t version, std::byte* out);
using Scatter = void (*)(std::byte* lines, std::size_t n, std::uint64_t version, const std::byte* in);

template <std::size_t Width>
std::uint64_t difference(const std::byte* line, std::uint64_t version) {
  std::uint64_t found = 0;
  std::uint64_t wanted = 0;
  std::memcpy(&found, line, Width);
  std::memcpy(&wanted, &version, Width);  // little-endian: the low bytes
  return found ^ wanted;
}

template <std::size_t Width>
std::uint64_t gather_portable(const std::byte* lines, std::size_t n, std::uint64_t version, std::byte* out) {
  std::uint64_t differ = 0;
  for (std::size_t i = 0; i < n; ++i) {
    differ |= difference<Width>(lines, version);
    std::memcpy(out, lines + Width, kLineBytes - Width);
    lines += kLineBytes;
    out += kLineBytes - Width;
  }
  return differ;
}

template <std::size_t Width>
void scatter_portable(std::byte* lines, std::size_t n, std::uint64_t version, const std::byte* in) {
  for (std::size_t i = 0; i < n; ++i) {
    std::memcpy(lines, &version, Width);
    std::memcpy(lines + Width, in, kLineBytes - Width);
    lines += kLineBytes;
    in += kLineBytes - Width;
  }
}

#if defined(__x86_64__)

// Handles a line's data as two overlapping halves, so nothing beyond it is read or written.
template <std::size_t Width>
[[gnu::target("avx2")]] std::uint64_t gather_avx2(const std::byte* lines, std::size_t n, std::uint64_t version,
                                                  std::byte* out) {
  constexpr std::size_t kHalf = kLineBytes / 2;
  std::uint64_t differ = 0;
  for (std::size_t i = 0; i < n; ++i) {
    differ |= difference<Width>(lines, version);
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + Width));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + kHalf));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + kHalf - Width), high);
    lines += kLineBytes;
    out += kLineBytes - Width;
  }
  return differ;
}

template <std::size_t Width>
[[gnu::target("avx2")]] void scatter_avx2(std::byte* lines, std::size_t n, std::uint64_t version, const std::byte* in) {
  constexpr std::size_t kHalf = kLineBytes / 2;
  for (std::size_t i = 0; i < n; ++i) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + kHalf - Width));
    std::memcpy(lines, &version, Width);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lines + Width), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lines + kHalf), high);
    lines += kLineBytes;
    in += kLineBytes - Width;
  }
}

template <std::size_t Width>
constexpr __mmask32 kDataWords = static_cast<__mmask32>((std::uint64_t{1} << ((kLineBytes - Width) / 2)) - 1);

template <std::size_t Width>
[[gnu::target("avx512f,avx512bw")]] std::uint64_t gather_avx512(const std::byte* lines, std::size_t n,
                                                                std::uint64_t version, std::byte* out) {
  std::uint64_t differ = 0;
  for (std::size_t i = 0; i < n; ++i) {
    differ |= difference<Width>(lines, version);
    const __m512i data = _mm512_maskz_loadu_epi16(kDataWords<Width>, lines + Width);
    _mm512_mask_storeu_epi16(out, kDataWords<Width>, data);
    lines += kLineBytes;
    out += kLineBytes - Width;
  }
  return differ;
}

template <std::size_t Width>
[[gnu::target("avx512f,avx512bw")]] void scatter_avx512(std::byte* lines, std::size_t n, std::uint64_t version,
                                                        const std::byte* in) {
  for (std::size_t i = 0; i < n; ++i) {
    const __m512i data = _mm512_maskz_loadu_epi16(kDataWords<Width>, in);
    std::memcpy(lines, &version, Width);
    _mm512_mask_storeu_epi16(lines + Width, kDataWords<Width>, data);
    lines += kLineBytes;
    in += kLineBytes - Width;
  }
}

#endif

struct Kernels {
  Gather gather = nullptr;
  Scatter scatter = nullptr;
};

template <std::size_t Width>
Kernels kernels_of(Level level) {
#if defined(__x86_64__)
  switch (level) {
    case Level::avx512:
      return {gather_avx512<Width>, scatter_avx512<Width>};
    case Level::avx2:
      return {gather_avx2<Width>, scatter_avx2<Width>};
    case Level::portable:
      break;
  }
#else
  (void)level;
#endif
  return {gather_portable<Width>, scatter_portable<Width>};
}

// The parts of a record: payload bytes beside the header, full lines, and the rest in a last line.
struct Parts {
  std::uint64_t header_line_data;   // offset of the payload in the header's line
  std::uint64_t header_line_bytes;  // payload bytes in the header's line
  std::uint64_t lines;              // offset of the first line without header
  std::uint64_t full_lines;
  std::uint64_t rest;         // bytes of payload in a last line that is not full
  bool header_line_is_first;  // it holds the first payload bytes, not the last
};

Parts parts_of(const RecordShape& shape) {
  Parts parts{};
  const std::uint64_t per_line = kLineBytes - shape.line_versions;
  const std::uint64_t in_header_line = kLineBytes - shape.header_bytes;
  parts.header_line_is_first = !shape.header_last;
  if (shape.header_last) {
    parts.full_lines = shape.lines() - 1;
    parts.lines = 0;
    parts.header_line_data = parts.full_lines * kLineBytes;
    // The full lines before the header take as much as they can. A payload may even end inside the last of them.
    const std::uint64_t before = std::min(parts.full_lines * per_line, shape.payload_bytes);
    parts.rest = before % per_line;
    parts.full_lines = before / per_line;
    parts.header_line_bytes = shape.payload_bytes - before;
  } else {
    parts.header_line_data = shape.header_bytes;
    parts.header_line_bytes = std::min(in_header_line, shape.payload_bytes);
    parts.lines = kLineBytes;
    const std::uint64_t beyond = shape.payload_bytes - parts.header_line_bytes;
    parts.full_lines = beyond / per_line;
    parts.rest = beyond % per_line;
  }
  return parts;
}

}  // namespace

std::string_view name(Level level) {
  return level == Level::avx512 ? "avx512" : level == Level::avx2 ? "avx2" : "portable";
}

bool supported(Level level) {
#if defined(__x86_64__)
  if (level == Level::avx512) {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  }
  if (level == Level::avx2) {
    return __builtin_cpu_supports("avx2") != 0;
  }
#endif
  return level == Level::portable;
}

Level best_level() {
  static const Level kBest = supported(Level::avx512) ? Level::avx512
                             : supported(Level::avx2) ? Level::avx2
                                                      : Level::portable;
  return kBest;
}

void scatter_lines(std::span<std::byte> record, const RecordShape& shape, std::uint64_t version,
                   std::span<const std::byte> payload, Level level) {
  const Kernels kernels = shape.line_versions == 8 ? kernels_of<8>(level) : kernels_of<2>(level);
  const Parts parts = parts_of(shape);
  const std::byte* in = payload.data();
  if (parts.header_line_is_first) {
    std::memcpy(record.data() + parts.header_line_data, in, parts.header_line_bytes);
    in += parts.header_line_bytes;
  }
  std::byte* line = record.data() + parts.lines;
  kernels.scatter(line, parts.full_lines, version, in);
  line += parts.full_lines * kLineBytes;
  in += parts.full_lines * (kLineBytes - shape.line_versions);
  if (parts.rest > 0) {
    std::memcpy(line, &version, shape.line_versions);
    std::memcpy(line + shape.line_versions, in, parts.rest);
    in += parts.rest;
  }
  if (!parts.header_line_is_first) {
    std::memcpy(record.data() + parts.header_line_data, in, parts.header_line_bytes);
  }
}

bool gather_lines(std::span<const std::byte> record, const RecordShape& shape, std::uint64_t version,
                  std::span<std::byte> payload, Level level) {
  const Kernels kernels = shape.line_versions == 8 ? kernels_of<8>(level) : kernels_of<2>(level);
  const Parts parts = parts_of(shape);
  std::byte* out = payload.data();
  if (parts.header_line_is_first) {
    std::memcpy(out, record.data() + parts.header_line_data, parts.header_line_bytes);
    out += parts.header_line_bytes;
  }
  const std::byte* line = record.data() + parts.lines;
  std::uint64_t differ = kernels.gather(line, parts.full_lines, version, out);
  line += parts.full_lines * kLineBytes;
  out += parts.full_lines * (kLineBytes - shape.line_versions);
  if (parts.rest > 0) {
    differ |= shape.line_versions == 8 ? difference<8>(line, version) : difference<2>(line, version);
    std::memcpy(out, line + shape.line_versions, parts.rest);
    out += parts.rest;
  }
  if (!parts.header_line_is_first) {
    std::memcpy(out, record.data() + parts.header_line_data, parts.header_line_bytes);
  }
  return differ == 0;
}

std::uint64_t highest_version(std::span<const std::byte> record, const RecordShape& shape, std::uint64_t header) {
  const Parts parts = parts_of(shape);
  const std::uint64_t lines = parts.full_lines + (parts.rest > 0 ? 1 : 0);
  std::uint64_t highest = header;
  for (std::uint64_t i = 0; i < lines; ++i) {
    std::uint64_t version = 0;
    std::memcpy(&version, record.data() + parts.lines + i * kLineBytes, shape.line_versions);
    if (shape.line_versions == 2) {
      const auto ahead = static_cast<std::int16_t>(static_cast<std::uint16_t>(version - header));
      version = header + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
    }
    highest = std::max(highest, version);
  }
  return highest;
}

}  // namespace sidelatch::sync::kernels
