// Simulated machines with a B-tree on them, and workers.
#pragma once

#include "history.h"

#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/structures/btree.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace sidelatch::structures {

/// Nodes with few entries, so that a few hundred keys make several levels.
inline BTreeOptions small_nodes(std::uint64_t nodes = 4000) { return {.node_bytes = 320, .nodes = nodes}; }

class Forest {
 public:
  explicit Forest(const sync::Scheme& scheme, const BTreeOptions& options = small_nodes(), std::size_t memory_nodes = 1,
                  std::uint64_t seed = 1)
      : world({.profile = fabric::sim::load_profile("connectx5"), .seed = seed}) {
    std::vector<fabric::RemoteSpan> spans;
    for (std::size_t i = 0; i < memory_nodes; ++i) {
      nodes.push_back(&world.add_node("storage"));
      regions.push_back(nodes.back()->allocate(BTree::bytes_needed(scheme, options), fabric::Access::remote_all));
      spans.push_back(regions.back().remote());
    }
    tree = std::make_unique<BTree>(scheme, options, spans);
  }
  /// Adds a worker on a machine of its own.
  BTree::Worker& add_worker(const BTreeWorkerOptions& options = {}) {
    workers.push_back(std::make_unique<BTree::Worker>(*tree, world.add_node("client"), nodes, options));
    return *workers.back();
  }
  template <class T>
  T run(fabric::Task<T> task) {
    return world.reactor().run(std::move(task));
  }
  void spawn(fabric::Task<void> task) { world.reactor().spawn(std::move(task)); }
  void run_all() { world.reactor().run(); }
  /// Checks the whole tree after all requests have ended.
  BTreeReport check() {
    BTree::Worker& walker = add_worker();
    return run(tree->check(walker));
  }

  fabric::sim::Simulation world;
  std::vector<fabric::Node*> nodes;
  std::vector<fabric::MemoryRegion> regions;
  std::unique_ptr<BTree> tree;
  std::vector<std::unique_ptr<BTree::Worker>> workers;
};

/// A value of 8 bytes.
class Word {
 public:
  explicit Word(std::uint64_t number = 0) : number_(number) {}
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(&number_, 1)); }
  [[nodiscard]] std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(&number_, 1)); }
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  std::uint64_t number_;
};

}  // namespace sidelatch::structures
