// The nodes that a B-tree operation holds: one that it reads, or one that it has latched.
#pragma once

#include "holding.h"
#include "tree_node.h"

#include <sidelatch/structures/btree.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace sidelatch::structures {

/// The root never moves.
inline constexpr NodeRef kRoot = NodeRef::of(0, 0, 0);

inline constexpr const char* kTornNode =
    "its last writer died within a WRITE, and its entries are lost; only optimistic/copy-on-write survives that";

/// A node that was read, if `outcome` is done. Absent if the tree has no such level.
struct BTree::Found {
  Outcome outcome = Outcome::done;
  NodeRef ref{};
  sync::ReadGuard guard{};
  bool lost = false;     // the path led to a node that does not cover the key
  bool is_dead = false;  // because it was merged; `level` and `low` are the dead node's then
  std::uint16_t level = 0;
  std::uint64_t low = 0;
};

/// A node that is latched exclusively, if `outcome` is done. Absent if the tree has no such level.
struct BTree::Latched {
  Outcome outcome = Outcome::done;
  NodeRef ref{};
  sync::ExclusiveGuard guard{};
  bool moved_right = false;  // its parent did not name it

  Latched() = default;
  explicit Latched(Outcome why) : outcome(why) {}
  Latched(NodeRef node, sync::ExclusiveGuard&& held) : ref(node), guard(std::move(held)) {
    outcome = guard ? Outcome::done : Outcome::timed_out;
  }
  Latched(Latched&&) = default;
  Latched& operator=(Latched&&) = default;
  Latched(const Latched&) = delete;
  Latched& operator=(const Latched&) = delete;
  ~Latched() = default;

  [[nodiscard]] explicit operator bool() const noexcept { return outcome == Outcome::done; }
};

/// A node that a worker has taken from its spares, and to which nothing leads yet. However the operation ends, it is a
/// spare again then.
class BTree::Unlinked {
 public:
  Unlinked(Worker& worker, const Latched& node) noexcept
      : worker_(&worker), reactor_(&worker.reactor()), ref_(node.ref), fate_(node ? Fate::spare : Fate::none) {}
  Unlinked(const Unlinked&) = delete;
  Unlinked& operator=(const Unlinked&) = delete;
  ~Unlinked() {
    const bool may_be_linked = linking_ != nullptr && !linking_->guard;
    if (fate_ == Fate::none || may_be_linked || reactor_->abandons_tasks()) {
      return;
    }
    // If the connection fails while the node is unlatched, a session without an owner id may hold the latch for ever.
    const std::size_t memory_node = ref_.memory_node();
    if (fate_ == Fate::spare || worker_->session(memory_node).options().owner != 0) {
      worker_->spares_[memory_node].push_back(ref_.object());
    }
  }
  /// Call them around what ends the node's latch.
  void unlatch_begins() noexcept { fate_ = fate_ == Fate::spare ? Fate::in_doubt : fate_; }
  void is_unlatched() noexcept { fate_ = fate_ == Fate::in_doubt ? Fate::spare : fate_; }
  /// `node`, which outlives this object, will lead to it: as long as it is latched, it has not been written.
  void link_begins(const Latched& node) noexcept { linking_ = &node; }
  /// It was not written.
  void link_failed() noexcept {
    linking_ = nullptr;
    fate_ = Fate::spare;
  }

 private:
  // As wide as a pointer: a world that explores would tell states apart by the padding in a coroutine's frame.
  enum class Fate : std::uint64_t { none, spare, in_doubt };
  Worker* worker_;
  fabric::Reactor* reactor_;
  NodeRef ref_;
  Fate fate_;
  const Latched* linking_ = nullptr;
};

/// What a sweep has done.
struct BTree::Swept {
  std::uint64_t count = 0;
  bool complete = true;  // false: of some nodes nobody knows, since the deadline passed
};

/// Whether the node at `ref` is the one that was meant, alive and whole.
[[nodiscard]] inline bool is_meant(NodeRef ref, const NodeHeader& node) noexcept {
  return !node.dead() && !node.torn() && node.generation == ref.generation();
}
/// Whether the node at `ref` is the one that was meant, and its entries are moving to its left neighbour.
[[nodiscard]] inline bool is_merged(NodeRef ref, const NodeHeader& node) noexcept {
  return node.dead() && !node.torn() && node.generation == ref.generation();
}
/// Whether the node at `ref` is the one that was meant, torn by a dead client.
[[nodiscard]] inline bool is_torn(NodeRef ref, const NodeHeader& node) noexcept {
  return node.torn() && node.generation == ref.generation();
}

}  // namespace sidelatch::structures
