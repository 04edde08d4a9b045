// What a flow of `sidelatch flow` has done: for people, and as JSON.
#pragma once

#include "flow_board.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::tools {

struct FlowReport {
  struct Consumer {
    std::uint64_t items = 0;
    std::uint32_t batch_items = 0;  ///< the most of a batch at present
  };
  FlowTask task{};
  double seconds = 0;                      ///< since the flow has started
  std::vector<std::uint64_t> producers{};  ///< items pushed
  std::vector<Consumer> consumers{};
  std::uint32_t joined = 0;  ///< units, while it ran
  std::uint32_t left = 0;
  std::uint32_t killed = 0;
  std::uint64_t lost = 0;  ///< injected faults: packets
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::vector<std::string> violations{};
  bool has_ended = false;

  /// Items that consumers have got, each copy of a replicated one.
  [[nodiscard]] std::uint64_t items() const noexcept;
};

[[nodiscard]] std::string name_of(const FlowTask& task);
[[nodiscard]] std::string to_text(const FlowReport& report);
[[nodiscard]] std::string to_json(const FlowReport& report);
/// The table while it runs: what came since `before`.
[[nodiscard]] std::string live_text(const FlowReport& now, const FlowReport& before);

}  // namespace sidelatch::tools
