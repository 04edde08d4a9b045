// The YCSB core workloads A to F on the hash table and the B-tree, by scheme. This is no paper's figure. It exercises
// the structures beyond the papers' experiments: inserted keys, chains, splits and scans.
//
// All clients follow one Zipf distribution (workload.h). A client may draw a key that another one has only begun to
// insert and then does not find it. As in YCSB, that counts as a normal operation.
#include "ycsb.h"

#include "experiments.h"
#include "site.h"
#include "workload.h"

#include <sidelatch/structures/btree.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;
using namespace sync;
using structures::BTree;
using structures::BTreeOptions;
using structures::Client;
using structures::HashTable;
using structures::HashTableOptions;
using structures::Outcome;

namespace {

struct Line {
  const char* name;
  std::unique_ptr<Scheme> (*make)();
};

// Latches at their best, and optimistic schemes whose writers unlatch by a WRITE, as OPT-DB in TODS 2025, section 4.6.
constexpr std::array kLines = {
    Line{"latch-rw/async", []() -> std::unique_ptr<Scheme> { return std::make_unique<RwLatch>(); }},
    Line{"two-read", []() -> std::unique_ptr<Scheme> { return std::make_unique<TwoReadVersion>(WriteUnlatch::async); }},
    Line{"crc64", []() -> std::unique_ptr<Scheme> { return std::make_unique<Crc64>(WriteUnlatch::async); }},
    Line{"farm", []() -> std::unique_ptr<Scheme> { return std::make_unique<FarmLineVersions>(WriteUnlatch::async); }},
};

// The maximal number of keys, including inserted ones.
std::uint64_t room(const YcsbScale& scale) { return scale.records + scale.records / 4 + scale.workers; }

// The differences between the structures for the load: options, clients, and scans. Otherwise both have the same
// operations.
struct ChainedTable {
  using Structure = HashTable;
  using Worker = Client;

  static HashTableOptions options(const YcsbScale& scale) {
    return {.value_bytes = scale.value_bytes, .capacity = room(scale)};
  }
  static std::uint64_t bytes_needed(const Scheme& scheme, const YcsbScale& scale) {
    return HashTable::bytes_needed(scheme, options(scale), scale.memory_nodes);
  }
  static std::unique_ptr<Client> connect(const HashTable& table, const Site& site, std::uint32_t worker) {
    return std::make_unique<Client>(
        site.node_of(worker), site.memory_nodes(), table.buffer_bytes(),
        SessionOptions{.buffers = 4, .retry = site.retry({}), .seed = site.seed_of(worker)});
  }
  static Task<Outcome> scan(const HashTable& /*table*/, Client& /*client*/, std::uint64_t /*from*/,
                            std::span<std::uint64_t> /*keys*/, std::span<std::byte> /*values*/) {
    throw std::invalid_argument("a hash table has no scans");
  }
};

struct Tree {
  using Structure = BTree;
  using Worker = BTree::Worker;

  static BTreeOptions options(const YcsbScale& scale) {
    constexpr std::uint64_t kNode = 4096;
    // For half-full leaves at worst, plus inner nodes; shared by the memory nodes.
    const std::uint64_t entries_per_leaf = kNode / (scale.value_bytes + 16) / 2;
    const std::uint64_t nodes = room(scale) / entries_per_leaf / scale.memory_nodes + 64;
    return {.node_bytes = kNode, .value_bytes = scale.value_bytes, .nodes = nodes};
  }
  static std::uint64_t bytes_needed(const Scheme& scheme, const YcsbScale& scale) {
    return BTree::bytes_needed(scheme, options(scale));
  }
  static std::unique_ptr<BTree::Worker> connect(const BTree& tree, const Site& site, std::uint32_t worker) {
    constexpr std::size_t kCached = 1000;  // all inner nodes of a million records
    return std::make_unique<BTree::Worker>(
        tree, site.node_of(worker), site.memory_nodes(),
        structures::BTreeWorkerOptions{.session = {.retry = site.retry({}), .seed = site.seed_of(worker)},
                                       .cached_nodes = kCached});
  }
  static Task<Outcome> scan(const BTree& tree, BTree::Worker& worker, std::uint64_t from, std::span<std::uint64_t> keys,
                            std::span<std::byte> values) {
    const BTree::Scanned scanned = co_await tree.scan(worker, from, keys, values);
    co_return scanned.outcome;
  }
};

// A process's own share of the inserted keys; it does not know other processes' keys.
struct Keys {
  std::uint64_t initial = 0;
  Rank rank;

