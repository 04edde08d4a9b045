// TODS 2025, figure 11: lookups in a B-tree with nodes of 4 KiB on one memory node, by workers on four client nodes. It
// compares latches, optimistic schemes, and no synchronization; parents are not held while children are read. The paper
// does not give its tree's size; this tree has a million entries of 16 bytes, which makes three levels.
#include "experiments.h"
#include "site.h"
#include "unsynchronised.h"
#include "workload.h"

#include <sidelatch/fabric/sim/profile.h>
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
constexpr Duration kWarmUp = from_ns(500'000);
constexpr Duration kMeasured = from_ns(2'000'000);
// Random spread of the workers' start times. If all started at once, they would stay in step, and a window would hold
// whole steps.
constexpr double kSpreadNs = 200'000;

struct Line {
  std::string name;
  std::function<std::unique_ptr<Scheme>()> make;
};

struct Load {
  const Line* line = nullptr;
  Practice practice = Practice::paper;
  std::uint32_t workers = 1;
};

struct Result {
  checker::Estimate mops;
  checker::Estimate gbytes;  // payload of the READs, Gbyte/s
};

BTreeOptions tree_options() {
  return {.node_bytes = 4096, .value_bytes = 8, .nodes = 8192, .traversal = structures::Traversal::fences};
}

Task<void> fill(const BTree& tree, BTree::Worker& worker) {
  std::vector<std::uint64_t> keys(kKeys);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  const Outcome outcome = co_await tree.bulk_load(worker, keys, std::as_bytes(std::span(keys)));
  if (outcome != Outcome::done) {
    throw std::runtime_error(fmt::format("the tree was not filled: {}", structures::name(outcome)));
  }
}

Task<void> look_up(const BTree& tree, BTree::Worker& worker, Workload workload, checker::Windows& windows) {
  Reactor& reactor = worker.reactor();
  const double share = static_cast<double>(worker.session(0).random() % 1000) / 1000;
  co_await reactor.sleep(from_ns(kSpreadNs * share));
  std::array<std::byte, 8> value{};
  while (!windows.over(reactor.now())) {
    const Operation operation = workload.next();
    const Outcome outcome = co_await tree.get(worker, operation.key, value);
    if (outcome != Outcome::done) {
      throw std::runtime_error(fmt::format("key {}: {}", operation.key, structures::name(outcome)));
    }
    windows.count(reactor.now());
  }
  co_await worker.drain();
}

double bytes_read(const std::vector<std::unique_ptr<BTree::Worker>>& workers) {
  double bytes = 0;
  for (const auto& worker : workers) {
    bytes += static_cast<double>(worker->statistics().bytes_read);
  }
  return bytes;
}

// What the workers read in each window. Lookups do not tell: those that end in the measured time may have read before
// it, so their bytes may be more than the link can carry.
Task<void> count_bytes(Reactor& reactor, const std::vector<std::unique_ptr<BTree::Worker>>& workers, Time begins,
                       Duration measured, checker::Windows::Counts& counts) {
  co_await reactor.sleep(begins - reactor.now());
  double before = bytes_read(workers);
  for (std::size_t window = 0; window < counts.size(); ++window) {
    const Duration end = measured * static_cast<std::int64_t>(window + 1) / static_cast<std::int64_t>(counts.size());
    co_await reactor.sleep(std::max(begins + end - reactor.now(), Duration{0}));
    const double now = bytes_read(workers);
    counts.at(window) = now - before;
    before = now;
  }
}

Result measure(const Load& load, Site& site) {
  const std::unique_ptr<Scheme> scheme = load.line->make();
  const BTree tree(*scheme, tree_options(), site.allocate(BTree::bytes_needed(*scheme, tree_options())));
  if (site.rank().rank == 0) {
    BTree::Worker loader(tree, *site.clients()[0], site.memory_nodes());
    site.reactor().run(fill(tree, loader));
  }
  const std::vector<std::uint32_t> numbers = site.own_workers(load.workers);
  std::vector<std::unique_ptr<BTree::Worker>> workers;
  workers.reserve(numbers.size());
  for (const std::uint32_t w : numbers) {
    workers.push_back(std::make_unique<BTree::Worker>(
        tree, site.node_of(w), site.memory_nodes(),
        structures::BTreeWorkerOptions{
            .session = {.retry = site.retry(retry_of(load.practice)), .seed = site.seed_of(w)},
            .queue_pair = queue_pair_options(load.practice)}));
  }
  KeySpace keys(kKeys);
  checker::Windows::Counts bytes{};
  const checker::Estimate mops = site.measure(numbers.size() + 1, [&](std::size_t i, checker::Windows& windows) {
    return i == numbers.size()
               ? count_bytes(site.reactor(), workers, site.reactor().now() + site.warm_up(), site.measured(), bytes)
               : look_up(tree, *workers[i], Workload(kReadOnly, 0, keys, site.seed_of(numbers[i])), windows);
  });
  return {mops, site.mops(bytes).times(1e-3)};  // from millions of bytes per second
}

// What the simulated link can carry of nodes, in Gbyte/s: each packet has headers.
double most_gbytes_of_nodes(const sim::Profile::Link& link) {
  const std::uint64_t node = tree_options().node_bytes;
  const std::uint64_t packets = (node + link.mtu - 1) / link.mtu;
  return link.gbps / 8 * static_cast<double>(node) / static_cast<double>(node + packets * link.header_bytes);
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
      loads.push_back({&line, options.practice, workers});
    }
  }
  std::vector<Result> seen(loads.size());
  run_points(
      options, loads.size(), [](std::size_t) { return SiteShape{.warm_up = kWarmUp, .measured = kMeasured}; },
      [&](Site& site, std::size_t i) { seen[i] = measure(loads[i], site); });
  const Curves mops(kWorkers, seen, &Result::mops);
  const Curves gbytes(kWorkers, seen, &Result::gbytes);

  ExperimentResult result = begin_result("btree-lookups", options, "workers");
  for (std::size_t l = 0; l < lines; ++l) {
    result.series.push_back(mops.series(l, all.at(l).name, "Mops/s"));
  }
  // "Saturates the link" means: at least 95 % of what it can carry. The rate of a real link is not known here: there it
  // is the highest rate of any line.
  const auto best = [&](std::size_t line) { return gbytes.highest(line); };
  const bool is_real = options.cluster != nullptr;
  const double link = is_real ? std::max({best(pessimistic), best(farm), best(two_read), best(unsynchronised)})
                              : most_gbytes_of_nodes(sim::load_profile(options.profile).link);
  const std::string of_link = fmt::format("of {:.2f}{}", link, is_real ? ", the highest rate here" : "");
  constexpr double kFull = 0.95;
  result.targets.push_back(
      shape_target("N13.unsynchronised", gbytes.at(unsynchronised, 16) >= kFull * link,
                   fmt::format("16 workers: {:.2f} Gbyte/s {}", gbytes.at(unsynchronised, 16), of_link)));
  result.targets.push_back(shape_target("N13.optimistic", best(farm) >= kFull * link,
                                        fmt::format("at best {:.2f} Gbyte/s {}", best(farm), of_link)));
  // A NIC on which nobody fills the link shows nothing about latches.
  result.targets.push_back(shape_target("N13.pessimistic",
                                        best(pessimistic) < kFull * link && best(unsynchronised) >= kFull * link,
                                        fmt::format("at best {:.2f} Gbyte/s {}", best(pessimistic), of_link)));
  return result;
}

}  // namespace sidelatch::bench
