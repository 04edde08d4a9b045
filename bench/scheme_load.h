// Workers that read or update random objects through a scheme as fast as they can, as in the papers' experiments with
// latches and optimistic schemes.
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

/// Bytes of the latch experiments' records: the tuple with its latch. The latches are therefore 264 bytes apart and
/// have different lock slots.
inline constexpr std::uint64_t kLatchedTuple = 256 + 8;

struct SchemeLoad {
  std::function<std::unique_ptr<sync::Scheme>()> make;
  /// Not padded, as in the papers; their remedy is an experiment of its own.
  sync::LayoutKind layout = sync::LayoutKind::interleaved;
  std::uint64_t tuple_bytes = 256;  ///< bytes of a record, including latch, version and all else that the scheme adds
  std::uint64_t objects = 20'000;
  std::uint32_t workers = 1;
  std::uint32_t client_nodes = 4;
  bool updates = false;                           ///< otherwise reads, with a final validation
  std::optional<Practice> practice{};             ///< default: the experiment's
  std::optional<fabric::sim::Profile> clients{};  ///< simulated only; default: the experiment's profile
  fabric::Duration warm_up = fabric::from_ns(100'000);
  fabric::Duration measured = fabric::from_ns(1'000'000);
};

struct LoadResult {
  checker::Estimate mops;    ///< millions of operations per second
  checker::Estimate gbytes;  ///< tuples, Gbyte/s
};

/// In the order of the loads; each runs at a site of its own (site.h). On real machines, computing takes its real time.
[[nodiscard]] std::vector<LoadResult> run_loads(const ExperimentOptions& options, std::span<const SchemeLoad> loads);

}  // namespace sidelatch::bench
