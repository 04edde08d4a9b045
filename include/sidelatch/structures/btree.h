// BTree: a one-sided B-tree, a B-link tree. The scheme that synchronizes its nodes is a parameter.
//
//   BTree tree(scheme, {.node_bytes = 4096, .value_bytes = 8, .nodes = 100'000}, memory);  // memory[i]: of node i
//   BTree::Worker worker(tree, compute, memory_nodes);
//   Outcome outcome = co_await tree.insert(worker, 42, value);
//   outcome = co_await tree.get(worker, 42, value);
//
// Every node records which keys it may hold (its fences) and its right neighbour. A client that arrives at a node
// checks that the node is alive, is the one that the reference meant, and covers the key. If the key lies beyond the
// node, the client goes right; if another check fails, it begins again at the root. A path may therefore be stale (a
// cache, a slow client): the node at its end shows it. Sources: Lehman, Yao: Efficient Locking for Concurrent
// Operations on B-Trees, TODS 1981; TODS 2025, sections 2.4, 4.1 and figure 11 for coupling.
//
//   split    new right half written and complete -> left half shrunk and linked to it -> separator in the parent. Each
//            is one update of one node, and the tree is correct after each.
//   merge    parent, left and right latched, in this order; right marked dead -> left takes its entries -> separator
//            out of the parent -> right given back. A client that meets a dead node of an abandoned merge ends the
//            merge.
//   root     never moves: when it is full its entries move to two new children.
//
// Zeroed memory is an empty tree; no client has to prepare it.
//
// With Traversal::coupled a child is read while its parent is still held: latch coupling under latches, optimistic lock
// coupling (the parent is validated once the child has been read) under optimistic schemes. With Traversal::fences the
// parent is released first. The fences suffice, and an optimistic lookup costs one READ per level.
//
// Freed nodes can be used again at once: references carry a generation, so no operation has to wait for an epoch to
// end.
//
// Guarantees: operations on one key are linearizable, with every scheme under the presets for which docs/schemes.md
// calls it safe. A scan sees each leaf as it was at one moment, the leaves one after another. There may be several
// memory nodes. A client that dies leaves a correct tree. Its latches are taken over if sessions have leases, except
// for shared latches of an RwLatch (see lease.h). Readers that couple under an ExclusiveLatch may be taken for dead
// while they wait: use Traversal::fences there. If the revocation of a client's queue pair leaves a node half written,
// a checksum detects it: StructureError. Only optimistic/copy-on-write is safe against that.
//
// Thread-safety: no state besides the worker; one tree serves any number of workers, each on its reactor's thread.
#pragma once

#include <sidelatch/fabric/object_number.h>
#include <sidelatch/structures/client.h>
#include <sidelatch/structures/node_ref.h>
#include <sidelatch/structures/pool.h>
#include <sidelatch/structures/superblock.h>
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
/// The memory node on which a new node is placed.
enum class Placement : std::uint8_t {
  round_robin,  ///< each worker takes the memory nodes in turn
  key_range,    ///< by the new node's lowest possible key: each memory node has an equal part of all 64-bit keys
};

struct BTreeOptions {
  std::uint64_t node_bytes = 4096;           ///< of a node's record, including all that the scheme adds; 128 to 65 536
  std::uint64_t value_bytes = 8;             ///< at least 4 entries must fit a node
  std::uint64_t nodes = 0;                   ///< at each memory node; at least 4
  std::optional<sync::LayoutKind> layout{};  ///< none: the scheme's default
  Traversal traversal = Traversal::fences;
  Placement placement = Placement::round_robin;
};

struct BTreeWorkerOptions {
  sync::SessionOptions session{};          ///< of at least 6 buffers
  std::vector<sync::Revoker*> revokers{};  ///< one for each memory node, or none; see Client
  fabric::QueuePairOptions queue_pair{};
  std::size_t cached_nodes = 0;  ///< inner nodes of which the worker keeps copies; 0: none
};

