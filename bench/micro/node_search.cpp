// What a client's CPU spends on finding a key in a node of 4 KiB that it has read: the branch-free search of the
// B-tree, and std::lower_bound on the same keys in the same order. The counter `ratio` is measured within the run: how
// many times as fast as std::lower_bound. A lookup of a whole leaf as the tree does it, header and value included, is
// `leaf_lookup`.
#include "structures/tree_node.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace sidelatch::structures;

constexpr std::uint64_t kNodeBytes = 4096;
constexpr std::size_t kNodes = 64;  // 256 KiB: in the second-level cache, as what the NIC has just delivered
constexpr std::size_t kProbes = 4096;

struct Leaves {
  NodeFormat format{.payload_bytes = kNodeBytes - 64, .value_bytes = 8};
  std::vector<std::vector<std::byte>> payloads;
  struct Probe {
    std::size_t node;
    std::uint64_t key;
  };
  std::vector<Probe> probes;

  Leaves() {
    std::mt19937_64 random(7);
    for (std::size_t n = 0; n < kNodes; ++n) {
      std::vector<std::byte>& payload = payloads.emplace_back(format.payload_bytes);
      NodeEdit node(format, payload);
      node.clear(0);
      std::uint64_t key = 0;
      while (node.header.count < node.capacity()) {
        key += 1 + random() % 100;
        node.insert(node.header.count, key, std::as_bytes(std::span(&key, 1)));
      }
      node.finish();
    }
    for (std::size_t i = 0; i < kProbes; ++i) {
      const std::size_t n = random() % kNodes;
      const NodeView node(format, payloads[n]);
      probes.push_back({n, node.keys()[random() % node.header.count]});
    }
  }
  [[nodiscard]] std::span<const std::uint64_t> keys(std::size_t n) const {
    return NodeView(format, payloads[n]).keys();
  }
};

template <class Search>
std::uint64_t search_all(const Leaves& leaves, Search search) {
  std::uint64_t sum = 0;
  for (const Leaves::Probe& probe : leaves.probes) {
    sum += search(leaves.keys(probe.node), probe.key);
  }
  return sum;
}

std::size_t by_lower_bound(std::span<const std::uint64_t> keys, std::uint64_t key) {
  return static_cast<std::size_t>(std::ranges::lower_bound(keys, key) - keys.begin());
}

template <class Search>
double seconds_of(const Leaves& leaves, Search search) {
  const auto begin = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(search_all(leaves, search));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void branch_free(benchmark::State& state) {
  const Leaves leaves;
  double ours = 0;
  double theirs = 0;
  for (auto _ : state) {
    ours += seconds_of(leaves, count_less);
    theirs += seconds_of(leaves, by_lower_bound);
  }
  state.counters["ratio"] = theirs / ours;
  state.counters["ns"] = ours / static_cast<double>(state.iterations()) / kProbes * 1e9;
  state.counters["lower_bound_ns"] = theirs / static_cast<double>(state.iterations()) / kProbes * 1e9;
}
BENCHMARK(branch_free);

void leaf_lookup(benchmark::State& state) {
  const Leaves leaves;
  std::size_t next = 0;
  for (auto _ : state) {
    const Leaves::Probe& probe = leaves.probes[next++ % kProbes];
    const NodeView node(leaves.format, leaves.payloads[probe.node]);
    const auto at = node.find(probe.key);
    std::uint64_t value = 0;
    std::memcpy(&value, node.value(at.value_or(0)).data(), 8);
    benchmark::DoNotOptimize(value);
  }
}
BENCHMARK(leaf_lookup);

}  // namespace
