#include <sidelatch/checker/observation.h>

#include <fmt/format.h>

#include <cmath>

namespace sidelatch::checker {

std::optional<double> bound95(const Observation& observation) {
  if (observation.seen != 0 || observation.chances == 0 || !observation.sensitive) {
    return std::nullopt;
  }
  return -std::expm1(std::log(0.05) / static_cast<double>(observation.chances));
}

std::string percent_at_most(double bound) {
  const double percent = 100 * bound;
  if (percent <= 0) {
    return "0 %";
  }
  const double unit = std::pow(10, std::floor(std::log10(percent)) - 1);
  return fmt::format("{:.2g} %", std::ceil(percent / unit) * unit);
}

}  // namespace sidelatch::checker