/// The result of BTree::check().
struct BTreeReport {
  std::uint64_t entries = 0;
  std::uint64_t nodes = 0;               ///< linked nodes
  std::uint32_t levels = 0;              ///< of nodes, including the leaves
  std::uint64_t missing_separators = 0;  ///< nodes that their parents do not name, as after a crash; harmless
  std::uint64_t unfinished_merges = 0;   ///< of two nodes, as after a crash; harmless: who meets one finishes it
  std::uint64_t unlinked_nodes = 0;      ///< taken from the pools but neither linked nor given back: spares of workers
  std::vector<std::string> problems;     ///< empty: every invariant holds
};

class BTree {
 public:
  class Worker;

  /// Throws std::invalid_argument that names the option, its value and what is allowed; so does the constructor, and
  /// for a latch with a queue (Scheme::queues()), too.
  [[nodiscard]] static std::uint64_t bytes_needed(const sync::Scheme& scheme, const BTreeOptions& options);
  /// `memory`: bytes_needed() at each memory node. The scheme must outlive the tree.
  BTree(const sync::Scheme& scheme, const BTreeOptions& options, std::span<const fabric::RemoteSpan> memory);
  BTree(const BTree&) = delete;
  BTree& operator=(const BTree&) = delete;
  ~BTree();

  [[nodiscard]] const BTreeOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::size_t memory_nodes() const noexcept { return objects_.size(); }
  /// The nodes at that memory node; for switches, which must know them.
  [[nodiscard]] const sync::ObjectArray& objects(std::size_t memory_node) const { return objects_.at(memory_node); }
  /// The size of a worker's buffers.
  [[nodiscard]] std::uint64_t buffer_bytes() const;
  /// What the superblock of that memory node must say.
  [[nodiscard]] const Superblock& superblock(std::size_t memory_node) const { return superblocks_.at(memory_node); }
  /// The most entries of a leaf, and the most children of an inner node.
  [[nodiscard]] std::uint32_t leaf_capacity() const;
  [[nodiscard]] std::uint32_t inner_capacity() const;

  // Keys are any 64-bit numbers; `value` has options().value_bytes, else std::invalid_argument. All throw FabricError,
  // StructureError, and LatchError for a lease that is too short or a latch that may not be taken over. With a deadline
  // (SessionOptions::retry) each of them may also be timed_out.

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
  /// The first entries from key `from` on, at most keys.size() of them; `values` has room for as many, else
  /// std::invalid_argument.
  [[nodiscard]] fabric::Task<Scanned> scan(Worker& worker, std::uint64_t from, std::span<std::uint64_t> keys,
                                           std::span<std::byte> values) const;

  /// Fills an empty tree that nobody else uses meanwhile. `keys` ascend, `values` has one value for each; leaves and
  /// inner nodes are filled to the share `fill` of their capacity (0.5 to 1). done, full or timed_out; after the latter
  /// two, and after a LatchError, the tree is still empty. Throws std::invalid_argument if the tree is not empty or the
  /// keys do not ascend. The root is latched until all nodes are written, so a lease must be longer than that.
  [[nodiscard]] fabric::Task<Outcome> bulk_load(Worker& worker, std::span<const std::uint64_t> keys,
                                                std::span<const std::byte> values, double fill = 0.9) const;
  /// Walks a whole tree that nobody else uses meanwhile; nor may others have requests under way (Client::drain). The
  /// report lists the problems, 100 at most. A latch that stays held is one, unless it is an owner's and the worker has
  /// leases: it takes such a latch over, or leaves it to the next writer if the scheme's readers do not look at
  /// latches. Throws LatchError::takeover_refused for a worker with leases and without revokers that would have to.
  [[nodiscard]] fabric::Task<BTreeReport> check(Worker& worker) const;
  /// Gives back the worker's spare nodes.
  [[nodiscard]] fabric::Task<void> retire(Worker& worker) const;
  /// Brings back the nodes that a client with that owner id had taken and not linked when it died, and returns how many
  /// they were. The first ones become spare nodes of this worker: close() or retire() gives them to all. Not those of
  /// which a deadline or a torn node hides whether they are linked. Others may use the tree meanwhile. Revokes the
  /// owner first: name only a client that is dead. All workers of the tree must have owner ids. A worker that finds no
  /// free node does it by itself for owners that it has revoked. Throws LatchError::takeover_refused for a worker
  /// without revokers, std::invalid_argument for one without owner id.
  [[nodiscard]] fabric::Task<std::uint64_t> sweep(Worker& worker, std::uint16_t dead_owner) const;

