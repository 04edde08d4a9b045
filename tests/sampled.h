// What a test leaves out where it takes long and says little new, unless the environment has SIDELATCH_LONG, which
// scripts/verify sets: under a sanitizer (is_sampled), or everywhere (takes_long).
#pragma once

#include "common/sanitizers.h"

#include <cstdint>
#include <cstdlib>
#include <string>

namespace sidelatch {

inline bool takes_long() { return std::getenv("SIDELATCH_LONG") != nullptr; }  // NOLINT(concurrency-mt-unsafe)

inline bool is_sampled() { return SIDELATCH_IS_SANITIZED && !takes_long(); }

// A number from the environment, with which somebody runs a part of a test.
inline std::uint64_t number_or(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::stoull(text);
}

inline constexpr const char* kLeftOut = "minutes under a sanitizer; SIDELATCH_LONG=1 runs it";

}  // namespace sidelatch
