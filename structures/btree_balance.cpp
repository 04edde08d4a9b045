// Splits and merges of the B-tree's nodes. They keep the tree balanced, one node update after the other.
#include "btree_path.h"

#include <algorithm>
#include <array>
#include <limits>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

// Objects that a worker takes from a pool at once, and keeps for its next splits.
constexpr std::uint64_t kChunk = 8;
constexpr std::size_t kMostSpares = 2 * kChunk;

constexpr const char* kTooSlow =
    "the lease ended before a full node was split: nothing was written; do it again, or take longer leases";

// Both limits are fractions of a node's capacity. A node is merged below the first; a merged node is filled up to the
// second at most. They are far enough apart that a node does not split right after a merge.
[[nodiscard]] std::uint32_t merge_below(std::uint32_t capacity) { return capacity / 4; }
[[nodiscard]] std::uint32_t merged_at_most(std::uint32_t capacity) { return capacity * 3 / 4; }

// Spare objects over all memory nodes.
[[nodiscard]] std::size_t count_all(const std::vector<std::vector<std::uint64_t>>& spares) {
  std::size_t all = 0;
  for (const std::vector<std::uint64_t>& here : spares) {
    all += here.size();
  }
  return all;
}

}  // namespace

// Writes the node and unlatches it; when this returns, all clients see it. False if the latch was held for too long;
// the node was not written then.
Task<bool> BTree::write(Worker& worker, Latched& node) const {
  try {
    co_await node.guard.commit();
    co_await session(worker, node.ref).qp().drain();
    co_return true;
  } catch (const LatchError& error) {
    if (error.kind() != LatchError::Kind::lease_expired) {
      throw;
    }
  }
  co_return false;
}

// Writes the second node only if the first was written. False: both are unlatched, and the second is unchanged.
Task<bool> BTree::write_both(Worker& worker, Latched& first, Latched& second) const {
  bool written = co_await write(worker, first);
  if (written) {
    written = co_await write(worker, second);
  }
  co_await leave(second.guard);
  co_return written;
}

// The memory node for a tree node with this lowest key.
std::size_t BTree::place_for(const Worker& worker, std::uint64_t low) const {
  const std::size_t nodes = memory_nodes();
  return options_.placement == Placement::round_robin
             ? worker.turn_ % nodes
             : std::min<std::size_t>(low / (std::numeric_limits<std::uint64_t>::max() / nodes), nodes - 1);
}

bool BTree::has_in_hand(const Worker& worker, std::size_t wanted, std::uint64_t low) const {
  const std::size_t place = place_for(worker, low);
  return count_all(worker.spares_) >= wanted && (!worker.spares_[place].empty() || worker.seen_full_[place]);
}

// Takes objects from the pools until the worker has `wanted` spares, or no pool has more.
Task<Outcome> BTree::stock(Worker& worker, std::size_t wanted, std::uint64_t low) const {
  const std::size_t nodes = memory_nodes();
  const std::size_t first = place_for(worker, low);
  std::size_t all = count_all(worker.spares_);
  for (std::size_t i = 0; i < nodes; ++i) {
    std::vector<std::uint64_t>& spares = worker.spares_[(first + i) % nodes];
    while (i == 0 ? spares.empty() || all < wanted : all < wanted) {
      const Pool::Taken taken = co_await pools_[(first + i) % nodes].take(worker, kChunk);
      if (taken.outcome == Outcome::timed_out) {
        co_return taken.outcome;
      }
      worker.seen_full_[(first + i) % nodes] = taken.outcome == Outcome::full;
      if (taken.outcome == Outcome::full) {
        break;
      }
      for (std::uint64_t object = taken.count; object > 0; --object) {
        spares.push_back(taken.object + object - 1);
      }
      all += taken.count;
    }
  }
  co_return all >= wanted ? Outcome::done : Outcome::full;
}

