// The cost of the two checks at the paper's client (TODS 2025, figure 14), which the profile's keys cpu.* say. What is
// measured was decided before it was measured:
//
// - CRC64: slicing by eight, one table lookup for each byte and eight bytes a step, as the authors' program does it; a
//   tuple of 4 KiB, because there N14.crc64 is decided. The lookups of a step wait for those of the step before. So a
//   step costs the core's cycles, which are alike on cores with equal latencies of the first cache. The result is
//   therefore counted in cycles, and turned into a rate at the 3.2 GHz that a Xeon Gold 5120 reaches with one worker.
// - FaRM: one word of 8 bytes at the beginning of each line is compared with the first one, and the first difference
//   ends it. Nothing is copied, as in the authors' program. A tuple of 64 KiB, because there N14.farm is decided. What
//   bounds it is how fast lines come from the shared cache. So this rate is not converted.
// - A NIC places what it has read into the shared cache (DDIO). So CLDEMOTE moves the tuple there before each pass, and
//   each pass reads it once. The counters `chase ns` are a check of that: a line's latency after CLDEMOTE, and in the
//   core's own caches.
// - The result is the median of 1 001 passes; the least and the longest are shown beside it.
#include "table_crc64.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

namespace {

using sidelatch::bench::micro::TableCrc64;
using Clock = std::chrono::steady_clock;
constexpr std::size_t kLine = 64;
constexpr std::size_t kWordsOfALine = kLine / sizeof(std::uint64_t);
constexpr double kGold5120Ghz = 3.2;
using Words = std::span<std::uint64_t>;
struct alignas(kLine) Line {
  std::array<std::uint64_t, kWordsOfALine> words{};
};
using Tuple = std::vector<Line>;

bool can_demote() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kCldemote = 1U << 25U;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & kCldemote) != 0;
}

[[gnu::target("cldemote")]] void demote(Words words) {
  for (std::size_t i = 0; i < words.size(); i += kWordsOfALine) {
    _cldemote(&words[i]);
  }
  _mm_mfence();
  for (const auto begun = Clock::now(); Clock::now() - begun < std::chrono::microseconds(10);) {
  }
}

// A multiplication waits three cycles for the one before, on each core of the last ten years.
double core_ghz() {
  constexpr int kTimes = 1'000'000;
  double best = 1e9;
  for (int run = 0; run < 20; ++run) {
    const auto begun = Clock::now();
    std::uint64_t value = 3;
    for (int i = 0; i < kTimes; ++i) {
      asm volatile("imul %0, %0" : "+r"(value));
    }
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - begun).count());
  }
  return 3.0 * kTimes / best;
}

struct Times {
  double median, least, longest;  // ns
};

template <class Work>
Times times_of(Words words, Work work) {
  constexpr int kPasses = 1001;
  std::vector<double> all;
  for (int pass = 0; pass < kPasses; ++pass) {
    demote(words);
    _mm_lfence();
    const auto begun = Clock::now();
    _mm_lfence();
    work();
    _mm_lfence();
    all.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begun).count());
  }
  std::ranges::sort(all);
  return {all[kPasses / 2], all.front(), all.back()};
}

// How long a pass with nothing in it takes.
double nothing_ns() {
  return times_of({}, [] {}).median;
}

void report(benchmark::State& state, std::size_t bytes, Times times, double aside) {
  const auto rate = [&](double ns) { return static_cast<double>(bytes) / (ns - aside); };
  const double ghz = core_ghz();
  state.counters["GB/s"] = rate(times.median);
  state.counters["most GB/s"] = rate(times.least);
  state.counters["least GB/s"] = rate(times.longest);
  state.counters["core GHz"] = ghz;
  state.counters["bytes/cycle"] = rate(times.median) / ghz;
  state.counters["GB/s at 3.2 GHz"] = rate(times.median) / ghz * kGold5120Ghz;
}

// ns for each line of a chase in a random order, so that nothing is fetched ahead.
double chase_ns(Words words, bool demoted) {
  const std::size_t lines = words.size() / kWordsOfALine;
  std::vector<std::size_t> order(lines);
  for (std::size_t i = 0; i < lines; ++i) {
    order[i] = i;
  }
  std::uint64_t random = 88172645463325252;
  for (std::size_t i = lines - 1; i > 0; --i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    std::swap(order[i], order[(random >> 33U) % (i + 1)]);
  }
  for (std::size_t i = 0; i < lines; ++i) {
    words[order[i] * kWordsOfALine] = order[(i + 1) % lines] * kWordsOfALine;
  }
  std::vector<double> all;
  for (int pass = 0; pass < 101; ++pass) {
    if (demoted) {
      demote(words);
    }
    const auto begun = Clock::now();
    std::uint64_t at = order[0] * kWordsOfALine;
    for (std::size_t i = 0; i < lines; ++i) {
      at = words[at];
    }
    benchmark::DoNotOptimize(at);
    all.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begun).count() / static_cast<double>(lines));
  }
  std::ranges::sort(all);
  return all[all.size() / 2];
}

[[gnu::noinline]] bool equal_versions(Words words) {
  for (std::size_t i = 0; i < words.size(); i += kWordsOfALine) {
    if (words[i] != words[0]) {
      return false;
    }
  }
  return true;
}

void the_papers_crc64(benchmark::State& state) {
  if (!can_demote()) {
    state.SkipWithError("this CPU cannot demote a line to the shared cache");
    return;
  }
  const TableCrc64 table;
  Tuple tuple(static_cast<std::size_t>(state.range(0)) / kLine);
  const Words words(tuple.front().words.data(), tuple.size() * kWordsOfALine);
  const auto pass = [&] { benchmark::DoNotOptimize(table(std::as_bytes(words))); };
  for (auto _ : state) {
    pass();
  }
  report(state, words.size_bytes(), times_of(words, pass), nothing_ns());
}

void the_papers_line_versions(benchmark::State& state) {
  if (!can_demote()) {
    state.SkipWithError("this CPU cannot demote a line to the shared cache");
    return;
  }
  Tuple tuple(static_cast<std::size_t>(state.range(0)) / kLine);
  const Words words(tuple.front().words.data(), tuple.size() * kWordsOfALine);
  const auto pass = [&] { benchmark::DoNotOptimize(equal_versions(words)); };
  for (auto _ : state) {
    pass();
  }
  report(state, words.size_bytes(), times_of(words, pass), nothing_ns());
  state.counters["chase ns, demoted"] = chase_ns(words, true);
  state.counters["chase ns, own caches"] = chase_ns(words, false);
}

BENCHMARK(the_papers_crc64)->Arg(4096);
BENCHMARK(the_papers_line_versions)->Arg(65536);

}  // namespace
#endif
