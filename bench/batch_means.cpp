#include "batch_means.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

namespace sidelatch::bench {

// M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions", 26.7.5.
double student_t_975(std::uint64_t degrees_of_freedom) {
  constexpr double kZ = 1.959963984540054;
  constexpr double kZ3 = kZ * kZ * kZ;
  constexpr double kZ5 = kZ3 * kZ * kZ;
  constexpr double kZ7 = kZ5 * kZ * kZ;
  constexpr double kZ9 = kZ7 * kZ * kZ;
  const double n = static_cast<double>(degrees_of_freedom);
  return kZ + (kZ3 + kZ) / (4 * n) + (5 * kZ5 + 16 * kZ3 + 3 * kZ) / (96 * n * n) +
         (3 * kZ7 + 19 * kZ5 + 17 * kZ3 - 15 * kZ) / (384 * n * n * n) +
         (79 * kZ9 + 776 * kZ7 + 1482 * kZ5 - 1920 * kZ3 - 945 * kZ) / (92160 * n * n * n * n);
}

Estimate batch_means(std::span<const double> windows) {
  constexpr std::size_t kFewest = 10;
  if (windows.size() < kFewest) {
    throw std::invalid_argument(fmt::format("{} windows: there must be at least {}", windows.size(), kFewest));
  }
  const double count = static_cast<double>(windows.size());
  const double mean = std::accumulate(windows.begin(), windows.end(), 0.0) / count;
  double squares = 0;
  for (const double value : windows) {
    squares += (value - mean) * (value - mean);
  }
  return {mean, student_t_975(windows.size() - 1) * std::sqrt(squares / (count - 1) / count)};
}

}  // namespace sidelatch::bench
