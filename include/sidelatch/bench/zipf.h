// Zipf: draws the next of n items; the probability of the item of rank r (0 is the most popular) is proportional to
// 1 / (r + 1)^exponent. An exponent of 0 is uniform; TODS 2025 calls 1 slight and 2 heavy skew.
//
//   const Zipf ranks(20'000'000, 1);
//   const Scatter keys(20'000'000);
//   std::mt19937_64 random(worker);
//   std::uint64_t key = keys(ranks(random));     // popular keys do not lie side by side
//
// The algorithm is rejection-inversion. It needs no table, and a few logarithms per draw for any number of items. The
// distribution is exact except for the rounding of double. Source: W. Hoermann, G. Derflinger, "Rejection-inversion to
// generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996.
//
// Thread-safety: plain values; a generator belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <random>

namespace sidelatch::bench {

class Zipf {
 public:
  /// `items`: 1 to 2^52. `exponent`: 0 or more, finite. Throws std::invalid_argument.
  Zipf(std::uint64_t items, double exponent);

  /// The next rank, 0 to items - 1.
  [[nodiscard]] std::uint64_t operator()(std::mt19937_64& random) const;

  [[nodiscard]] std::uint64_t items() const noexcept { return items_; }
  [[nodiscard]] double exponent() const noexcept { return exponent_; }

 private:
  // The integral of the density x^-exponent from 1 to x, and its inverse.
  [[nodiscard]] double integral(double x) const;
  [[nodiscard]] double inverse_integral(double area) const;
  [[nodiscard]] double density(double x) const;

  std::uint64_t items_;
  double exponent_;
  double least_area_ = 0;
  double most_area_ = 0;
  double accepted_below_ = 0;
};

/// A bijection of 0 to items - 1 that looks random: an unbalanced Feistel network over two digits, repeated until the
/// result is in range. Equal seeds give equal bijections.
class Scatter {
 public:
  /// `items`: 1 to 2^52. Throws std::invalid_argument.
  explicit Scatter(std::uint64_t items, std::uint64_t seed = 1);

  /// The image of item `i`. Throws std::out_of_range if there is no such item.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t i) const;

 private:
  std::uint64_t items_;
  std::uint64_t high_digits_;
  std::uint64_t low_digits_;
  std::uint64_t seed_;
};

}  // namespace sidelatch::bench
