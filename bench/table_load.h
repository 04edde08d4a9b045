// Workers that use a perfectly sized hash table on several memory nodes, through a scheme, as fast as they can. The
// papers measure a disaggregated store like this (TODS 2025, sections 3.5 and 4.6).
#pragma once

#include "workload.h"

#include <sidelatch/bench/experiment.h>
#include <sidelatch/checker/batch_means.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/sync/layout.h>
#include <sidelatch/sync/retry.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::sync {
class Scheme;
}

namespace sidelatch::bench {

struct TableLoad {
  std::function<std::unique_ptr<sync::Scheme>()> make;
  sync::LayoutKind layout = sync::LayoutKind::padded;
  std::uint64_t tuple_bytes = 256;  ///< bytes of a record, including latch, version and all else that the scheme adds
  std::uint64_t tuples = 20'000'000;
  std::uint32_t workers = 112;
  std::uint32_t client_nodes = 4;
  std::uint32_t memory_nodes = 4;
  bool colocated = true;  ///< the clients run on the memory nodes, as those of the papers' store
  Mix mix = kReadOnly;    ///< reads, updates and read-modify-writes
  /// Of the Zipf distribution. A worker draws a memory node, and then one of its tuples: each node has a most
  /// popular tuple, as in the papers.
  double exponent = 0;
  std::optional<Practice> practice{};  ///< default: the experiment's
  std::optional<sync::Retry> retry{};  ///< default: as the practice says
  fabric::Duration warm_up = fabric::from_ns(500'000);
  fabric::Duration measured = fabric::from_ns(4'000'000);
};

struct TableResult {
  checker::Estimate mops;  ///< millions of operations per second, from twenty windows of the measured time
};

/// In the order of the loads; each runs at a site of its own (site.h). Untouched tuples cost nothing. A page of 4 KiB
/// that is written or latched stays allocated until its simulation ends. Throws std::invalid_argument for a load
/// without workers or nodes, or with inserts or scans.
[[nodiscard]] std::vector<TableResult> run_table_loads(const ExperimentOptions& options,
                                                       std::span<const TableLoad> loads);

}  // namespace sidelatch::bench
