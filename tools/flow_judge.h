// What no unit of `sidelatch flow` can see alone: whether all that was pushed has come, once, and to whom, with those
// in mind that were killed or have left.
#pragma once

#include "flow_board.h"

#include <cstddef>
#include <string>
#include <vector>

namespace sidelatch::tools {

/// Where the control plane has a unit: the number of a producer's first ring, or of a consumer.
struct FlowPlaces {
  static constexpr std::size_t kNowhere = ~std::size_t{0};  ///< it has not joined
  std::vector<std::size_t> producers{};
  std::vector<std::size_t> consumers{};
};

/// All units have ended. Empty if all promises were kept; else ten sentences at most.
[[nodiscard]] std::vector<std::string> judge_flow(FlowBoard& board, const flows::FlowState& state,
                                                  const FlowPlaces& places);

}  // namespace sidelatch::tools
