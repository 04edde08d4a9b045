// A mean and how far it may be off: batch means. What a simulation does in one moment depends on the moment before, so
// single operations are no independent samples; counts of windows much longer than an operation nearly are.
//
// Source: A. Law, W. Kelton, "Simulation Modeling and Analysis", section 9.5.3.
#pragma once

#include <cstdint>
#include <span>

namespace sidelatch::bench {

struct Estimate {
  double mean = 0;
  double half_width = 0;  ///< with 95 % confidence the true mean lies within mean - half_width and mean + half_width
};

/// Of values of at least ten equal windows. Throws std::invalid_argument for fewer.
[[nodiscard]] Estimate batch_means(std::span<const double> windows);

/// The value that a variable with Student's t distribution does not exceed with a probability of 97.5 %. For at least
/// five degrees of freedom; off by less than 0.001 then.
[[nodiscard]] double student_t_975(std::uint64_t degrees_of_freedom);

}  // namespace sidelatch::bench
