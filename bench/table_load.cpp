#include "table_load.h"

#include "site.h"

#include <sidelatch/structures/client.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/sync/scheme.h>

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;
using namespace sync;
using structures::Client;
using structures::HashTable;
using structures::HashTableOptions;
using structures::Outcome;

namespace {

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

// A perfect table puts the keys on its memory nodes in turn, so a key is a memory node and a tuple there. The node is
// drawn. The papers' workers visit the nodes in turn; simulated ones, which nothing disturbs, would fall into step
// then, and all visit one node at a time.
Task<void> work(const HashTable& table, Client& client, Workload tuples, std::uint64_t value_bytes,
                checker::Windows& windows) {
  Reactor& reactor = client.reactor();
  const std::uint64_t nodes = client.memory_nodes();
  std::vector<std::byte> value(value_bytes);
  while (!windows.over(reactor.now())) {
    Operation operation = tuples.next();
    operation.key = operation.key * nodes + client.session(0).random() % nodes;
    const Outcome outcome = co_await perform(table, client, operation, value);
    if (outcome != Outcome::done) {
      throw std::runtime_error(
          fmt::format("tuple {}: {}; did a client die with its latch?", operation.key, structures::name(outcome)));
    }
    windows.count(reactor.now());
  }
  co_await client.drain();
}

void validate(const TableLoad& load) {
  if (load.workers == 0) {
    throw std::invalid_argument("a table load without workers: there must be at least 1");
  }
  if (load.tuples < load.memory_nodes) {
    throw std::invalid_argument(fmt::format("a table load of {} tuples on {} memory nodes: each must have one",
                                            load.tuples, load.memory_nodes));
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

TableResult measure(const TableLoad& load, Practice practice, Site& site) {
  const std::unique_ptr<Scheme> scheme = load.make();
  const HashTableOptions options = table_options(load, *scheme);
  const HashTable table(*scheme, options, site.allocate(HashTable::bytes_needed(*scheme, options, load.memory_nodes)));
  const std::vector<std::uint32_t> workers = site.own_workers(load.workers);
  std::vector<std::unique_ptr<Client>> clients;
  clients.reserve(workers.size());
  for (const std::uint32_t w : workers) {
    clients.push_back(std::make_unique<Client>(
        site.node_of(w), site.memory_nodes(), table.buffer_bytes(),
        SessionOptions{
            .buffers = 4, .retry = site.retry(load.retry.value_or(retry_of(practice))), .seed = site.seed_of(w)},
        queue_pair_options(practice)));
  }
  KeySpace tuples_of_a_node(load.tuples / load.memory_nodes);
  return {site.measure(workers.size(), [&](std::size_t i, checker::Windows& windows) {
    return work(table, *clients[i], Workload(load.mix, load.exponent, tuples_of_a_node, site.seed_of(workers[i])),
                options.value_bytes, windows);
  })};
}

}  // namespace

std::vector<TableResult> run_table_loads(const ExperimentOptions& options, std::span<const TableLoad> loads) {
  for (const TableLoad& load : loads) {
    validate(load);
  }
  std::vector<TableResult> results(loads.size());
  run_points(
      options, loads.size(),
      [&](std::size_t i) {
        const TableLoad& load = loads[i];
        return SiteShape{.client_nodes = load.client_nodes,
                         .memory_nodes = load.memory_nodes,
                         .colocated = load.colocated,
                         .warm_up = load.warm_up,
                         .measured = load.measured};
      },
      [&](Site& site, std::size_t i) {
        results[i] = measure(loads[i], loads[i].practice.value_or(options.practice), site);
      });
  return results;
}

}  // namespace sidelatch::bench
