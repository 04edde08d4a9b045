// The CPU cost at a client of detecting a torn object: CRC64 against the table-driven CRC64 that papers used, and
// FaRM's line versions against a plain copy. The counter `ratio` is measured within the run.
#include "measure.h"

#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/line_versions.h>

#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <vector>

namespace {

using namespace sidelatch::sync;
using sidelatch::bench::micro::best_seconds;
using sidelatch::bench::micro::numbers;

// Slicing by 8: eight tables of 256 entries, eight bytes per step. It computes the same CRC as the library.
class SliceBy8 {
 public:
  SliceBy8() {
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
      crc = 0;
      for (std::size_t t = 0; t < 8; ++t) {
        crc ^= tables_[7 - t][(word >> (8 * t)) & 0xff];
      }
    }
    for (; i < bytes.size(); ++i) {
      crc = (crc >> 8) ^ tables_[0][(crc ^ static_cast<std::uint64_t>(bytes[i])) & 0xff];
    }
    return ~crc;
  }

 private:
  std::array<std::array<std::uint64_t, 256>, 8> tables_{};
};

void crc64_over_slice_by_8(benchmark::State& state) {
  const SliceBy8 table;
  const std::vector<std::byte> bytes = numbers(static_cast<std::size_t>(state.range(0)));
  if (table(bytes) != crc64(bytes)) {
    state.SkipWithError("the two CRCs differ");
    return;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(crc64(bytes));
  }
  const double ours = best_seconds([&] { benchmark::DoNotOptimize(crc64(bytes)); });
  const double theirs = best_seconds([&] { benchmark::DoNotOptimize(table(bytes)); });
  state.counters["ratio"] = theirs / ours;
  state.counters["GB/s"] = static_cast<double>(bytes.size()) / ours / 1e9;
  state.counters["table GB/s"] = static_cast<double>(bytes.size()) / theirs / 1e9;
}

void gather_over_memcpy(benchmark::State& state) {
  const auto level = static_cast<kernels::Level>(state.range(1));
  const auto width = static_cast<std::uint32_t>(state.range(2));
  state.SetLabel(std::string(kernels::name(level)) + ", " + std::to_string(width) + "-byte versions");
  if (!kernels::supported(level)) {
    state.SkipWithError("this CPU does not have it");
    return;
  }
  const RecordNeeds needs{.version = true, .line_versions = width, .header_inside = true};
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const RecordShape shape = make_shape(needs, LayoutKind::padded, bytes - bytes / 64 * width - 8);
  std::vector<std::byte> record(shape.bytes);
  std::vector<std::byte> payload = numbers(shape.payload_bytes);
  kernels::scatter_lines(record, shape, 7, payload, level);
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels::gather_lines(record, shape, 7, payload, level));
  }
  std::vector<std::byte> copy(shape.bytes);
  const double ours =
      best_seconds([&] { benchmark::DoNotOptimize(kernels::gather_lines(record, shape, 7, payload, level)); });
  const double plain = best_seconds([&] { std::memcpy(copy.data(), record.data(), record.size()); });
  state.counters["ratio"] = plain / ours;
  state.counters["GB/s"] = static_cast<double>(shape.bytes) / ours / 1e9;
  state.counters["memcpy GB/s"] = static_cast<double>(shape.bytes) / plain / 1e9;
}

BENCHMARK(crc64_over_slice_by_8)->Arg(256)->Arg(4096)->Arg(65536);
BENCHMARK(gather_over_memcpy)->ArgsProduct({{256, 4096, 65536}, {0, 1, 2}, {8, 2}});

}  // namespace
