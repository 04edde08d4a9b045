// How the programs of this folder measure a ratio: both sides within one run.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace sidelatch::bench::micro {

/// Bytes that differ from their neighbours.
inline std::vector<std::byte> numbers(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(i * 131 + 7);
  }
  return out;
}

/// Seconds per call, the best of several runs: a shared machine only ever makes them longer.
template <class F>
double best_seconds(F work) {
  using Clock = std::chrono::steady_clock;
  constexpr int kCalls = 2000;
  double best = 1e9;
  for (int run = 0; run < 20; ++run) {
    const auto begun = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      work();
      benchmark::ClobberMemory();
    }
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begun).count() / kCalls);
  }
  return best;
}

}  // namespace sidelatch::bench::micro
