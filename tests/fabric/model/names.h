// The names that the programs of these tests share.
#pragma once

#include "enumerate.h"

#include <cstddef>

namespace sidelatch::fabric::model::enumeration {

inline constexpr Preset kAll[] = {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed};
inline constexpr Preset kWeak[] = {Preset::observed, Preset::spec, Preset::relaxed};

inline const RemoteAddress x = Program::line(0);
inline const RemoteAddress y = Program::line(1);
inline constexpr std::size_t kTwoLines = 9;  // words from the first of one line to the first of the next

}  // namespace sidelatch::fabric::model::enumeration
