// A load of zero-sided flows in virtual time, for the experiments of SIGMOD 2024: units that push and pop at given
// rates, and what came when.
#pragma once

#include "experiments.h"

#include <sidelatch/flows/flow_switch.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sidelatch::bench {

struct FlowLoad {
  flows::FlowKind kind = flows::FlowKind::shuffle;
  std::uint32_t producers = 1;  ///< units
  std::uint32_t consumers = 1;  ///< units
  flows::RingShape shape{};     ///< of all rings; an item has at least 16 bytes
  std::uint64_t batch_bytes = std::uint64_t{4} << 20;
  double poll_us = 10;
  bool rings = false;  ///< units ring when they shall
  /// Of each producer, at random moments; 0: as many as there is room for.
  double items_per_second = 0;
  std::uint64_t items = 0;            ///< that each producer pushes; 0: no end
  std::vector<double> consumer_ns{};  ///< what each consumer needs for an item; empty: nothing
  /// Without an end: what happens from here on, and before there, is measured.
  double from_us = 500;
  double to_us = 2500;
};

struct FlowSeen {
  std::vector<double> consumer_gbytes{};  ///< Gbyte/s, of items, that each consumer got
  std::vector<double> producer_gbytes{};  ///< that consumers got of each producer's items, one copy of each
  double million_items = 0;               ///< per second, of all consumers
  double median_us = 0;                   ///< from the push to the moment at which the consumer's processor can see it
  std::vector<double> finish_us{};        ///< with an end: when each consumer was done with its last item
  std::uint64_t largest_batch = 0;        ///< bytes
  std::uint64_t rings_of_producers = 0;
  std::uint64_t rings_of_consumers = 0;
};

/// Each in a world of its own: the options' profile, at a Tofino.
[[nodiscard]] std::vector<FlowSeen> run_flow_loads(const ExperimentOptions& options, std::span<const FlowLoad> loads);

/// The options of an experiment with flows. Throws std::invalid_argument for a cluster.
[[nodiscard]] const ExperimentOptions& without_cluster(const ExperimentOptions& given, std::string_view experiment);

}  // namespace sidelatch::bench
