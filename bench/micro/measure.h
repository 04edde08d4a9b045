// Measures a ratio with both sides within one run.
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

/// Seconds per call, the best of many runs: a shared machine only makes runs longer. A run is short, so that even on a
/// busy machine some runs are not interrupted.
template <class F>
double best_seconds(F work) {
  using Clock = std::chrono::steady_clock;
  constexpr double kRunSeconds = 50e-6;
  constexpr int kRuns = 400;
  const auto seconds_of = [&](int calls) {
    const auto begun = Clock::now();
    for (int i = 0; i < calls; ++i) {
      work();
      benchmark::ClobberMemory();
    }
    return std::chrono::duration<double>(Clock::now() - begun).count();
  };
  int calls = 1;
  while (seconds_of(calls) < kRunSeconds) {
    calls *= 2;
  }
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    best = std::min(best, seconds_of(calls) / calls);
  }
  return best;
}

}  // namespace sidelatch::bench::micro
