// A flow of `sidelatch flow`: the switch in this process, and a process for each unit, some of which join, leave or are
// killed while it runs.
#pragma once

#include "flow_report.h"

#include <sidelatch/p4/wired_switch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::tools {

/// How many units change while the flow runs. When, and which ones: at random, by the seed of the faults; all within
/// the first half of the items.
struct FlowChanges {
  std::uint32_t joining_producers = 0;
  std::uint32_t joining_consumers = 0;
  std::uint32_t leaving_consumers = 0;
  std::uint32_t killed_producers = 0;
  std::uint32_t killed_consumers = 0;

  [[nodiscard]] std::uint32_t count() const noexcept {
    return joining_producers + joining_consumers + leaving_consumers + killed_producers + killed_consumers;
  }
};

/// An RDMA device of this machine for units to use, and the kernel's interface at which the switch reaches it.
struct FlowNic {
  std::string device;
  std::string interface;
};

struct FlowRunOptions {
  std::vector<FlowNic> nics{};  ///< the units take them in turn, producers first; none: a software NIC for each unit
  flows::Ipv4Address switch_ip{10, 9, 1, 0};
  std::uint64_t batch_bytes = std::uint64_t{4} << 20;
  double poll_us = 10;
  std::uint32_t time_out_us = 5000;
  std::uint32_t most_retries = 125;
  double stall_seconds = 60;
  FlowChanges changes{};
  p4::FaultRates faults{};
  std::string order;
  std::string pcap;
};

/// Returns when all units have ended, a promise was violated, or the user has interrupted it. Throws
/// checker::EnvironmentError if a unit cannot begin.
[[nodiscard]] FlowReport run_flow(const FlowTask& task, const FlowRunOptions& options);

}  // namespace sidelatch::tools
