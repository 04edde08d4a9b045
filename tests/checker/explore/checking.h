// Shared by tests of the explorer: presets, refusals, and whether a sanitizer makes everything slow.
#pragma once

#include "common/sanitizers.h"

#include <sidelatch/explore/check.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>

namespace sidelatch::explore {

inline constexpr bool kSanitized = SIDELATCH_IS_SANITIZED;

inline constexpr std::array kPresets = {fabric::model::Preset::strict, fabric::model::Preset::observed,
                                        fabric::model::Preset::spec, fabric::model::Preset::relaxed};

inline Options under(fabric::model::Preset preset) { return {.rules = rules_of(preset)}; }

/// The error message for a refused argument.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no std::invalid_argument";
}

}  // namespace sidelatch::explore
