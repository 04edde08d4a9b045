// What a test leaves out where it takes long and says little new, unless the environment has SIDELATCH_LONG, which
// scripts/verify sets: under a sanitizer (is_sampled), or everywhere (takes_long).
#pragma once

#include "common/sanitizers.h"

#include <cstdlib>

namespace sidelatch {

inline bool takes_long() { return std::getenv("SIDELATCH_LONG") != nullptr; }  // NOLINT(concurrency-mt-unsafe)

inline bool is_sampled() { return SIDELATCH_IS_SANITIZED && !takes_long(); }

inline constexpr const char* kLeftOut = "minutes under a sanitizer; SIDELATCH_LONG=1 runs it";

}  // namespace sidelatch
