// BTree: a one-sided B-tree, a B-link tree. The scheme that synchronizes its nodes is a parameter.
//
//   BTree tree(scheme, {.node_bytes = 4096, .value_bytes = 8, .nodes = 100'000}, memory);  // memory[i]: of node i
//   BTree::Worker worker(tree, compute, memory_nodes);
//   Outcome outcome = co_await tree.insert(worker, 42, value);
//   outcome = co_await tree.get(worker, 42, value);
//
// Every node says which keys it may hold (its fences) and what its right neighbour is. Whoever arrives at a node checks
// that it is alive, is the one that the reference meant, and covers the key: if the key lies beyond, it goes right; if
// not, it has lost its way and begins again at the root. So a path may be stale (a cache, a slow client) and is found
// out by what it leads to. Sources: Lehman, Yao: Efficient Locking for Concurrent Operations on B-Trees, TODS 1981;
// TODS 2025, sections 2.4, 4.1 and figure 11 for coupling.
//
//   split    new right half written and complete -> left half shrunk and linked to it -> separator in the parent. Each
//            is one update of one node, and after each the tree is right.
//   merge    parent, left and right latched, in this order; right marked dead -> left takes its entries -> separator
//            out of the parent -> right given back. Whoever meets a dead node that its merger left behind ends the
//            merge.
//   root     lies where it lies for ever: when it is full its entries move to two new children.
//
// Zeroed memory is an empty tree; no client has to prepare it.
//
// With Traversal::coupled a child is read while its parent is still held: latch coupling under latches, optimistic lock
// coupling (the parent is validated once the child has been read) under optimistic schemes. With Traversal::fences the
// parent is let go first; the fences suffice, and an optimistic lookup costs one READ per level.
//
// Freed nodes can be used again at once: references carry a generation, so nothing has to wait for an epoch to end.
//
// Guarantees: operations on one key are linearizable, with every scheme under the presets for which docs/schemes.md
// calls it safe. A scan sees each leaf as it was at one moment, the leaves one after the other. Memory nodes may be
// several. A client that dies leaves a right tree; its latches are taken over if sessions have leases (but for the
// shared ones of an RwLatch, see lease.h; and readers that couple under an ExclusiveLatch may be taken for dead while
// they wait: take Traversal::fences there). What it had half written when its queue pair was revoked is found by a
// checksum: StructureError. Only optimistic/copy-on-write is safe against that.
//
// Thread-safety: no state beside the worker; one tree serves any number of workers, each on its reactor's thread.
#pragma once

#include <sidelatch/structures/client.h>
#include <sidelatch/structures/node_ref.h>
#include <sidelatch/structures/pool.h>
#include <sidelatch/sync/scheme.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace sidelatch::structures {

struct NodeFormat;

enum class Traversal : std::uint8_t { fences, coupled };
/// On which memory node a new node is put.
enum class Placement : std::uint8_t {
  round_robin,  ///< by turns, at each worker
  key_range,    ///< by the lowest key that it may hold: each memory node has an equal part of all 64-bit keys
};

struct BTreeOptions {
  std::uint64_t node_bytes = 4096;           ///< of a node's record, all that the scheme adds included; 128 to 65 536
  std::uint64_t value_bytes = 8;             ///< at least 4 entries must fit a node
  std::uint64_t nodes = 0;                   ///< at each memory node; at least 4
  std::optional<sync::LayoutKind> layout{};  ///< none: the scheme's default
  Traversal traversal = Traversal::fences;
  Placement placement = Placement::round_robin;
};

struct BTreeWorkerOptions {
  sync::SessionOptions session{};
  std::vector<sync::Revoker*> revokers{};  ///< one for each memory node, or none; see Client
  fabric::QueuePairOptions queue_pair{};
  std::size_t cached_nodes = 0;  ///< inner nodes that the worker keeps copies of; 0: none
};

/// What BTree::check() found.
struct BTreeReport {
  std::uint64_t entries = 0;
  std::uint64_t nodes = 0;               ///< that are linked
  std::uint32_t levels = 0;              ///< of nodes, with the leaves
  std::uint64_t missing_separators = 0;  ///< nodes that their parents do not name, as after a crash; that is no problem
  std::uint64_t unlinked_nodes = 0;      ///< taken from the pools, and neither linked nor given back: spares of workers
  std::vector<std::string> problems;     ///< empty: every invariant holds
};

