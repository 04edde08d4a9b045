// The YCSB core workloads A to F on the hash table and the B-tree, by scheme. No paper's figure: what the structures do
// when they are more than the papers' experiments need, with keys that are inserted, chains, splits and scans.
//
// All clients follow one Zipf distribution (workload.h). A key that one client has begun to insert may be drawn by
// another, which then does not find it; as in YCSB that is an operation like any other.
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

// The keys that there may be, inserted ones included.
std::uint64_t room(const YcsbScale& scale) { return scale.records + scale.records / 4 + scale.workers; }

// One client's way to a structure.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;
  virtual Task<Outcome> get(std::uint64_t key, std::span<std::byte> value) = 0;
  virtual Task<Outcome> update(std::uint64_t key, std::span<const std::byte> value) = 0;
  virtual Task<Outcome> insert(std::uint64_t key, std::span<const std::byte> value) = 0;
  virtual Task<Outcome> scan(std::uint64_t from, std::span<std::uint64_t> keys, std::span<std::byte> values) = 0;
  virtual Task<void> drain() = 0;
};

// A structure in the memory of a site.
class Structure {
 public:
  Structure() = default;
  Structure(const Structure&) = delete;
  Structure& operator=(const Structure&) = delete;
  virtual ~Structure() = default;
  [[nodiscard]] virtual std::unique_ptr<Store> connect(const Site& site, std::uint32_t worker) const = 0;
  [[nodiscard]] virtual Task<Outcome> fill(const Site& site, std::span<const std::uint64_t> keys,
                                           std::span<const std::byte> values) const = 0;
};

class ChainedTable : public Structure {
 public:
  ChainedTable(const Scheme& scheme, const YcsbScale& scale, Site& site)
      : table_(scheme, options(scale),
               site.allocate(HashTable::bytes_needed(scheme, options(scale), scale.memory_nodes))) {}

  [[nodiscard]] std::unique_ptr<Store> connect(const Site& site, std::uint32_t worker) const override {
    return std::make_unique<Worker>(table_, site, worker);
  }
  [[nodiscard]] Task<Outcome> fill(const Site& site, std::span<const std::uint64_t> keys,
                                   std::span<const std::byte> values) const override {
    Client loader(*site.clients()[0], site.memory_nodes(), table_.buffer_bytes());
    const Outcome outcome = co_await table_.bulk_load(loader, keys, values);
    co_await loader.drain();
    co_return outcome;
  }

 private:
  class Worker : public Store {
   public:
    Worker(const HashTable& table, const Site& site, std::uint32_t worker)
        : table_(&table),
          client_(*site.clients()[worker % site.clients().size()], site.memory_nodes(), table.buffer_bytes(),
                  SessionOptions{.buffers = 4, .retry = site.retry({}), .seed = site.seed_of(worker)}) {}
    Task<Outcome> get(std::uint64_t key, std::span<std::byte> value) override {
      return table_->get(client_, key, value);
    }
    Task<Outcome> update(std::uint64_t key, std::span<const std::byte> value) override {
      return table_->update(client_, key, value);
    }
    Task<Outcome> insert(std::uint64_t key, std::span<const std::byte> value) override {
      return table_->insert(client_, key, value);
    }
    Task<Outcome> scan(std::uint64_t /*from*/, std::span<std::uint64_t> /*keys*/,
                       std::span<std::byte> /*values*/) override {
      throw std::invalid_argument("a hash table has no scans");
    }
    Task<void> drain() override { return client_.drain(); }

   private:
    const HashTable* table_;
    Client client_;
  };

  static HashTableOptions options(const YcsbScale& scale) {
    return {.value_bytes = scale.value_bytes, .capacity = room(scale)};
  }

  HashTable table_;
};

class Tree : public Structure {
 public:
  Tree(const Scheme& scheme, const YcsbScale& scale, Site& site)
      : tree_(scheme, options(scale), site.allocate(BTree::bytes_needed(scheme, options(scale)))) {}

  [[nodiscard]] std::unique_ptr<Store> connect(const Site& site, std::uint32_t worker) const override {
    return std::make_unique<Worker>(tree_, site, worker);
  }
  [[nodiscard]] Task<Outcome> fill(const Site& site, std::span<const std::uint64_t> keys,
                                   std::span<const std::byte> values) const override {
    BTree::Worker loader(tree_, *site.clients()[0], site.memory_nodes());
    const Outcome outcome = co_await tree_.bulk_load(loader, keys, values);
    co_await loader.drain();
    co_return outcome;
  }

 private:
  class Worker : public Store {
   public:
    Worker(const BTree& tree, const Site& site, std::uint32_t worker)
        : tree_(&tree),
          worker_(tree, *site.clients()[worker % site.clients().size()], site.memory_nodes(),
                  {.session = {.retry = site.retry({}), .seed = site.seed_of(worker)}, .cached_nodes = kCached}) {}
    Task<Outcome> get(std::uint64_t key, std::span<std::byte> value) override {
      return tree_->get(worker_, key, value);
    }
    Task<Outcome> update(std::uint64_t key, std::span<const std::byte> value) override {
      return tree_->update(worker_, key, value);
    }
    Task<Outcome> insert(std::uint64_t key, std::span<const std::byte> value) override {
      return tree_->insert(worker_, key, value);
    }
    Task<Outcome> scan(std::uint64_t from, std::span<std::uint64_t> keys, std::span<std::byte> values) override {
      const BTree::Scanned scanned = co_await tree_->scan(worker_, from, keys, values);
      co_return scanned.outcome;
    }
    Task<void> drain() override { return worker_.drain(); }

