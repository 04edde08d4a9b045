// The CPU cost at a client of finding a key in a node of 4 KiB that it has read: the branch-free search of the B-tree
// against std::lower_bound on the same keys in the same order. The counter `ratio` is measured within the run and says
// how many times as fast as std::lower_bound the search is. `leaf_lookup` is a whole leaf lookup as in the tree,
// including header and value.
#include <sidelatch/structures/node_search.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace sidelatch::structures;

constexpr std::uint64_t kNodeBytes = 4096;
constexpr std::size_t kNodes = 64;  // 256 KiB: in the second-level cache, like data that the NIC has just delivered
constexpr std::size_t kProbes = 4096;

// The keys of full leaves with values of 8 bytes, and some of these keys in random order.
struct Leaves {
  static constexpr std::size_t kKeys = kNodeBytes / 16;
  std::vector<std::vector<std::uint64_t>> leaves;
  struct Probe {
    std::size_t leaf;
    std::uint64_t key;
  };
  std::vector<Probe> probes;

  Leaves() {
    std::mt19937_64 random(7);
    for (std::size_t n = 0; n < kNodes; ++n) {
      std::vector<std::uint64_t>& keys = leaves.emplace_back();
      for (std::uint64_t key = random() % 100; keys.size() < kKeys; key += 1 + random() % 100) {
        keys.push_back(key);
      }
    }
    for (std::size_t i = 0; i < kProbes; ++i) {
      const std::size_t n = random() % kNodes;
      probes.push_back({n, leaves[n][random() % kKeys]});
    }
  }
  [[nodiscard]] std::span<const std::uint64_t> keys(std::size_t n) const { return leaves[n]; }
};

template <class Search>
std::uint64_t search_all(const Leaves& leaves, Search search) {
  std::uint64_t sum = 0;
  for (const Leaves::Probe& probe : leaves.probes) {
    sum += search(leaves.keys(probe.leaf), probe.key);
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

}  // namespace