// Latches a spare node and gives it a new generation. The placement decides its memory node; another one is used if
// that one has no spare.
Task<BTree::Latched> BTree::new_node(Worker& worker, std::uint64_t low) const {
  const std::size_t nodes = memory_nodes();
  const std::size_t first = place_for(worker, low);
  for (std::size_t i = 0; i < nodes; ++i) {
    const std::size_t memory_node = (first + i) % nodes;
    if (worker.spares_[memory_node].empty()) {
      continue;
    }
    ++worker.turn_;
    std::vector<std::uint64_t>& spares = worker.spares_[memory_node];
    const std::uint64_t object = spares.back();
    // A client with an old reference may hold the latch for a moment. The object's contents do not matter.
    ExclusiveGuard guard = co_await scheme_->latch(worker.session(memory_node), objects_[memory_node].at(object));
    if (!guard) {
      co_return Latched(Outcome::timed_out);
    }
    spares.pop_back();
    NodeEdit node(*format_, guard.payload());
    const NodeRef ref = NodeRef::of(memory_node, object, node.header.generation + 1);
    node.header = {.generation = ref.generation()};
    node.finish();
    co_return Latched(ref, std::move(guard));
  }
  co_return Latched(Outcome::full);
}

Task<void> BTree::free_node(Worker& worker, NodeRef ref) const {
  std::vector<std::uint64_t>& spares = worker.spares_[ref.memory_node()];
  worker.seen_full_[ref.memory_node()] = false;
  if (spares.size() < kMostSpares) {
    spares.push_back(ref.object());
    co_return;
  }
  // After an exception it is unknown whether the pool has the object; nobody owns it then.
  const Outcome outcome = co_await pools_[ref.memory_node()].give_back(worker, ref.object());
  if (outcome != Outcome::done) {
    spares.push_back(ref.object());
  }
}

Task<void> BTree::retire(Worker& worker) const {
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    std::vector<std::uint64_t>& spares = worker.spares_[memory_node];
    while (!spares.empty()) {
      const std::uint64_t object = spares.back();
      spares.pop_back();
      const Outcome outcome = co_await pools_[memory_node].give_back(worker, object);
      if (outcome != Outcome::done) {
        spares.push_back(object);
        co_return;  // the spares stay with the worker
      }
    }
  }
  co_await worker.drain();
}

// Splits a full node and ends its latch. Afterwards there is more room for the key, or the caller must try again.
Task<Outcome> BTree::make_room(Worker& worker, Latched& full, std::uint64_t key) const {
  // A root gets two children, another node a neighbour. While the node is latched, the pool is not asked (is_held()).
  const std::size_t wanted = full.ref == kRoot ? 2 : 1;
  if (!has_in_hand(worker, wanted, key)) {
    co_await leave(full.guard);
    const Outcome outcome = co_await stock(worker, wanted, key);
    co_return outcome;
  }
  const NodeRef busy = co_await held_spare(worker);
  if (busy) {
    co_await leave(full.guard);
    (void)co_await wait_for(worker, busy);
    co_return Outcome::done;
  }
  const NodeView node(*format_, full.guard.payload());
  const std::size_t count = node.header.count;
  // Keys that come in ascending order leave full nodes behind them, not half-empty ones.
  const bool appends = full.ref != kRoot && !node.header.right && key > node.keys().back();
  std::size_t at = appends ? count - 1 : count / 2;
  if (!node.header.is_leaf()) {
    const SplitPoint point = co_await split_point(worker, full, at);
    if (!point.at) {
      co_return point.outcome;
    }
    at = *point.at;
  }
  Outcome outcome = Outcome::done;
  if (full.ref == kRoot) {
    outcome = co_await split_root(worker, full, at);
  } else {
    outcome = co_await split(worker, full, at);
  }
  co_return outcome;
}

