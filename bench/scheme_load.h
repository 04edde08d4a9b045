// Workers that read or update random objects through a scheme, as fast as they can: what the papers' experiments with
// latches and optimistic schemes measure.
#pragma once

#include <sidelatch/bench/experiment.h>
#include <sidelatch/checker/batch_means.h>
#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/sync/layout.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::sync {
class Scheme;
}

namespace sidelatch::bench {

/// Bytes of the latch experiments' records: the tuple with its latch.
inline constexpr std::uint64_t kLatchedTuple = 256 + 8;

struct SchemeLoad {
  std::function<std::unique_ptr<sync::Scheme>()> make;
  /// Not padded: that is what the papers measure, and their remedy is an experiment of its own.
  sync::LayoutKind layout = sync::LayoutKind::interleaved;
  std::uint64_t tuple_bytes = 256;  ///< of a record: latch, version and what else the scheme adds included
  std::uint64_t objects = 20'000;
  std::uint32_t workers = 1;
  std::uint32_t client_nodes = 4;
  bool updates = false;                           ///< else reads, with a final validation
  std::optional<fabric::sim::Profile> clients{};  ///< simulated; none: the experiment's profile
  fabric::Duration warm_up = fabric::from_ns(100'000);
  fabric::Duration measured = fabric::from_ns(1'000'000);
};

struct LoadResult {
  checker::Estimate mops;    ///< millions of operations per second
  checker::Estimate gbytes;  ///< tuples, Gbyte/s
};

/// In the order of the loads, each at a site of its own (site.h). On real machines computing takes the time that it
/// takes.
[[nodiscard]] std::vector<LoadResult> run_loads(const ExperimentOptions& options, std::span<const SchemeLoad> loads);

}  // namespace sidelatch::bench
