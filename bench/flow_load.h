// A load of zero-sided flows in virtual time, for the experiments of SIGMOD 2024: units that push and pop at given
// rates, and what came when.
#pragma once

#include "experiments.h"

#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/flows/flow_switch.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::bench {

/// The rate of what comes in batches: what came behind the first batch, by the time from its end to that of the last
/// one. So the number of whole batches that fit into the measured time does not matter. Time before and behind these
/// ends counts as far as it is longer than any time between two of them: nothing came then, and not a part of a batch.
class BatchRate {
 public:
  /// What has the same end is one batch. Ends do not go back.
  void count(double end_ns, double amount) {
    if (!first_ns_) {
      first_ns_ = last_ns_ = end_ns;
    }
    if (end_ns > *first_ns_) {
      amount_ += amount;
      longest_ns_ = std::max(longest_ns_, end_ns - last_ns_);
      last_ns_ = end_ns;
    }
  }
  /// Measured from `from_ns` to `to_ns`. 0 until a second batch has ended.
  [[nodiscard]] double per_ns(double from_ns, double to_ns) const {
    if (amount_ == 0) {
      return 0;
    }
    const double silence_ns =
        std::max(0.0, *first_ns_ - from_ns - longest_ns_) + std::max(0.0, to_ns - last_ns_ - longest_ns_);
    return amount_ / (last_ns_ - *first_ns_ + silence_ns);
  }

 private:
  std::optional<double> first_ns_;
  double last_ns_ = 0;
  double longest_ns_ = 0;  // between two ends
  double amount_ = 0;
};

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
  // Rates are those of BatchRate.
  std::vector<double> consumer_gbytes{};  ///< Gbyte/s, of items, that each consumer got
  std::vector<double> producer_gbytes{};  ///< that consumers got of each producer's items, one copy of each
  double million_items = 0;               ///< per second, of all consumers
  double median_us = 0;                   ///< from the push to the moment at which the consumer's processor can see it
  bool has_ended = true;                  ///< with an end: all items were popped within 100 ms of virtual time
  std::vector<double> finish_us{};        ///< when each consumer was done with its last item; infinite if not ended
  std::uint64_t largest_batch = 0;        ///< bytes
  std::uint64_t rings_of_producers = 0;   ///< out of which the switch has taken items, as its registers say
  std::uint64_t rings_of_consumers = 0;   ///< into which it has delivered some; 1 if it replicates
};

/// Each in a world of its own: the options' profile, at a Tofino.
[[nodiscard]] std::vector<FlowSeen> run_flow_loads(const ExperimentOptions& options, std::span<const FlowLoad> loads);

/// What the profile's link carries, in Gbyte/s, headers included.
[[nodiscard]] double link_gbytes(const fabric::sim::Profile& profile);

/// The options of an experiment with flows. Throws std::invalid_argument for a cluster.
[[nodiscard]] const ExperimentOptions& without_cluster(const ExperimentOptions& given, std::string_view experiment);

}  // namespace sidelatch::bench