// A spare that is still latched by a client with an old reference, which may have died.
Task<NodeRef> BTree::held_spare(Worker& worker) const {
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    const std::vector<std::uint64_t>& spares = worker.spares_[memory_node];
    for (std::size_t i = spares.size(); i > 0 && i + 2 > spares.size(); --i) {  // the next spares to be taken
      const NodeRef ref = NodeRef::of(memory_node, spares[i - 1], 0);
      const bool held = co_await is_held(worker, ref);
      if (held) {
        co_return ref;
      }
    }
  }
  co_return NodeRef{};
}

// Where to split an inner node, near `at`. A split before a dead child would leave that child's merge unfinished,
// because the merge needs the left neighbour under the same parent. The result stays valid while the parent is latched.
// Nothing if there is no such place: the latch is ended then, and `outcome` says how the operation continues.
Task<BTree::SplitPoint> BTree::split_point(Worker& worker, Latched& full, std::size_t at) const {
  const NodeView node(*format_, full.guard.payload());
  const std::size_t count = node.header.count;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::size_t candidate = at + i < count ? at + i : count - 1 - i;
    const NodeRef child = node.child(candidate);
    const bool held = co_await is_held(worker, child);
    if (held) {
      co_await leave(full.guard);
      const bool free = co_await wait_for(worker, child);
      co_return SplitPoint{.outcome = free ? Outcome::done : Outcome::timed_out};
    }
    ReadGuard seen = co_await read_node(worker, child);
    if (!seen) {
      co_await leave(full.guard);
      co_return SplitPoint{.outcome = Outcome::timed_out};
    }
    const bool dead = NodeView(*format_, seen.payload()).header.dead();
    co_await seen.release();
    if (!dead) {
      co_return SplitPoint{.at = candidate};
    }
  }
  co_await leave(full.guard);
  co_return SplitPoint{.outcome = Outcome::full};
}

Task<Outcome> BTree::split(Worker& worker, Latched& full, std::size_t kept) const {
  NodeEdit left(*format_, full.guard.payload());
  const std::size_t count = left.header.count;
  const std::uint64_t separator = left.keys()[kept];
  Latched fresh = co_await new_node(worker, separator);
  if (!fresh) {
    co_await leave(full.guard);
    co_return fresh.outcome;
  }
  NodeEdit right(*format_, fresh.guard.payload());
  right.clear(left.header.level);
  right.header.low = separator;
  right.set_high(left.header);
  right.header.right = left.header.right;
  right.append(left, kept, count - kept);
  right.finish();
  left.truncate(kept);
  left.set_high(separator);
  left.header.right = fresh.ref;
  left.finish();
  // The right half is complete before the left one links to it. Nobody changes the right half through the parent before
  // all clients see that the left one has shrunk.
  const bool written = co_await write_both(worker, fresh, full);
  if (!written) {
    co_await free_node(worker, fresh.ref);
    throw LatchError(LatchError::Kind::lease_expired, kTooSlow);
  }
  const Outcome outcome =
      co_await add_separator(worker, static_cast<std::uint16_t>(left.header.level + 1), separator, fresh.ref);
  // Full: the parent has no room. The tree is valid without the separator, and this node has room.
  co_return outcome == Outcome::full ? Outcome::done : outcome;
}

Task<Outcome> BTree::split_root(Worker& worker, Latched& root, std::size_t half) const {
  NodeEdit node(*format_, root.guard.payload());
  const std::size_t count = node.header.count;
  const std::uint64_t separator = node.keys()[half];
  Latched first = co_await new_node(worker, 0);
  Latched second(first.outcome);
  if (first) {
    second = co_await new_node(worker, separator);
  }
  if (!second) {
    if (first) {
      co_await leave(first.guard);
      co_await free_node(worker, first.ref);
    }
    co_await leave(root.guard);
    co_return second.outcome;
  }
  NodeEdit left(*format_, first.guard.payload());
  NodeEdit right(*format_, second.guard.payload());
  for (NodeEdit* child : {&left, &right}) {
    child->clear(node.header.level);
  }
  left.set_high(separator);
  left.header.right = second.ref;
  left.append(node, 0, half);
  left.finish();
  right.header.low = separator;
  right.append(node, half, count - half);
  right.finish();
  node.clear(static_cast<std::uint16_t>(node.header.level + 1));
  node.insert(0, 0, first.ref);
  node.insert(1, separator, second.ref);
  node.finish();
  bool written = co_await write(worker, second);
  if (written) {
    written = co_await write_both(worker, first, root);
  }
  if (!written) {
    co_await leave(first.guard);
    co_await leave(root.guard);
    co_await free_node(worker, first.ref);
    co_await free_node(worker, second.ref);
    throw LatchError(LatchError::Kind::lease_expired, kTooSlow);
  }
  co_return Outcome::done;
}

