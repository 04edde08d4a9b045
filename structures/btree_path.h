// The nodes that a B-tree operation holds: one that it reads, or one that it has latched.
#pragma once

#include "holding.h"
#include "tree_node.h"

#include <sidelatch/structures/btree.h>

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
