#include "table_load.h"

#include <sidelatch/bench/cluster.h>
#include <sidelatch/checker/parallel.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/structures/client.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/sync/scheme.h>

#include <fmt/format.h>

#include <array>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;
using namespace sync;
using structures::Client;
using structures::HashTable;
using structures::HashTableOptions;
using structures::Outcome;

namespace {

constexpr std::int64_t kWindows = 20;
using Windows = std::array<double, kWindows>;  // how many operations ended in each

// How many operations ended within each window of the measured time.
class Tally {
 public:
  Tally(Time begins, Duration measured) : begins_(begins), measured_(measured) {}

  [[nodiscard]] bool over(Time now) const { return now >= begins_ + measured_; }
  void count(Time now) {
    if (now >= begins_ && !over(now)) {
      ++counts_.at(static_cast<std::size_t>((now - begins_).count() * kWindows / measured_.count()));
    }
  }
  [[nodiscard]] const Windows& counts() const { return counts_; }

 private:
  Time begins_;
  Duration measured_;
  Windows counts_{};
};

Task<Outcome> perform(const HashTable& table, Client& client, Operation operation, std::span<std::byte> value) {
  if (operation.kind != Operation::Kind::update) {
    const Outcome outcome = co_await table.get(client, operation.key, value);
    if (outcome != Outcome::done || operation.kind == Operation::Kind::read) {
      co_return outcome;
    }
  }
  value.front() = static_cast<std::byte>(std::to_integer<unsigned>(value.front()) + 1);
  const Outcome outcome = co_await table.update(client, operation.key, value);
  co_return outcome;
}

Task<void> work(const HashTable& table, Client& client, Workload workload, std::uint64_t value_bytes, Tally& tally) {
  Reactor& reactor = client.reactor();
  std::vector<std::byte> value(value_bytes);
  while (!tally.over(reactor.now())) {
    const Operation operation = workload.next();
    const Outcome outcome = co_await perform(table, client, operation, value);
    if (outcome != Outcome::done) {
      throw std::runtime_error(
          fmt::format("tuple {}: {}; did a client die with its latch?", operation.key, structures::name(outcome)));
    }
    tally.count(reactor.now());
  }
  co_await client.drain();
}

void validate(const TableLoad& load) {
  if (load.workers == 0 || load.client_nodes == 0 || load.memory_nodes == 0) {
    throw std::invalid_argument(fmt::format("{} workers, {} client nodes, {} memory nodes: there must be 1 of each",
                                            load.workers, load.client_nodes, load.memory_nodes));
  }
  if (load.mix.insert > 0 || load.mix.scan > 0) {
    throw std::invalid_argument("a table load with inserts or scans: a perfectly sized table has neither");
  }
}

HashTableOptions table_options(const TableLoad& load, const Scheme& scheme) {
  return {.addressing = structures::Addressing::perfect,
          .value_bytes = scheme.largest_payload(load.tuple_bytes, load.layout),
          .capacity = load.tuples,
          .layout = load.layout};
}

// The workers whose number leaves `process` when divided by `processes`.
struct Share {
  std::uint32_t process = 0;
  std::uint32_t processes = 1;
};

struct World {
  std::span<Node* const> clients;
  std::span<Node* const> memory_nodes;
  std::span<const RemoteSpan> memory;
  Share share;
  Retry retry;
  std::uint64_t seed;
  Duration warm_up;
  Duration measured;
  std::function<void()> all_connected;
};

Windows run_workers(const TableLoad& load, const Scheme& scheme, const World& world) {
  const HashTableOptions options = table_options(load, scheme);
  const HashTable table(scheme, options, world.memory);
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::uint64_t> seeds;
  for (std::uint32_t w = world.share.process; w < load.workers; w += world.share.processes) {
    seeds.push_back(world.seed * 1000 + w);
    clients.push_back(
        std::make_unique<Client>(*world.clients[w % world.clients.size()], world.memory_nodes, table.buffer_bytes(),
                                 SessionOptions{.buffers = 4, .retry = world.retry, .seed = seeds.back()}));
  }
  world.all_connected();
  Reactor& reactor = world.memory_nodes.front()->reactor();
  Tally tally(reactor.now() + world.warm_up, world.measured);
  KeySpace keys(load.tuples);
  const Reactor::Scope tasks(reactor);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    reactor.spawn(
        work(table, *clients[i], Workload(load.mix, load.exponent, keys, seeds[i]), options.value_bytes, tally));
  }
  reactor.run();
  return tally.counts();
}