 private:
  struct Found;
  struct Latched;
  class Unlinked;
  struct Swept;
  enum class Linked : std::uint8_t { no, yes, unknown };
  [[nodiscard]] fabric::Task<void> open(Worker& worker) const;
  [[nodiscard]] bool is_open(const Client& client) const noexcept { return client.has_opened(number_); }
  enum class Change : std::uint8_t { insert, put, update, remove };

  [[nodiscard]] sync::Object object(NodeRef ref) const;
  [[nodiscard]] sync::Session& session(Worker& worker, NodeRef ref) const;

  // btree_path.cpp: paths to nodes.
  [[nodiscard]] fabric::Task<sync::ReadGuard> read_node(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<Latched> latch_node(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<Found> descend(Worker& worker, std::uint64_t key, std::uint16_t level) const;
  [[nodiscard]] fabric::Task<Found> try_descend(Worker& worker, std::uint64_t key, std::uint16_t level) const;
  [[nodiscard]] fabric::Task<Latched> latch_covering(Worker& worker, std::uint64_t key, std::uint16_t level) const;
  static void remember(Worker& worker, NodeRef ref, std::span<const std::byte> payload);
  // The same while another node is latched: not done if another client has the node.
  [[nodiscard]] fabric::Task<Latched> latch_beside(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<sync::ReadGuard> read_beside(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<Outcome> give_way(Worker& worker, NodeRef busy) const;
  [[nodiscard]] fabric::Task<bool> is_held(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<bool> wait_for(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<bool> let_go(sync::ReadGuard& guard) const;

  // btree_balance.cpp: splits; btree_merge.cpp: merges.
  [[nodiscard]] fabric::Task<Outcome> make_room(Worker& worker, Latched& full, std::uint64_t key) const;
  struct SplitPoint {
    std::optional<std::size_t> at{};
    Outcome outcome = Outcome::done;
  };
  [[nodiscard]] fabric::Task<SplitPoint> split_point(Worker& worker, Latched& full, std::size_t at) const;
  [[nodiscard]] fabric::Task<NodeRef> held_spare(Worker& worker) const;
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
  [[nodiscard]] fabric::Task<void> revive(Worker& worker, Latched& parent, Latched& dead) const;
  [[nodiscard]] fabric::Task<bool> has_left_its_level(Worker& worker, NodeRef ref, std::uint64_t low) const;
  static void note_merge(Worker& worker, bool written);
  [[nodiscard]] fabric::Task<void> absorb(Worker& worker, Latched& parent, std::size_t index, Latched& left,
                                          Latched& right) const;
  [[nodiscard]] fabric::Task<Outcome> spare_is_free(Worker& worker, Latched& none) const;
  [[nodiscard]] fabric::Task<Latched> new_node(Worker& worker, std::uint64_t low) const;
  [[nodiscard]] std::size_t place_for(const Worker& worker, std::uint64_t low) const;
  [[nodiscard]] bool has_in_hand(const Worker& worker, std::size_t wanted, std::uint64_t low) const;
  [[nodiscard]] fabric::Task<Outcome> stock(Worker& worker, std::size_t wanted, std::uint64_t low) const;
  [[nodiscard]] fabric::Task<Outcome> take_spares(Worker& worker, std::size_t memory_node, std::size_t most) const;
  [[nodiscard]] fabric::Task<Outcome> give_back_spares(Worker& worker, std::size_t memory_node, std::size_t kept) const;
  [[nodiscard]] fabric::Task<void> give_back_surplus(Worker& worker) const;
  [[nodiscard]] fabric::Task<Linked> is_linked(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<Swept> sweep_owner(Worker& worker, std::uint16_t dead_owner) const;
  [[nodiscard]] fabric::Task<Swept> sweep_all_dead(Worker& worker) const;
  void forget_stuck_spares(Worker& worker) const;
  [[nodiscard]] fabric::Task<void> free_node(Worker& worker, NodeRef ref) const;
  [[nodiscard]] fabric::Task<bool> write(Worker& worker, Latched& node) const;
  [[nodiscard]] fabric::Task<bool> write_both(Worker& worker, Latched& first, Latched& second) const;

  // btree_load.cpp: bulk loads.
  struct Load;
  [[nodiscard]] fabric::Task<Latched> latch_empty_root(Worker& worker) const;
  [[nodiscard]] fabric::Task<Outcome> stock_for(Worker& worker, const Load& load) const;
  [[nodiscard]] fabric::Task<Outcome> make_levels(Worker& worker, Load& load) const;
  [[nodiscard]] fabric::Task<Outcome> load_under(Worker& worker, Latched& root, Load& load) const;
  [[nodiscard]] fabric::Task<Outcome> try_load(Worker& worker, Load& load) const;

  [[nodiscard]] fabric::Task<Outcome> change(Worker& worker, std::uint64_t key, std::span<const std::byte> value,
                                             Change what) const;
  void require_value(std::size_t bytes) const;
  [[noreturn]] void throw_damaged(NodeRef ref, const char* what) const;

  const sync::Scheme* scheme_;
  BTreeOptions options_;
  std::unique_ptr<const NodeFormat> format_;
  std::vector<sync::ObjectArray> objects_;  // by memory node
  std::vector<Pool> pools_;
  std::vector<fabric::RemoteSpan> heads_;  // of the memory at each memory node
  std::vector<Superblock> superblocks_;
  std::uint64_t number_ = fabric::next_object_number();
};

/// One worker of a tree: its connections to the memory nodes, its cache, and spare nodes for splits.
class BTree::Worker : public Client {
 public:
  /// The tree must outlive the worker. Another tree throws std::invalid_argument if it is given this worker. Throws as
  /// Client, and std::invalid_argument for another number of memory nodes than the tree's, and for too few buffers.
  Worker(const BTree& tree, fabric::Node& node, std::span<fabric::Node* const> memory_nodes,
         const BTreeWorkerOptions& options = {});
  /// Gives back the spare nodes, too, as BTree::retire() does: it latches the pools, so it may wait for their latches
  /// and throw LatchError. A session with a deadline may keep some. Without close(), or after a move assignment, the
  /// spare nodes of a worker stay taken (BTreeReport::unlinked_nodes).
  [[nodiscard]] fabric::Task<void> close() override;

 private:
  friend class BTree;
  void begin_operation() {
    Client::begin_operation();
    slow_merges_ = 0;
  }

  const BTree* tree_;
  std::size_t most_cached_;
  std::unordered_map<std::uint64_t, std::vector<std::byte>> cache_;  // payloads of inner nodes, by NodeRef
  std::vector<std::vector<std::uint64_t>> spares_;                   // objects, by memory node
  std::vector<bool> seen_full_;                                      // memory nodes whose pools were empty
  std::size_t turn_ = 0;                                             // the memory node whose turn it is
  std::uint32_t slow_merges_ = 0;  // of the operation under way, that took longer than the lease
};

}  // namespace sidelatch::structures
