// Merges of the B-tree's nodes.
#include "btree_path.h"

#include <array>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

// Both limits are fractions of a node's capacity. A node is merged below the first; a merged node is filled up to the
// second at most. They are far enough apart that a node does not split right after a merge.
[[nodiscard]] std::uint32_t merge_below(std::uint32_t capacity) { return capacity / 4; }
[[nodiscard]] std::uint32_t merged_at_most(std::uint32_t capacity) { return capacity * 3 / 4; }

}  // namespace

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
  Latched left = co_await latch_beside(worker, children[0]);
  Latched right(left.outcome);
  if (left) {
    right = co_await latch_beside(worker, children[1]);
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

// Lets another client have its way, which has latched what this one needs; this one holds nothing. Done: the operation
// may begin again.
Task<Outcome> BTree::give_way(Worker& worker, NodeRef busy) const {
  if (worker.session(busy.memory_node()).deadline_passed()) {
    co_return Outcome::timed_out;
  }
  const bool free = co_await wait_for(worker, busy);
  if (!free) {
    co_return Outcome::timed_out;
  }
  worker.count_restart();
  co_await worker.give_way();
  co_return Outcome::done;
}

// Moves the entries of `right` into `left`, its neighbour. `right` is entry `index` of the parent.
Task<void> BTree::absorb(Worker& worker, Latched& parent, std::size_t index, Latched& left, Latched& right) const {
  NodeEdit from(*format_, right.guard.payload());
  NodeEdit into(*format_, left.guard.payload());
  into.append(from, 0, from.header.count);
  into.set_high(from.header);
  into.header.right = from.header.right;
  into.header.absorbed = tag_of(right.ref);
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
  co_await pools_[right.ref.memory_node()].mark(worker, right.ref.object());
  if (was_dead) {
    co_await session(worker, right.ref).qp().drain();  // the mark must be there before the node leaves the tree
    co_await leave(right.guard);
  } else {
    written = co_await write(worker, right);
  }
  if (written) {
    written = co_await write_both(worker, left, parent);
  }
  note_merge(worker, written);
  if (written) {
    co_await free_node(worker, right.ref);
    co_return;
  }
  co_await leave(left.guard);
  co_await leave(parent.guard);
}

// An operation that meets a dead node begins again until somebody has finished the merge. It must not do so for ever
// where no lease is long enough for that.
void BTree::note_merge(Worker& worker, bool written) {
  constexpr std::uint32_t kMostInARow = 8;
  worker.slow_merges_ = written ? 0 : worker.slow_merges_ + 1;
  if (worker.slow_merges_ == kMostInARow) {
    worker.slow_merges_ = 0;
    throw LatchError(LatchError::Kind::lease_expired,
                     "the lease ended each time before a merge of two nodes was finished: take longer leases");
  }
}

// The root's only child takes the root's place.
Task<void> BTree::collapse_root(Worker& worker, Latched& root) const {
  NodeEdit node(*format_, root.guard.payload());
  const bool held = co_await is_held(worker, node.child(0));
  if (held) {
    const NodeRef busy = node.child(0);
    co_await leave(root.guard);
    (void)co_await give_way(worker, busy);
    co_return;
  }
  Latched child = co_await latch_beside(worker, node.child(0));
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
  co_await pools_[child.ref.memory_node()].mark(worker, child.ref.object());
  if (from.header.dead()) {                            // marked by a client that got no further
    co_await session(worker, child.ref).qp().drain();  // see absorb()
    co_await leave(child.guard);
    written = co_await write(worker, root);
  } else {
    from.header.flags |= NodeHeader::kDead;
    from.finish();
    written = co_await write_both(worker, child, root);
  }
  note_merge(worker, written);
  if (written) {
    co_await free_node(worker, child.ref);
  }
}

// A dead node whose neighbour has not taken its entries becomes alive again. The parent still names it.
Task<void> BTree::revive(Worker& worker, Latched& parent, Latched& dead) const {
  NodeEdit node(*format_, dead.guard.payload());
  node.header.flags = static_cast<std::uint16_t>(node.header.flags & ~NodeHeader::kDead);
  node.finish();
  const bool lives = co_await write(worker, dead);
  co_await leave(parent.guard);
  note_merge(worker, lives);
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
        (void)co_await give_way(worker, ref);
        co_return;  // the next client that meets the dead node tries again
      }
    }
    left = co_await latch_beside(worker, next);
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
    right = co_await latch_beside(worker, dead);
  }
  if (!right) {
    if (left) {
      co_await leave(left.guard);
    }
    co_await leave(parent.guard);
    co_return;
  }
  const NodeView neighbour(*format_, left.guard.payload());
  const NodeView died(*format_, right.guard.payload());
  if (!is_merged(dead, died.header)) {  // somebody has finished the merge, or found that the dead node is torn
    co_await leave(right.guard);
    co_await leave(left.guard);
    co_await leave(parent.guard);
    co_return;
  }
  if (neighbour.header.dead()) {  // its entries are elsewhere
    const NodeRef other = left.ref;
    const std::uint64_t other_low = neighbour.header.low;
    co_await leave(right.guard);
    co_await leave(left.guard);
    co_await leave(parent.guard);
    co_await end_merge(worker, other, level, other_low);
    co_return;
  }
  if (neighbour.header.torn()) {
    // The client that merged the two died within the WRITE of the neighbour, or a later one did. The dead node has the
    // last whole copy of its entries if no WRITE of the neighbour came between. Else, changes of them may be lost.
    const NodeRef torn = left.ref;
    const bool has_them = neighbour.header.right == dead || neighbour.header.absorbed == tag_of(dead);
    co_await leave(left.guard);
    if (!has_them) {
      co_await leave(right.guard);
      co_await leave(parent.guard);
      throw_damaged(torn, kTornNode);
    }
    co_await revive(worker, parent, right);
    co_return;
  }
  if (neighbour.header.right == dead) {
    if (neighbour.header.count + died.header.count <= neighbour.capacity()) {
      co_await absorb(worker, parent, *index, left, right);
      co_return;
    }
    // The neighbour has filled up meanwhile and has not taken the dead node's entries. The dead node has the only copy
    // of them.
    co_await leave(left.guard);
    co_await revive(worker, parent, right);
    co_return;
  }
  NodeEdit above(*format_, parent.guard.payload());
  above.erase(*index);
  above.finish();
  co_await pools_[dead.memory_node()].mark(worker, dead.object());
  co_await session(worker, dead).qp().drain();  // see absorb()
  co_await leave(right.guard);
  co_await leave(left.guard);
  const bool written = co_await write(worker, parent);
  note_merge(worker, written);
  if (written) {
    co_await free_node(worker, dead);
  }
}

}  // namespace sidelatch::structures
