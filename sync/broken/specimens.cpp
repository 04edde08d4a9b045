#include <sidelatch/sync/broken.h>

#include "naive.h"

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::sync {

std::unique_ptr<OptimisticScheme> make_specimen(std::string_view name) {
  if (name == "broken/naive") {
    return std::make_unique<broken::Naive>();
  }
  throw std::invalid_argument(fmt::format("there is no specimen {}: the names are broken/naive", name));
}

}  // namespace sidelatch::sync
