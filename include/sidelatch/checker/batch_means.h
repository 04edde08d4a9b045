// Batch means: a rate with its confidence interval. Each operation depends on those before it, so single operations are
// not independent samples. Counts over windows much longer than an operation are nearly independent.
//
//   Windows windows(reactor.now() + warm_up, measured);
//   while (!windows.over(reactor.now())) { ...; windows.count(reactor.now()); }      // many tasks at once
//   Estimate mops = rate(windows.counts(), measured);
//
// Source: A. Law, W. Kelton, "Simulation Modeling and Analysis", section 9.5.3.
//
// Thread-safety: values.
#pragma once

#include <sidelatch/fabric/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::checker {

struct Estimate {
  double mean = 0;
  double half_width = 0;  ///< with 95 % confidence the true mean lies within mean - half_width and mean + half_width

  /// The estimate multiplied by `factor`.
  [[nodiscard]] Estimate times(double factor) const { return {mean * factor, half_width * factor}; }
};

/// Estimates the mean from the values of at least ten equal windows. Throws std::invalid_argument for fewer.
[[nodiscard]] Estimate batch_means(std::span<const double> windows);

/// The value that a variable with Student's t distribution does not exceed with a probability of 97.5 %. For at least
/// five degrees of freedom; the error is then below 0.001.
[[nodiscard]] double student_t_975(std::uint64_t degrees_of_freedom);

/// How many operations ended within each of twenty equal windows of a measured time.
class Windows {
 public:
  static constexpr std::size_t kCount = 20;
  using Counts = std::array<double, kCount>;

  /// Throws std::invalid_argument if `measured` is not positive.
  Windows(fabric::Time begins, fabric::Duration measured);

  /// Whether the measured time has passed.
  [[nodiscard]] bool over(fabric::Time now) const noexcept { return now >= begins_ + measured_; }
  /// Counts an operation that ended now; false if now is before or after the measured time.
  bool count(fabric::Time now) noexcept;
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  fabric::Time begins_;
  fabric::Duration measured_;
  Counts counts_{};
};

/// Millions of operations per second.
[[nodiscard]] Estimate rate(const Windows::Counts& counts, fabric::Duration measured);

}  // namespace sidelatch::checker
