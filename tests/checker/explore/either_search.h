// The two searches of small programs by hand, under observed.
#pragma once

#include "checking.h"

#include <sidelatch/explore/check.h>

#include <array>
#include <cstdint>

namespace sidelatch::explore {

inline constexpr std::array kEitherSearch = {Mode::exhaustive, Mode::states};

/// Nothing is left to chance.
inline Options searching(Mode mode, std::uint32_t max_events = 400) {
  Options options = under(fabric::model::Preset::observed);
  options.mode = mode;
  options.walks = 0;
  options.threads = 1;
  options.max_events = max_events;
  return options;
}

}  // namespace sidelatch::explore
