#include <sidelatch/checker/batch_means.h>

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

namespace sidelatch::checker {

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

Windows::Windows(fabric::Time begins, fabric::Duration measured) : begins_(begins), measured_(measured) {
  if (measured.count() <= 0) {
    throw std::invalid_argument(
        fmt::format("a measured time of {} ns: it must be longer than nothing", fabric::to_ns(measured)));
  }
}

bool Windows::count(fabric::Time now) noexcept {
  if (now < begins_ || over(now)) {
    return false;
  }
  ++counts_[static_cast<std::size_t>((now - begins_).count() * std::int64_t{kCount} / measured_.count())];
  return true;
}

Estimate rate(const Windows::Counts& counts, fabric::Duration measured) {
  // A duration counts picoseconds.
  constexpr double kMillionsPerSecond = 1e6;
  return batch_means(counts).times(kMillionsPerSecond * double{Windows::kCount} /
                                   static_cast<double>(measured.count()));
}

}  // namespace sidelatch::checker