class BTree {
 public:
  class Worker;

  /// Throws std::invalid_argument that names the option, its value and what is allowed; the same for the constructor.
  [[nodiscard]] static std::uint64_t bytes_needed(const sync::Scheme& scheme, const BTreeOptions& options);
  /// `memory`: bytes_needed() at each memory node. The scheme must outlive the tree.
  BTree(const sync::Scheme& scheme, const BTreeOptions& options, std::span<const fabric::RemoteSpan> memory);
  BTree(const BTree&) = delete;
  BTree& operator=(const BTree&) = delete;
  ~BTree();

  [[nodiscard]] const BTreeOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::size_t memory_nodes() const noexcept { return objects_.size(); }
  /// Of a worker's buffers.
  [[nodiscard]] std::uint64_t buffer_bytes() const;
  /// How many entries a leaf may have, and how many children an inner node.
  [[nodiscard]] std::uint32_t leaf_capacity() const;
  [[nodiscard]] std::uint32_t inner_capacity() const;

  /// Keys are any 64-bit numbers; `value` has options().value_bytes, else std::invalid_argument. All throw FabricError,
  /// StructureError, and LatchError for a lease that is too short or a latch that may not be taken over.
  /// done or absent.
  [[nodiscard]] fabric::Task<Outcome> get(Worker& worker, std::uint64_t key, std::span<std::byte> value) const;
  /// done, present or full.
  [[nodiscard]] fabric::Task<Outcome> insert(Worker& worker, std::uint64_t key, std::span<const std::byte> value) const;
  /// Inserts or overwrites: done or full.
  [[nodiscard]] fabric::Task<Outcome> put(Worker& worker, std::uint64_t key, std::span<const std::byte> value) const;
  /// done or absent.
  [[nodiscard]] fabric::Task<Outcome> update(Worker& worker, std::uint64_t key, std::span<const std::byte> value) const;
  /// done or absent.
  [[nodiscard]] fabric::Task<Outcome> remove(Worker& worker, std::uint64_t key) const;

  struct Scanned {
    Outcome outcome = Outcome::done;  ///< done or timed_out
    std::size_t count = 0;            ///< entries, in ascending order
  };
  /// The first entries from key `from` on, at most keys.size() of them; `values` has room for as many.
  [[nodiscard]] fabric::Task<Scanned> scan(Worker& worker, std::uint64_t from, std::span<std::uint64_t> keys,
                                           std::span<std::byte> values) const;

  /// Fills an empty tree that nobody else uses meanwhile. `keys` ascend, `values` has one for each; leaves and inner
  /// nodes are filled to `fill` of what they can hold (0.5 to 1). done, full or timed_out; after the latter two the
  /// tree is still empty. Throws std::invalid_argument if the tree is not empty or the keys do not ascend.
  [[nodiscard]] fabric::Task<Outcome> bulk_load(Worker& worker, std::span<const std::uint64_t> keys,
                                                std::span<const std::byte> values, double fill = 0.9) const;
  /// Walks all of a tree that nobody changes meanwhile. Problems are in the report, as many as are needed to see what
  /// is wrong (100 at most).
  [[nodiscard]] fabric::Task<BTreeReport> check(Worker& worker) const;
  /// Gives back the nodes that the worker keeps in hand.
  [[nodiscard]] fabric::Task<void> retire(Worker& worker) const;

 private:
  struct Found;
  struct Latched;
  enum class Change : std::uint8_t { insert, put, update, remove };

  [[nodiscard]] sync::Object object(NodeRef ref) const;
  [[nodiscard]] sync::Session& session(Worker& worker, NodeRef ref) const;