TableResult result_of(Windows operations, Duration measured) {
  for (double& window : operations) {
    window *= 1e6 * static_cast<double>(kWindows) / static_cast<double>(measured.count());
  }
  return {batch_means(operations)};
}

TableResult run_in_simulation(const sim::Profile& profile, std::uint64_t seed, const TableLoad& load) {
  sim::Simulation simulation({.profile = profile, .seed = seed});
  std::vector<Node*> memory_nodes;
  for (std::uint32_t i = 0; i < load.memory_nodes; ++i) {
    memory_nodes.push_back(&simulation.add_node("memory"));
  }
  std::vector<Node*> clients;
  for (std::uint32_t i = 0; i < load.client_nodes; ++i) {
    clients.push_back(&simulation.add_node("client"));
  }
  const std::unique_ptr<Scheme> scheme = load.make();
  const std::uint64_t bytes = HashTable::bytes_needed(*scheme, table_options(load, *scheme), load.memory_nodes);
  std::vector<MemoryRegion> regions;
  std::vector<RemoteSpan> memory;
  for (Node* node : memory_nodes) {
    regions.push_back(node->allocate(bytes, Access::remote_all));
    memory.push_back(regions.back().remote());
  }
  const Windows counts = run_workers(load, *scheme,
                                     {.clients = clients,
                                      .memory_nodes = memory_nodes,
                                      .memory = memory,
                                      .share = {},
                                      .retry = load.retry,
                                      .seed = seed,
                                      .warm_up = load.warm_up,
                                      .measured = load.measured,
                                      .all_connected = [] {}});
  return result_of(counts, load.measured);
}

TableResult run_on_nics(Cluster& cluster, std::uint64_t seed, const TableLoad& load) {
  const Cluster::Options& options = cluster.options();
  const std::unique_ptr<Scheme> scheme = load.make();
  const std::uint64_t bytes = HashTable::bytes_needed(*scheme, table_options(load, *scheme), load.memory_nodes);
  // One server plays all memory nodes.
  const std::vector<Node*> memory_nodes(load.memory_nodes, &cluster.storage());
  std::vector<std::unique_ptr<Cluster::SharedMemory>> regions;
  std::vector<RemoteSpan> memory;
  for (std::uint32_t i = 0; i < load.memory_nodes; ++i) {
    regions.push_back(std::make_unique<Cluster::SharedMemory>(cluster, bytes));
    memory.push_back(regions.back()->remote());
  }
  Windows counts = run_workers(load, *scheme,
                               {.clients = cluster.clients(),
                                .memory_nodes = memory_nodes,
                                .memory = memory,
                                .share = {options.rank, options.ranks},
                                .retry = load.retry.within(options.limit),
                                .seed = seed,
                                .warm_up = options.warm_up,
                                .measured = options.measured,
                                .all_connected = [&cluster] { cluster.barrier(); }});
  for (double& window : counts) {
    window = cluster.sum(window);
  }
  return result_of(counts, options.measured);
}

}  // namespace

std::vector<TableResult> run_table_loads(const ExperimentOptions& options, std::span<const TableLoad> loads) {
  for (const TableLoad& load : loads) {
    validate(load);
  }
  std::vector<TableResult> results(loads.size());
  if (options.cluster != nullptr) {
    for (std::size_t i = 0; i < loads.size(); ++i) {
      results[i] = run_on_nics(*options.cluster, options.seed + i, loads[i]);
    }
    return results;
  }
  const sim::Profile profile = sim::load_profile(options.profile);
  checker::for_each_index(loads.size(),
                          [&](std::size_t i) { results[i] = run_in_simulation(profile, options.seed + i, loads[i]); });
  return results;
}

}  // namespace sidelatch::bench
