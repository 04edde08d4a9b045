// TODS 2025, figure 11: lookups in a B-tree with nodes of 4 KiB on one memory node, by workers on four client nodes:
// latch coupling, optimistic lock coupling, and no synchronization. The paper does not say how large its tree was; here
// it has a million entries of 16 bytes, which makes three levels.
#include "experiments.h"
#include "unsynchronised.h"
#include "workload.h"

#include <sidelatch/bench/cluster.h>
#include <sidelatch/checker/parallel.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/structures/btree.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;
using namespace sync;
using structures::BTree;
using structures::BTreeOptions;
using structures::Outcome;

namespace {

constexpr std::uint64_t kKeys = 1'000'000;
constexpr std::uint32_t kClientNodes = 4;
constexpr Duration kWarmUp = from_ns(500'000);
constexpr Duration kMeasured = from_ns(2'000'000);
// Of the workers' begins, at random: all at once they would stay in step, and a window would hold whole steps.
constexpr double kSpreadNs = 200'000;
constexpr double kGigabyte = 1e9;

struct Line {
  std::string name;
  std::function<std::unique_ptr<Scheme>()> make;
};

struct Load {
  const Line* line = nullptr;
  std::uint32_t workers = 1;
};

struct Result {
  double mops = 0;
  double gbytes = 0;  // of payload that was read, Gbyte/s
};

BTreeOptions tree_options() {
  return {.node_bytes = 4096, .value_bytes = 8, .nodes = 8192, .traversal = structures::Traversal::coupled};
}

Task<void> fill(const BTree& tree, BTree::Worker& worker) {
  std::vector<std::uint64_t> keys(kKeys);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  const Outcome outcome = co_await tree.bulk_load(worker, keys, std::as_bytes(std::span(keys)));
  if (outcome != Outcome::done) {
    throw std::runtime_error(fmt::format("the tree was not filled: {}", structures::name(outcome)));
  }
}

struct Window {
  Time begins;
  Time ends;
};

Task<void> look_up(const BTree& tree, BTree::Worker& worker, Workload workload, Window window, std::uint64_t& lookups) {
  Reactor& reactor = worker.reactor();
  const double share = static_cast<double>(worker.session(0).random() % 1000) / 1000;
  co_await reactor.sleep(from_ns(kSpreadNs * share));
  std::array<std::byte, 8> value{};
  while (reactor.now() < window.ends) {
    const Operation operation = workload.next();
    const Outcome outcome = co_await tree.get(worker, operation.key, value);
    if (outcome != Outcome::done) {
      throw std::runtime_error(fmt::format("key {}: {}", operation.key, structures::name(outcome)));
    }
    const Time now = reactor.now();
    lookups += now >= window.begins && now < window.ends ? 1U : 0U;
  }
  co_await worker.drain();
}

struct Site {
  Node* memory_node = nullptr;
  std::span<Node* const> clients;
  RemoteSpan memory;
  Rank rank;
  std::function<void()> meet = [] {};  // all processes
  std::uint64_t seed = 1;
  Duration warm_up;
  Duration measured;
};

// Lookups per measured time, and bytes per lookup.
std::pair<std::uint64_t, double> run_workers(const Load& load, const Scheme& scheme, const Site& site) {
  const BTree tree(scheme, tree_options(), std::span(&site.memory, 1));
  const std::array<Node*, 1> memory_nodes = {site.memory_node};
  Reactor& reactor = site.memory_node->reactor();
  if (site.rank.rank == 0) {
    BTree::Worker loader(tree, *site.clients[0], memory_nodes);
    reactor.run(fill(tree, loader));
  }
  std::vector<std::unique_ptr<BTree::Worker>> workers;
  std::vector<std::uint64_t> seeds;
  for (std::uint32_t w = site.rank.rank; w < load.workers; w += site.rank.ranks) {
    seeds.push_back(site.seed * 1000 + w);
    workers.push_back(
        std::make_unique<BTree::Worker>(tree, *site.clients[w % site.clients.size()], memory_nodes,
                                        structures::BTreeWorkerOptions{.session = {.seed = seeds.back()}}));
  }
  site.meet();
  const Window window{reactor.now() + site.warm_up, reactor.now() + site.warm_up + site.measured};
  std::uint64_t lookups = 0;
  KeySpace keys(kKeys);
  const Reactor::Scope tasks(reactor);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    reactor.spawn(look_up(tree, *workers[i], Workload(kReadOnly, 0, keys, seeds[i]), window, lookups));
  }
  reactor.run();
  structures::Statistics statistics;
  for (const auto& worker : workers) {
    statistics += worker->statistics();
  }
  const double operations = static_cast<double>(std::max<std::uint64_t>(1, statistics.operations));
  return {lookups, static_cast<double>(statistics.bytes_read) / operations};
}

Result result_of(double lookups, double bytes_per_lookup, Duration measured) {
  const double per_second = lookups / static_cast<double>(measured.count()) * 1e12;
  return {per_second / 1e6, per_second * bytes_per_lookup / kGigabyte};
}

Result run_in_simulation(const sim::Profile& profile, std::uint64_t seed, const Load& load) {
  sim::Simulation world({.profile = profile, .seed = seed});
  Node& storage = world.add_node("storage");
  std::vector<Node*> clients;
  for (std::uint32_t i = 0; i < kClientNodes; ++i) {
    clients.push_back(&world.add_node("client"));
  }
  const std::unique_ptr<Scheme> scheme = load.line->make();
  const MemoryRegion memory = storage.allocate(BTree::bytes_needed(*scheme, tree_options()), Access::remote_all);
  const auto [lookups, bytes] = run_workers(load, *scheme,
                                            {.memory_node = &storage,
                                             .clients = clients,
                                             .memory = memory.remote(),
                                             .rank = {},
                                             .seed = seed,
                                             .warm_up = kWarmUp,
                                             .measured = kMeasured});
  return result_of(static_cast<double>(lookups), bytes, kMeasured);
}

Result run_on_nics(Cluster& cluster, std::uint64_t seed, const Load& load) {
  const Cluster::Options& options = cluster.options();
  const std::unique_ptr<Scheme> scheme = load.line->make();
  const Cluster::SharedMemory memory(cluster, BTree::bytes_needed(*scheme, tree_options()));
  const auto [lookups, bytes] = run_workers(load, *scheme,
                                            {.memory_node = &cluster.storage(),
                                             .clients = cluster.clients(),
                                             .memory = memory.remote(),
                                             .rank = {options.rank, options.ranks},
                                             .meet = [&cluster] { cluster.barrier(); },
                                             .seed = seed,
                                             .warm_up = options.warm_up,
                                             .measured = options.measured});
  const double all = cluster.sum(static_cast<double>(lookups));
  return result_of(all, bytes, options.measured);
}

}  // namespace