   private:
    static constexpr std::size_t kCached = 1000;  // all inner nodes of a million records
    const BTree* tree_;
    BTree::Worker worker_;
  };

  static BTreeOptions options(const YcsbScale& scale) {
    constexpr std::uint64_t kNode = 4096;
    // Leaves half full at worst, and inner nodes; shared by the memory nodes.
    const std::uint64_t entries_per_leaf = kNode / (scale.value_bytes + 16) / 2;
    const std::uint64_t nodes = room(scale) / entries_per_leaf / scale.memory_nodes + 64;
    return {.node_bytes = kNode, .value_bytes = scale.value_bytes, .nodes = nodes};
  }

  BTree tree_;
};

// A process's own part of the keys that are inserted: it knows of no other's.
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

Task<Outcome> perform(Store& store, Operation operation, std::uint64_t key, Buffers& buffers) {
  using enum Operation::Kind;
  Outcome outcome = Outcome::done;
  if (operation.kind == scan) {
    const std::span<std::uint64_t> keys = std::span(buffers.keys).first(operation.scan_length);
    outcome = co_await store.scan(key, keys, std::span(buffers.values).first(keys.size() * buffers.value.size()));
    co_return outcome;
  }
  if (operation.kind == insert) {
    outcome = co_await store.insert(key, buffers.value);
    co_return outcome;
  }
  if (operation.kind != update) {
    outcome = co_await store.get(key, buffers.value);
    if (operation.kind == read || outcome != Outcome::done) {
      co_return outcome;
    }
  }
  buffers.value.front() = static_cast<std::byte>(std::to_integer<unsigned>(buffers.value.front()) + 1);
  outcome = co_await store.update(key, buffers.value);
  co_return outcome;
}

Task<void> work(Store& store, Reactor& reactor, Workload workload, const YcsbScale& scale, Keys keys,
                checker::Windows& windows) {
  constexpr std::size_t kLongestScan = Mix{}.longest_scan;
  Buffers buffers{.value = std::vector<std::byte>(scale.value_bytes),
                  .keys = std::vector<std::uint64_t>(kLongestScan),
                  .values = std::vector<std::byte>(kLongestScan * scale.value_bytes)};
  while (!windows.over(reactor.now())) {
    const Operation operation = workload.next();
    const std::uint64_t key = keys(operation.key);
    const Outcome outcome = co_await perform(store, operation, key, buffers);
    const bool under_way = outcome == Outcome::absent && operation.key >= scale.records;
    if (outcome != Outcome::done && !under_way) {
      throw std::runtime_error(fmt::format("key {}: {}", key, structures::name(outcome)));
    }
    windows.count(reactor.now());
  }
  co_await store.drain();
}

void load(const Structure& structure, const YcsbScale& scale, const Site& site) {
  std::vector<std::uint64_t> keys(scale.records);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  const std::vector<std::byte> values(scale.records * scale.value_bytes);
  Outcome outcome = Outcome::done;
  site.reactor().run([](const Structure& what, const Site& where, std::span<const std::uint64_t> all,
                        std::span<const std::byte> zeros, Outcome& ended) -> Task<void> {
    ended = co_await what.fill(where, all, zeros);
  }(structure, site, keys, values, outcome));
  if (outcome != Outcome::done) {
    throw std::runtime_error(fmt::format("the structure was not filled: {}", structures::name(outcome)));
  }
}

checker::Estimate measure(const Structure& structure, const YcsbScale& scale, char workload, Site& site) {
  const Rank rank = site.rank();
  if (rank.rank == 0) {
    load(structure, scale, site);
  }
  std::vector<std::unique_ptr<Store>> stores;
  std::vector<std::uint64_t> seeds;
  for (std::uint32_t w = rank.rank; w < scale.workers; w += rank.ranks) {
    stores.push_back(structure.connect(site, w));
    seeds.push_back(site.seed_of(w));
  }
  site.meet();
  checker::Windows windows = site.windows();
  KeySpace drawn(scale.records, scale.records + (room(scale) - scale.records) / rank.ranks);
  try {
    const Reactor::Scope tasks(site.reactor());
    for (std::size_t i = 0; i < stores.size(); ++i) {
      site.reactor().spawn(work(*stores[i], site.reactor(), Workload(ycsb(workload), kYcsbExponent, drawn, seeds[i]),
                                scale, {scale.records, rank}, windows));
    }
    site.reactor().run();
  } catch (const std::length_error&) {
    throw std::runtime_error(
        fmt::format("YCSB {}: {} inserts are done, and there is room for no more: measure for a "
                    "shorter time",
                    workload, room(scale) - scale.records));
  }
  return site.mops(windows.counts());
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
        const Kind structure(*scheme, scale, site);
        mops[i] = measure(structure, scale, loads[i].workload, site);
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
