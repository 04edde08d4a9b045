// A time that is some duration away, also if that is as long as no limit at all.
#pragma once

#include <sidelatch/fabric/types.h>

namespace sidelatch::fabric {

/// `duration` after `time`, which is not negative, or the last time that can be told, 106 days after the beginning:
/// Duration::max() is a wait that does not end, not one that is over.
[[nodiscard]] constexpr Time after(Time time, Duration duration) {
  return duration > Duration::max() - time ? Time::max() : time + duration;
}

}  // namespace sidelatch::fabric
