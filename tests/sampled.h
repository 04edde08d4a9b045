// What a test leaves out where it takes minutes and says little new: under a sanitizer, unless the environment has
// SIDELATCH_LONG, which scripts/verify sets.
#pragma once

#include "common/sanitizers.h"

#include <cstdlib>

namespace sidelatch {

inline bool is_sampled() {
  return (SIDELATCH_HAS_ASAN || SIDELATCH_HAS_TSAN) &&
         std::getenv("SIDELATCH_LONG") == nullptr;  // NOLINT(concurrency-mt-unsafe)
}

inline constexpr const char* kLeftOut = "minutes under a sanitizer; SIDELATCH_LONG=1 runs it";

}  // namespace sidelatch