// Adds `child`, whose lowest key is `key`, to its parent. Also done if that is no longer needed.
Task<Outcome> BTree::add_separator(Worker& worker, std::uint16_t level, std::uint64_t key, NodeRef child) const {
  for (;;) {
    Latched parent = co_await latch_covering(worker, key, level);
    if (!parent) {
      co_return parent.outcome == Outcome::absent ? Outcome::done : parent.outcome;
    }
    NodeEdit node(*format_, parent.guard.payload());
    if (node.find(key)) {
      co_await leave(parent.guard);
      co_return Outcome::done;
    }
    // A merge needs the latch of this parent and takes only children that it names. A live child therefore stays alive
    // while we hold this latch.
    const bool held = co_await is_held(worker, child);
    if (held) {
      co_await leave(parent.guard);
      const bool free = co_await wait_for(worker, child);
      if (!free) {
        co_return Outcome::timed_out;
      }
      continue;
    }
    ReadGuard seen = co_await read_node(worker, child);
    if (!seen) {
      co_await leave(parent.guard);
      co_return Outcome::timed_out;
    }
    const NodeHeader header = NodeView(*format_, seen.payload()).header;
    co_await seen.release();
    if (!is_meant(child, header) || header.low != key || header.level + 1 != level) {
      co_await leave(parent.guard);
      co_return Outcome::done;
    }
    if (node.header.count < node.capacity()) {
      node.insert(count_less(node.keys(), key), key, child);
      node.finish();
      (void)co_await write(worker, parent);  // if not written in time, it is missing; the tree is valid without it
      co_return Outcome::done;
    }
    const Outcome room = co_await make_room(worker, parent, key);
    if (room != Outcome::done) {
      co_return room;
    }
  }
}

// Merges the sparse node at `level` that covers the key with a neighbour, then continues upwards. If that is not
// possible now or takes too long, the tree remains valid as it is.
Task<void> BTree::merge_around(Worker& worker, std::uint16_t level, std::uint64_t key) const {
  for (;;) {
    const Merged merged = co_await merge_once(worker, level, key);
    if (merged == Merged::enough) {
      co_return;
    }
    level = static_cast<std::uint16_t>(level + (merged == Merged::level_above ? 1 : 0));
  }
}

Task<BTree::Merged> BTree::merge_once(Worker& worker, std::uint16_t level, std::uint64_t key) const {
  Latched parent = co_await latch_covering(worker, key, static_cast<std::uint16_t>(level + 1));
  if (!parent) {
    co_return Merged::enough;
  }
  const NodeView node(*format_, parent.guard.payload());
  if (node.header.count < 2) {
    if (parent.ref == kRoot) {
      co_await collapse_root(worker, parent);
      co_return Merged::enough;
    }
    co_await leave(parent.guard);
    co_return Merged::level_above;  // there the parent finds neighbours
  }
  const std::size_t index = node.child_index(key);
  const Merged merged = co_await merge_pair(worker, parent, index + 1 < node.header.count ? index : index - 1);
  co_return merged;
}

