// The nodes that a B-tree operation holds: one that it reads, or one that it has latched.
#pragma once

#include "holding.h"
#include "tree_node.h"

#include <sidelatch/structures/btree.h>

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
/// spare again then, if `node` is one. The session gives back its latch; see forget_stuck_spares().
class BTree::Unlinked {
 public:
  Unlinked(Worker& worker, const Latched& node) noexcept
      : worker_(node ? &worker : nullptr), reactor_(&worker.reactor()), ref_(node.ref) {}
  Unlinked(const Unlinked&) = delete;
  Unlinked& operator=(const Unlinked&) = delete;
  ~Unlinked() {
    const bool may_be_linked = linking_ != nullptr && !linking_->guard;
    if (worker_ != nullptr && !may_be_linked && !reactor_->abandons_tasks()) {
      worker_->spares_[ref_.memory_node()].push_back(ref_.object());
    }
  }
  /// `node`, which outlives this object, will lead to it: as long as it is latched, it has not been written.
  void link_begins(const Latched& node) noexcept { linking_ = &node; }
  /// It was not written.
  void link_failed() noexcept { linking_ = nullptr; }

 private:
  Worker* worker_;
  fabric::Reactor* reactor_;
  NodeRef ref_;
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
