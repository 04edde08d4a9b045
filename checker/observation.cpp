#include <sidelatch/checker/observation.h>

#include <cmath>

namespace sidelatch::checker {

std::optional<double> bound95(const Observation& observation) {
  if (observation.seen != 0 || observation.chances == 0 || !observation.sensitive) {
    return std::nullopt;
  }
  return -std::expm1(std::log(0.05) / static_cast<double>(observation.chances));
}

}  // namespace sidelatch::checker
