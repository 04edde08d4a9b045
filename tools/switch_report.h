// Statistics of a running switch: for people, and as JSON.
#pragma once

#include <sidelatch/p4/wired_switch.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::tools {

struct SwitchReport {
  struct Line {
    p4::PortOptions port;
    p4::PortCounters counters;
  };
  struct CounterLine {
    std::string name;
    std::size_t index = 0;  ///< of a direct counter: the entry, in the table's order
    p4::Count count;
  };
  std::string program;
  std::vector<Line> ports;
  std::vector<std::pair<std::string, std::uint64_t>> drops;  ///< for every reason
  std::vector<CounterLine> counters;                         ///< those that are not 0
  std::vector<std::string> printed;                          ///< the names of all counters that were asked for
  std::uint64_t sleeps = 0;
};

[[nodiscard]] SwitchReport report_of(p4::WiredSwitch& device, const p4::ProgramInfo& info,
                                     const std::vector<std::size_t>& counters);
[[nodiscard]] std::string to_text(const SwitchReport& report);
[[nodiscard]] std::string to_json(const SwitchReport& report);

}  // namespace sidelatch::tools