  // btree_path.cpp: ways to a node.
  [[nodiscard]] fabric::Task<sync::ReadGuard> read_node(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<Latched> latch_node(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<Found> descend(Worker& worker, std::uint64_t key, std::uint16_t level) const;
  [[nodiscard]] fabric::Task<Found> try_descend(Worker& worker, std::uint64_t key, std::uint16_t level) const;
  [[nodiscard]] fabric::Task<Latched> latch_covering(Worker& worker, std::uint64_t key, std::uint16_t level) const;
  static void remember(Worker& worker, NodeRef ref, std::span<const std::byte> payload);
  [[nodiscard]] fabric::Task<bool> is_held(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<bool> wait_for(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<bool> let_go(sync::ReadGuard& guard) const;

  // btree_balance.cpp: splits and merges.
  [[nodiscard]] fabric::Task<Outcome> make_room(Worker& worker, Latched& full, std::uint64_t key) const;
  struct SplitPoint {
    std::optional<std::size_t> at{};
    Outcome outcome = Outcome::done;
  };
  [[nodiscard]] fabric::Task<SplitPoint> split_point(Worker& worker, Latched& full, std::size_t at) const;
  [[nodiscard]] fabric::Task<NodeRef> held_spare(Worker& worker) const;
  [[nodiscard]] fabric::Task<Latched> stocked_node(Worker& worker, std::uint64_t low) const;
  [[nodiscard]] fabric::Task<Outcome> split(Worker& worker, Latched& full, std::size_t kept) const;
  [[nodiscard]] fabric::Task<Outcome> split_root(Worker& worker, Latched& root, std::size_t half) const;
  [[nodiscard]] fabric::Task<Outcome> add_separator(Worker& worker, std::uint16_t level, std::uint64_t key,
                                                    NodeRef child) const;
  [[nodiscard]] fabric::Task<void> merge_around(Worker& worker, std::uint16_t level, std::uint64_t key) const;
  enum class Merged : std::uint8_t { enough, this_level_again, level_above };
  [[nodiscard]] fabric::Task<Merged> merge_once(Worker& worker, std::uint16_t level, std::uint64_t key) const;
  [[nodiscard]] fabric::Task<Merged> merge_pair(Worker& worker, Latched& parent, std::size_t index) const;
  [[nodiscard]] fabric::Task<void> collapse_root(Worker& worker, Latched& root) const;
  [[nodiscard]] fabric::Task<void> end_merge(Worker& worker, NodeRef dead, std::uint16_t level,
                                             std::uint64_t low) const;
  [[nodiscard]] fabric::Task<void> absorb(Worker& worker, Latched& parent, std::size_t index, Latched& left,
                                          Latched& right) const;
  [[nodiscard]] fabric::Task<Latched> new_node(Worker& worker, std::uint64_t low) const;
  [[nodiscard]] std::size_t place_for(const Worker& worker, std::uint64_t low) const;
  [[nodiscard]] bool has_in_hand(const Worker& worker, std::size_t wanted, std::uint64_t low) const;
  [[nodiscard]] fabric::Task<Outcome> stock(Worker& worker, std::size_t wanted, std::uint64_t low) const;
  [[nodiscard]] fabric::Task<void> free_node(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<bool> write(Worker& worker, Latched& node) const;
  [[nodiscard]] fabric::Task<bool> write_both(Worker& worker, Latched& first, Latched& second) const;

  [[nodiscard]] fabric::Task<Outcome> change(Worker& worker, std::uint64_t key, std::span<const std::byte> value,
                                             Change what) const;
  void require_value(std::size_t bytes) const;
  [[noreturn]] void throw_damaged(NodeRef ref, const char* what) const;

  const sync::Scheme* scheme_;
  BTreeOptions options_;
  std::unique_ptr<const NodeFormat> format_;
  std::vector<sync::ObjectArray> objects_;  // by memory node
  std::vector<Pool> pools_;
};

/// One worker of a tree: its way to the memory nodes, what it has cached, and nodes that it has in hand for splits.
class BTree::Worker : public Client {
 public:
  /// The tree must outlive the worker.
  Worker(const BTree& tree, fabric::Node& node, std::span<fabric::Node* const> memory_nodes,
         const BTreeWorkerOptions& options = {});

 private:
  friend class BTree;

  std::size_t most_cached_;
  std::unordered_map<std::uint64_t, std::vector<std::byte>> cache_;  // payloads of inner nodes, by NodeRef
  std::vector<std::vector<std::uint64_t>> spares_;                   // objects, by memory node
  std::vector<bool> seen_full_;                                      // whose pools had nothing more to give
  std::size_t turn_ = 0;                                             // of the memory nodes
};

}  // namespace sidelatch::structures