ExperimentResult btree_lookups(const ExperimentOptions& options) {
  static constexpr std::array<std::uint32_t, 5> kWorkers = {1, 4, 16, 64, 128};
  enum : std::uint8_t { pessimistic, farm, two_read, unsynchronised, lines };
  const std::array<Line, lines> all = {{{"latch-rw/async", [] { return std::make_unique<RwLatch>(); }},
                                        {"optimistic/farm", [] { return std::make_unique<FarmLineVersions>(); }},
                                        {"optimistic/two-read", [] { return std::make_unique<TwoReadVersion>(); }},
                                        {"unsynchronised", [] { return std::make_unique<Unsynchronised>(); }}}};
  std::vector<Load> loads;
  for (const Line& line : all) {
    for (const std::uint32_t workers : kWorkers) {
      loads.push_back({&line, workers});
    }
  }
  std::vector<Result> seen(loads.size());
  if (options.cluster != nullptr) {
    for (std::size_t i = 0; i < loads.size(); ++i) {
      seen[i] = run_on_nics(*options.cluster, options.seed + i, loads[i]);
    }
  } else {
    const sim::Profile profile = sim::load_profile(options.profile);
    checker::for_each_index(loads.size(),
                            [&](std::size_t i) { seen[i] = run_in_simulation(profile, options.seed + i, loads[i]); });
  }
  const Curves mops(kWorkers, seen, &Result::mops);
  const Curves gbytes(kWorkers, seen, &Result::gbytes);

  ExperimentResult result = begin_result("btree-lookups", options, "workers");
  for (std::size_t l = 0; l < lines; ++l) {
    result.series.push_back(mops.series(l, all.at(l).name, "Mops/s"));
  }
  // "Saturates the link" is read as: at least 95 % of the most that any of them gets over it.
  const auto best = [&](std::size_t line) {
    double most = 0;
    for (const std::uint32_t workers : kWorkers) {
      most = std::max(most, gbytes.at(line, workers));
    }
    return most;
  };
  const double link = std::max({best(pessimistic), best(farm), best(two_read), best(unsynchronised)});
  constexpr double kFull = 0.95;
  result.targets.push_back(
      shape_target("N13.unsynchronised", gbytes.at(unsynchronised, 16) >= kFull * link,
                   fmt::format("16 workers: {:.2f} Gbyte/s of {:.2f}", gbytes.at(unsynchronised, 16), link)));
  result.targets.push_back(shape_target("N13.optimistic", best(farm) >= kFull * link,
                                        fmt::format("at best {:.2f} Gbyte/s of {:.2f}", best(farm), link)));
  result.targets.push_back(shape_target("N13.pessimistic", best(pessimistic) < kFull * link,
                                        fmt::format("at best {:.2f} Gbyte/s of {:.2f}", best(pessimistic), link)));
  return result;
}

}  // namespace sidelatch::bench