// Merges children `index` and `index + 1` of the parent if they are neighbours and fit into one node.
Task<BTree::Merged> BTree::merge_pair(Worker& worker, Latched& parent, std::size_t index) const {
  const NodeView node(*format_, parent.guard.payload());
  const std::array<NodeRef, 2> children = {node.child(index), node.child(index + 1)};
  const std::uint64_t separator = node.keys()[index + 1];
  const std::uint32_t left_in_parent = node.header.count - 1;
  const bool parent_is_root = parent.ref == kRoot;
  const std::uint32_t few = merge_below(node.capacity());
  for (const NodeRef child : children) {
    const bool held = co_await is_held(worker, child);
    if (held) {
      co_await leave(parent.guard);
      co_return Merged::enough;
    }
  }
  Latched left = co_await latch_node(worker, children[0]);
  Latched right(left.outcome);
  if (left) {
    right = co_await latch_node(worker, children[1]);
  }
  if (right) {
    const NodeView a(*format_, left.guard.payload());
    const NodeView b(*format_, right.guard.payload());
    if (is_meant(left.ref, a.header) && is_meant(right.ref, b.header) && a.header.right == right.ref &&
        b.header.low == separator && a.header.count + b.header.count <= merged_at_most(a.capacity())) {
      co_await absorb(worker, parent, index + 1, left, right);
      co_return parent_is_root ? (left_in_parent == 1 ? Merged::this_level_again : Merged::enough)
      : left_in_parent < few   ? Merged::level_above
                               : Merged::enough;
    }
    co_await leave(right.guard);
  }
  if (left) {
    co_await leave(left.guard);
  }
  co_await leave(parent.guard);
  co_return Merged::enough;
}

// Waits until the node is unlatched, or takes over a dead client's latch. False if the deadline passed.
Task<bool> BTree::wait_for(Worker& worker, NodeRef ref) const {
  Latched node = co_await latch_node(worker, ref);
  co_await leave(node.guard);
  co_return static_cast<bool>(node);
}

// Moves the entries of `right` into `left`, its neighbour. `right` is entry `index` of the parent.
Task<void> BTree::absorb(Worker& worker, Latched& parent, std::size_t index, Latched& left, Latched& right) const {
  NodeEdit from(*format_, right.guard.payload());
  NodeEdit into(*format_, left.guard.payload());
  into.append(from, 0, from.header.count);
  into.set_high(from.header);
  into.header.right = from.header.right;
  into.finish();
  const bool was_dead = from.header.dead();
  from.header.flags |= NodeHeader::kDead;
  from.finish();
  NodeEdit above(*format_, parent.guard.payload());
  above.erase(index);
  above.finish();
  // The node is marked dead first: from now on nobody trusts or changes its contents. Readers wait until its entries
  // are in their new place. If this client dies now, a reader finishes the merge (end_merge). A latch that was held too
  // long stops this at any step.
  bool written = true;
  if (was_dead) {
    co_await leave(right.guard);
  } else {
    written = co_await write(worker, right);
  }
  if (written) {
    written = co_await write_both(worker, left, parent);
  }
  if (written) {
    co_await free_node(worker, right.ref);
    co_return;
  }
  co_await leave(left.guard);
  co_await leave(parent.guard);
}

// The root's only child takes the root's place.
Task<void> BTree::collapse_root(Worker& worker, Latched& root) const {
  NodeEdit node(*format_, root.guard.payload());
  const bool held = co_await is_held(worker, node.child(0));
  if (held) {
    const NodeRef busy = node.child(0);
    co_await leave(root.guard);
    (void)co_await wait_for(worker, busy);
    co_return;
  }
  Latched child = co_await latch_node(worker, node.child(0));
  if (!child) {
    co_await leave(root.guard);
    co_return;
  }
  NodeEdit from(*format_, child.guard.payload());
  if (from.header.generation != child.ref.generation() || from.header.torn() || from.header.right ||
      from.header.has_high() || from.header.low != 0) {
    co_await leave(child.guard);
    co_await leave(root.guard);
    co_return;
  }
  node.clear(from.header.level);
  node.append(from, 0, from.header.count);
  node.finish();
  bool written = false;
  if (from.header.dead()) {  // marked by a client that got no further
    co_await leave(child.guard);
    written = co_await write(worker, root);
  } else {
    from.header.flags |= NodeHeader::kDead;
    from.finish();
    written = co_await write_both(worker, child, root);
  }
  if (written) {
    co_await free_node(worker, child.ref);
  }
}

