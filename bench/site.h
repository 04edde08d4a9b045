// Site: where one point of an experiment is measured. It is either a simulation of its own, with client nodes and
// memory nodes on one switch, or this process's share of a cluster of real machines. A load is written once, against
// this interface.
//
//   run_points(options, loads.size(), [&](std::size_t i) { return SiteShape{.memory_nodes = 4}; },
//              [&](Site& site, std::size_t i) { results[i] = measure(site, loads[i]); });
//
// Thread-safety: a site belongs to one thread.
#pragma once

#include <sidelatch/bench/cluster.h>
#include <sidelatch/bench/experiment.h>
#include <sidelatch/checker/batch_means.h>
#include <sidelatch/fabric/memory_region.h>
#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/retry.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::bench {

struct SiteShape {
  std::uint32_t client_nodes = 4;  ///< simulated only; as in TODS 2025, section 2.4
  std::uint32_t memory_nodes = 1;
  /// Simulated only: the client nodes are the memory nodes, so one NIC has both roles. Needs as many of each.
  bool colocated = false;
  fabric::Duration warm_up = fabric::from_ns(100'000);     ///< simulated only
  fabric::Duration measured = fabric::from_ns(1'000'000);  ///< simulated only
  std::optional<fabric::sim::Profile> client_profile{};    ///< simulated only; default: the experiment's
  std::optional<fabric::sim::Profile> memory_profile{};    ///< simulated only; default: the experiment's
};

class Site {
 public:
  /// A simulation.
  Site(const SiteShape& shape, const fabric::sim::Profile& profile, std::uint64_t seed);
  /// A share of a cluster. Its server plays all memory nodes, and its options decide how long to measure.
  Site(const SiteShape& shape, Cluster& cluster, std::uint64_t seed);
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;
  ~Site();

  [[nodiscard]] std::span<fabric::Node* const> clients() const noexcept { return clients_; }
  [[nodiscard]] std::span<fabric::Node* const> memory_nodes() const noexcept { return memory_nodes_; }
  [[nodiscard]] fabric::Reactor& reactor() const { return memory_nodes_.front()->reactor(); }
  /// Zeroed memory of so many bytes at each memory node, until the site ends; the same for all processes. Untouched
  /// memory costs nothing.
  [[nodiscard]] std::vector<fabric::RemoteSpan> allocate(std::uint64_t bytes);

  /// This process has the workers whose number leaves `rank().rank` when divided by `rank().ranks`.
  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  /// The numbers of this process's workers, out of `all`.
  [[nodiscard]] std::vector<std::uint32_t> own_workers(std::uint32_t all) const;
  /// The node of this process for that worker.
  [[nodiscard]] fabric::Node& node_of(std::uint32_t worker) const { return *clients_[worker % clients_.size()]; }
  /// Throws std::logic_error on a cluster.
  [[nodiscard]] fabric::sim::Simulation& simulation() const;
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  [[nodiscard]] std::uint64_t seed_of(std::uint32_t worker) const noexcept;
  /// On a cluster it adds the deadline within which an operation must succeed, because processes may die.
  [[nodiscard]] sync::Retry retry(const sync::Retry& wanted) const;

  /// Returns when all processes have called it.
  void meet();
  [[nodiscard]] fabric::Duration warm_up() const noexcept { return warm_up_; }
  [[nodiscard]] fabric::Duration measured() const noexcept { return measured_; }
  /// Meets, then runs `count` tasks at once. They count their operations in the windows, which cover the measured time
  /// after the warm-up. Returns millions of operations per second of all processes.
  [[nodiscard]] checker::Estimate measure(
      std::size_t count, const std::function<fabric::Task<void>(std::size_t i, checker::Windows& windows)>& task);
  /// Millions of operations per second, of all processes.
  [[nodiscard]] checker::Estimate mops(const checker::Windows::Counts& counts);
  /// The sum of all processes' values.
  [[nodiscard]] double sum(double mine);

 private:
  std::unique_ptr<fabric::sim::Simulation> simulation_;
  Cluster* cluster_ = nullptr;
  Rank rank_;
  std::uint64_t seed_;
  fabric::Duration warm_up_;
  fabric::Duration measured_;
  std::vector<fabric::Node*> clients_;
  std::vector<fabric::Node*> memory_nodes_;
  std::vector<fabric::MemoryRegion> regions_;
  std::vector<std::unique_ptr<Cluster::SharedMemory>> shared_;
};

/// How a client connects, and what it does when it meets a latch, in that practice.
[[nodiscard]] fabric::QueuePairOptions queue_pair_options(Practice practice);
[[nodiscard]] sync::Retry retry_of(Practice practice);

/// Calls `job` for each of `count` points, each with its own site and seed. Simulations run on all cores, and the
/// results do not depend on the number of cores; in a cluster the points run one after the other. Reports to
/// options.progress. Throws Interrupted when options.interrupted becomes true, after the points that have begun.
void run_points(const ExperimentOptions& options, std::size_t count,
                const std::function<SiteShape(std::size_t point)>& shape_of,
                const std::function<void(Site& site, std::size_t point)>& job);

}  // namespace sidelatch::bench