  [[nodiscard]] std::uint64_t operator()(std::uint64_t drawn) const {
    return drawn < initial ? drawn : initial + (drawn - initial) * rank.ranks + rank.rank;
  }
};

struct Buffers {
  std::vector<std::byte> value;
  std::vector<std::uint64_t> keys;
  std::vector<std::byte> values;
};

template <class Kind>
Task<Outcome> perform(const typename Kind::Structure& structure, typename Kind::Worker& worker, Operation operation,
                      std::uint64_t key, Buffers& buffers) {
  using enum Operation::Kind;
  Outcome outcome = Outcome::done;
  if (operation.kind == scan) {
    const std::span<std::uint64_t> keys = std::span(buffers.keys).first(operation.scan_length);
    outcome = co_await Kind::scan(structure, worker, key, keys,
                                  std::span(buffers.values).first(keys.size() * buffers.value.size()));
    co_return outcome;
  }
  if (operation.kind == insert) {
    outcome = co_await structure.insert(worker, key, buffers.value);
    co_return outcome;
  }
  if (operation.kind != update) {
    outcome = co_await structure.get(worker, key, buffers.value);
    if (operation.kind == read || outcome != Outcome::done) {
      co_return outcome;
    }
  }
  buffers.value.front() = static_cast<std::byte>(std::to_integer<unsigned>(buffers.value.front()) + 1);
  outcome = co_await structure.update(worker, key, buffers.value);
  co_return outcome;
}

template <class Kind>
Task<void> work(const typename Kind::Structure& structure, typename Kind::Worker& worker, Reactor& reactor,
                Workload workload, const YcsbScale& scale, Keys keys, checker::Windows& windows) {
  constexpr std::size_t kLongestScan = Mix{}.longest_scan;
  Buffers buffers{.value = std::vector<std::byte>(scale.value_bytes),
                  .keys = std::vector<std::uint64_t>(kLongestScan),
                  .values = std::vector<std::byte>(kLongestScan * scale.value_bytes)};
  while (!windows.over(reactor.now())) {
    const Operation operation = workload.next();
    const std::uint64_t key = keys(operation.key);
    const Outcome outcome = co_await perform<Kind>(structure, worker, operation, key, buffers);
    const bool under_way = outcome == Outcome::absent && operation.key >= scale.records;
    if (outcome != Outcome::done && !under_way) {
      throw std::runtime_error(fmt::format("key {}: {}", key, structures::name(outcome)));
    }
    windows.count(reactor.now());
  }
  co_await worker.drain();
}

template <class Kind>
Task<Outcome> fill(const typename Kind::Structure& structure, typename Kind::Worker& loader,
                   std::span<const std::uint64_t> keys, std::span<const std::byte> values) {
  const Outcome outcome = co_await structure.bulk_load(loader, keys, values);
  co_await loader.drain();
  co_return outcome;
}

template <class Kind>
void load(const typename Kind::Structure& structure, const YcsbScale& scale, const Site& site) {
  std::vector<std::uint64_t> keys(scale.records);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  const std::vector<std::byte> values(scale.records * scale.value_bytes);
  const std::unique_ptr<typename Kind::Worker> loader = Kind::connect(structure, site, 0);
  const Outcome outcome = site.reactor().run(fill<Kind>(structure, *loader, keys, values));
  if (outcome != Outcome::done) {
    throw std::runtime_error(fmt::format("the structure was not filled: {}", structures::name(outcome)));
  }
}

template <class Kind>
checker::Estimate measure(const YcsbScale& scale, const Scheme& scheme, char workload, Site& site) {
  const typename Kind::Structure structure(scheme, Kind::options(scale),
                                           site.allocate(Kind::bytes_needed(scheme, scale)));
  if (site.rank().rank == 0) {
    load<Kind>(structure, scale, site);
  }
  const std::vector<std::uint32_t> numbers = site.own_workers(scale.workers);
  std::vector<std::unique_ptr<typename Kind::Worker>> workers;
  workers.reserve(numbers.size());
  for (const std::uint32_t number : numbers) {
    workers.push_back(Kind::connect(structure, site, number));
  }
  KeySpace drawn(scale.records, scale.records + (room(scale) - scale.records) / site.rank().ranks);
  try {
    return site.measure(workers.size(), [&](std::size_t i, checker::Windows& windows) {
      return work<Kind>(structure, *workers[i], site.reactor(),
                        Workload(ycsb(workload), kYcsbExponent, drawn, site.seed_of(numbers[i])), scale,
                        {scale.records, site.rank()}, windows);
    });
  } catch (const std::length_error&) {
    throw std::runtime_error(
        fmt::format("YCSB {}: {} inserts are done, and there is room for no more: measure for a "
                    "shorter time",
                    workload, room(scale) - scale.records));
  }
}

template <class Kind>
ExperimentResult run(const char* name, const ExperimentOptions& options, const YcsbScale& scale,
                     const std::string& workloads) {
  if (scale.records == 0 || scale.workers == 0) {
    throw std::invalid_argument(
        fmt::format("YCSB with {} records and {} workers: there must be 1 of each", scale.records, scale.workers));
  }
  struct Load {
    const Line* line;
    char workload;
  };
  std::vector<Load> loads;
  for (const Line& line : kLines) {
    for (const char workload : workloads) {
      loads.push_back({&line, workload});
    }
  }
  std::vector<checker::Estimate> mops(loads.size());
  run_points(
      options, loads.size(),
      [&](std::size_t) {
        return SiteShape{.memory_nodes = scale.memory_nodes, .warm_up = scale.warm_up, .measured = scale.measured};
      },
      [&](Site& site, std::size_t i) {
        const std::unique_ptr<Scheme> scheme = loads[i].line->make();
        mops[i] = measure<Kind>(scale, *scheme, loads[i].workload, site);
      });

  ExperimentResult result = begin_result(name, options, "workload", Scale::categories);
  for (const char workload : workloads) {
    result.x_names.emplace_back(1, workload);
  }
  for (std::size_t l = 0; l < kLines.size(); ++l) {
    Series series{.name = kLines.at(l).name, .unit = "Mops/s"};
    for (std::size_t x = 0; x < workloads.size(); ++x) {
      series.points.push_back(point(static_cast<double>(x + 1), mops[l * workloads.size() + x]));
    }
    result.series.push_back(std::move(series));
  }
  return result;
}

}  // namespace

ExperimentResult ycsb_hash_table(const ExperimentOptions& options, const YcsbScale& scale) {
  std::string workloads = scale.workloads;
  std::erase(workloads, 'E');
  return run<ChainedTable>("ycsb-hash-table", options, scale, workloads);
}

ExperimentResult ycsb_btree(const ExperimentOptions& options, const YcsbScale& scale) {
  return run<Tree>("ycsb-btree", options, scale, scale.workloads);
}

ExperimentResult ycsb_hash_table(const ExperimentOptions& options) { return ycsb_hash_table(options, YcsbScale{}); }

ExperimentResult ycsb_btree(const ExperimentOptions& options) { return ycsb_btree(options, YcsbScale{}); }

}  // namespace sidelatch::bench
