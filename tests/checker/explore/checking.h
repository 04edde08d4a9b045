// Shared by tests of the explorer: presets, refusals, and whether a sanitizer makes everything slow.
#pragma once

#include "common/sanitizers.h"
#include "tests/message_of.h"

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
  return sidelatch::message_of<std::invalid_argument>(call);
}

}  // namespace sidelatch::explore