// Finishes the merge of a node that another client marked dead. That client died, or is still at work. `level` and
// `low` are the dead node's.
Task<void> BTree::end_merge(Worker& worker, NodeRef dead, std::uint16_t level, std::uint64_t low) const {
  Latched parent = co_await latch_covering(worker, low, static_cast<std::uint16_t>(level + 1));
  if (!parent) {
    co_return;
  }
  const NodeView node(*format_, parent.guard.payload());
  const std::optional<std::size_t> index = node.find(low);
  if (!index || node.child(*index) != dead) {  // the merge is already finished
    co_await leave(parent.guard);
    co_return;
  }
  if (*index == 0) {
    // A first child dies only if it is the root's only child.
    if (parent.ref == kRoot && node.header.count == 1) {
      co_await collapse_root(worker, parent);
    } else {
      co_await leave(parent.guard);
    }
    co_return;
  }
  // Its left neighbour may have been split since.
  NodeRef next = node.child(*index - 1);
  Latched left;
  for (;;) {
    for (const NodeRef ref : {next, dead}) {
      const bool held = co_await is_held(worker, ref);
      if (held) {
        co_await leave(parent.guard);
        (void)co_await wait_for(worker, ref);
        co_return;  // the next client that meets the dead node tries again
      }
    }
    left = co_await latch_node(worker, next);
    if (!left) {
      break;
    }
    const NodeHeader header = NodeView(*format_, left.guard.payload()).header;
    if (header.right == dead || !header.has_high() || header.high > low) {
      break;
    }
    co_await leave(left.guard);
    next = header.right;
  }
  Latched right(left.outcome);
  if (left) {
    right = co_await latch_node(worker, dead);
  }
  if (!right) {
    if (left) {
      co_await leave(left.guard);
    }
    co_await leave(parent.guard);
    co_return;
  }
  const NodeView neighbour(*format_, left.guard.payload());
  NodeEdit died(*format_, right.guard.payload());
  const bool stays = neighbour.header.torn() || died.header.torn() || died.header.generation != dead.generation();
  if (stays || neighbour.header.dead()) {
    const NodeRef other = left.ref;
    const std::uint64_t other_low = neighbour.header.low;
    const bool first_the_neighbour = !stays;
    co_await leave(right.guard);
    co_await leave(left.guard);
    co_await leave(parent.guard);
    if (first_the_neighbour) {  // the neighbour died, too, and its entries are elsewhere
      co_await end_merge(worker, other, level, other_low);
    }
    co_return;
  }
  if (neighbour.header.right == dead) {
    if (neighbour.header.count + died.header.count <= neighbour.capacity()) {
      co_await absorb(worker, parent, *index, left, right);
      co_return;
    }
    // The neighbour has filled up meanwhile and has not taken the dead node's entries. The dead node has the only copy
    // of them, so it becomes alive again.
    died.header.flags = static_cast<std::uint16_t>(died.header.flags & ~NodeHeader::kDead);
    died.finish();
    (void)co_await write(worker, right);
    co_await leave(left.guard);
    co_await leave(parent.guard);
    co_return;
  }
  NodeEdit above(*format_, parent.guard.payload());
  above.erase(*index);
  above.finish();
  co_await leave(right.guard);
  co_await leave(left.guard);
  const bool written = co_await write(worker, parent);
  if (written) {
    co_await free_node(worker, dead);
  }
}

}  // namespace sidelatch::structures
