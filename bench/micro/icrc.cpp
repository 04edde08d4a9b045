// The cost of RoCEv2's ICRC for a software NIC: the CRC-32 by carry-less multiplication against tables and against
// ISA-L, copying and checksumming in one pass against two, and building and parsing a whole packet. The counter `ratio`
// is measured within the run.
#include "measure.h"

#include "roce/crc32.h"
#include "roce/packet.h"

#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include <cstring>
#include <span>
#include <vector>

namespace {

using namespace sidelatch::roce;
using sidelatch::bench::micro::best_seconds;
using sidelatch::bench::micro::numbers;

using Bytes = std::vector<std::byte>;

// `ratio` says how many times as fast the library's code is.
void report(benchmark::State& state, std::size_t bytes, double ours, double theirs) {
  state.counters["ratio"] = theirs / ours;
  state.counters["GB/s"] = static_cast<double>(bytes) / ours / 1e9;
  state.counters["their GB/s"] = static_cast<double>(bytes) / theirs / 1e9;
}

std::size_t length_of(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }

void crc32_over_slice_by_8(benchmark::State& state) {
  const Bytes bytes = numbers(length_of(state));
  const auto crc = [&](Crc32Level level) { benchmark::DoNotOptimize(crc32_extend(kCrc32Start, bytes, level)); };
  for (auto _ : state) {
    crc(best_crc32_level());
  }
  report(state, bytes.size(), best_seconds([&] { crc(best_crc32_level()); }),
         best_seconds([&] { crc(Crc32Level::portable); }));
}

void crc32_over_isal(benchmark::State& state) {
  Bytes bytes = numbers(length_of(state));
  auto* const raw = reinterpret_cast<unsigned char*>(bytes.data());
  const auto ours = [&] { return crc32_finish(crc32_extend(kCrc32Start, bytes)); };
  const auto theirs = [&] { return ::crc32_gzip_refl(0, raw, bytes.size()); };
  if (ours() != theirs()) {
    state.SkipWithError("the two CRCs differ");
    return;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(ours());
  }
  report(state, bytes.size(), best_seconds([&] { benchmark::DoNotOptimize(ours()); }),
         best_seconds([&] { benchmark::DoNotOptimize(theirs()); }));
}

void copy_in_one_pass_over_two(benchmark::State& state) {
  const Bytes from = numbers(length_of(state));
  Bytes to(from.size());
  const auto one = [&] { benchmark::DoNotOptimize(crc32_copy(kCrc32Start, to.data(), from)); };
  // The copy is checksummed, not the source, because others may write to the source.
  const auto two = [&] {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(crc32_extend(kCrc32Start, to));
  };
  for (auto _ : state) {
    one();
  }
  report(state, from.size(), best_seconds(one), best_seconds(two));
}

Packet a_write(std::span<const std::byte> payload) {
  Packet packet;
  packet.ethernet = Ethernet{};
  packet.bth.opcode = Opcode::write_only;
  packet.payload = payload;
  return packet;
}

// Relative to copying the payload alone.
void build_over_memcpy(benchmark::State& state) {
  const Bytes payload = numbers(length_of(state));
  const Packet packet = a_write(payload);
  Bytes frame(encoded_bytes(packet));
  const auto ours = [&] { benchmark::DoNotOptimize(build(packet, frame)); };
  for (auto _ : state) {
    ours();
  }
  report(state, payload.size(), best_seconds(ours),
         best_seconds([&] { std::memcpy(frame.data(), payload.data(), payload.size()); }));
}

// The ICRC is checked before anything is copied out: a corrupt packet must not reach the memory it names.
void parse_and_copy_over_memcpy(benchmark::State& state) {
  Bytes payload = numbers(length_of(state));
  Bytes frame(encoded_bytes(a_write(payload)));
  benchmark::DoNotOptimize(build(a_write(payload), frame));
  if (!std::holds_alternative<Packet>(parse_frame(frame))) {
    state.SkipWithError("what was built is refused");
    return;
  }
  const auto ours = [&] {
    const auto parsed = parse_frame(frame);
    const auto& packet = *std::get_if<Packet>(&parsed);
    std::memcpy(payload.data(), packet.payload.data(), packet.payload.size());
  };
  for (auto _ : state) {
    ours();
  }
  report(state, payload.size(), best_seconds(ours),
         best_seconds([&] { std::memcpy(payload.data(), frame.data(), payload.size()); }));
}

BENCHMARK(crc32_over_slice_by_8)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);
BENCHMARK(crc32_over_isal)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);
BENCHMARK(copy_in_one_pass_over_two)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);
BENCHMARK(build_over_memcpy)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);
BENCHMARK(parse_and_copy_over_memcpy)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);

}  // namespace
