#include <sidelatch/bench/zipf.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace sidelatch::bench {

namespace {

constexpr std::uint64_t kMostItems = std::uint64_t{1} << 52;  // up to here a double distinguishes halves

void require_items(std::uint64_t items) {
  if (items == 0 || items > kMostItems) {
    throw std::invalid_argument(fmt::format("{} items: there must be 1 to {}", items, kMostItems));
  }
}

// (e^t - 1) / t and log(1 + t) / t, with their limit at 0, so an exponent of 1 is no special case.
double expm1_over(double t) { return std::abs(t) > 1e-8 ? std::expm1(t) / t : 1 + t / 2; }
double log1p_over(double t) { return std::abs(t) > 1e-8 ? std::log1p(t) / t : 1 - t / 2; }

// [0, 1), the same on every machine, unlike std::uniform_real_distribution.
double fraction(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1.0p-53; }

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// (a + b) % digits of two values below `digits`, without a division.
std::uint64_t add_modulo(std::uint64_t a, std::uint64_t b, std::uint64_t digits) {
  const std::uint64_t sum = a + b;
  return sum < digits ? sum : sum - digits;
}

}  // namespace

Zipf::Zipf(std::uint64_t items, double exponent) : items_(items), exponent_(exponent) {
  require_items(items);
  if (!(exponent >= 0) || !std::isfinite(exponent)) {
    throw std::invalid_argument(fmt::format("a Zipf exponent of {}: it must be 0 or more, and finite", exponent));
  }
  least_area_ = integral(1.5) - 1;
  most_area_ = integral(static_cast<double>(items) + 0.5);
  accepted_below_ = 2 - inverse_integral(integral(2.5) - density(2));
}

double Zipf::integral(double x) const {
  const double log = std::log(x);
  return expm1_over((1 - exponent_) * log) * log;
}

double Zipf::inverse_integral(double area) const {
  const double t = std::max(area * (1 - exponent_), -1.0);  // below -1 only through rounding
  return std::exp(log1p_over(t) * area);
}

double Zipf::density(double x) const { return std::exp(-exponent_ * std::log(x)); }

// The hat is the integral of the density over [k - 1/2, k + 1/2], which is at least the density at k, because the
// density is convex. Its inverse proposes k; the first test accepts most proposals without an evaluation.
std::uint64_t Zipf::operator()(std::mt19937_64& random) const {
  if (exponent_ == 0) {
    return std::min(static_cast<std::uint64_t>(fraction(random) * static_cast<double>(items_)), items_ - 1);
  }
  const double last = static_cast<double>(items_);
  for (;;) {
    const double area = most_area_ + fraction(random) * (least_area_ - most_area_);
    const double x = inverse_integral(area);
    const double k = std::clamp(std::floor(x + 0.5), 1.0, last);
    if (k - x <= accepted_below_ || area >= integral(k + 0.5) - density(k)) {
      return static_cast<std::uint64_t>(k) - 1;
    }
  }
}

Scatter::Scatter(std::uint64_t items, std::uint64_t seed) : items_(items), seed_(mix(seed + 0x9e3779b97f4a7c15ULL)) {
  require_items(items);
  high_digits_ = static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(items))));
  low_digits_ = (items + high_digits_ - 1) / high_digits_;
}

// Each step adds to one digit a value that depends only on the other digit, so it can be undone. The network permutes
// all pairs of digits, a few more than there are items. A pair outside the items is permuted again; it comes back in
// before it meets its own start.
std::uint64_t Scatter::operator()(std::uint64_t i) const {
  if (i >= items_) {
    throw std::out_of_range(fmt::format("item {} of {}", i, items_));
  }
  constexpr std::uint64_t kRounds = 4;
  do {
    std::uint64_t high = i / low_digits_;
    std::uint64_t low = i % low_digits_;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      high = add_modulo(high, mix(seed_ + 2 * round + low * 0x9e3779b97f4a7c15ULL) % high_digits_, high_digits_);
      low = add_modulo(low, mix(seed_ + 2 * round + 1 + high * 0x9e3779b97f4a7c15ULL) % low_digits_, low_digits_);
    }
    i = high * low_digits_ + low;
  } while (i >= items_);
  return i;
}

}  // namespace sidelatch::bench
