// The CPU cost at a client of detecting a torn object: CRC64 against the table-driven CRC64 that papers used, and
// FaRM's line versions against a plain copy. The counter `ratio` is measured within the run.
#include "measure.h"
#include "table_crc64.h"

#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/line_versions.h>

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

namespace {

using namespace sidelatch::sync;
using sidelatch::bench::micro::best_seconds;
using sidelatch::bench::micro::numbers;
using sidelatch::bench::micro::TableCrc64;

void crc64_over_slice_by_8(benchmark::State& state) {
  const TableCrc64 table;
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
