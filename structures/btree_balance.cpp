// Splits of the B-tree's nodes, and the nodes that a worker has in hand for them.
#include "btree_path.h"

#include <algorithm>
#include <exception>
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

// Takes up to `most` objects from a pool. Done, full or timed_out.
Task<Outcome> BTree::take_spares(Worker& worker, std::size_t memory_node, std::size_t most) const {
  const Pool::Taken taken = co_await pools_[memory_node].take(worker, most);
  if (taken.outcome == Outcome::timed_out) {
    co_return taken.outcome;
  }
  worker.seen_full_[memory_node] = taken.outcome == Outcome::full;
  std::vector<std::uint64_t> objects;
  for (std::uint64_t object = taken.count; object > 0; --object) {
    objects.push_back(taken.object + object - 1);
  }
  std::vector<std::uint64_t>& spares = worker.spares_[memory_node];
  spares.insert(spares.begin(), objects.begin(), objects.end());  // the last one is used first
  co_return taken.outcome;
}

// Takes objects from the pools until the worker has `wanted` spares, or no pool has more.
Task<Outcome> BTree::stock(Worker& worker, std::size_t wanted, std::uint64_t low) const {
  const std::size_t nodes = memory_nodes();
  const std::size_t first = place_for(worker, low);
  for (bool has_swept = false;; has_swept = true) {
    for (std::size_t i = 0; i < nodes; ++i) {
      const std::size_t memory_node = (first + i) % nodes;
      const auto lacks = [&] {
        return count_all(worker.spares_) < wanted || (i == 0 && worker.spares_[memory_node].empty());
      };
      while (lacks()) {
        const Outcome outcome = co_await take_spares(worker, memory_node, kChunk);
        if (outcome == Outcome::timed_out) {
          co_return outcome;
        }
        if (outcome == Outcome::full) {
          break;
        }
      }
    }
    if (count_all(worker.spares_) >= wanted) {
      co_return Outcome::done;
    }
    if (has_swept || worker.session(0).options().owner == 0) {
      co_return Outcome::full;
    }
    const Swept swept = co_await sweep_all_dead(worker);
    if (!swept.complete && count_all(worker.spares_) < wanted) {
      co_return Outcome::timed_out;
    }
  }
}

// A latch that is in doubt may stay held for ever, if its session has no owner id. Who took such a node would wait for
// it, so it is no spare any more.
void BTree::forget_stuck_spares(Worker& worker) const {
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    const Session& session = worker.session(memory_node);
    for (const OwedLatch& stuck : session.in_doubt()) {
      std::erase_if(worker.spares_[memory_node], [&](std::uint64_t object) {
        const Object node = objects_[memory_node].at(object);
        const RemoteSpan latch =
            stuck.by == UnlatchBy::swap_apart ? session.options().latches.word_of(node) : node.latch();
        return latch.address == stuck.latch.address;
      });
    }
  }
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
    const Session::Brief brief(worker.session(memory_node));
    ExclusiveGuard guard = co_await scheme_->latch(worker.session(memory_node), objects_[memory_node].at(object));
    if (!guard) {
      Latched held(Outcome::timed_out);
      held.ref = NodeRef::of(memory_node, object, 0);
      co_return held;
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

// What the operation does after new_node() gave nothing: begin again once the spare node is unlatched.
Task<Outcome> BTree::spare_is_free(Worker& worker, Latched& none) const {
  if (none.outcome != Outcome::timed_out) {
    co_return none.outcome;
  }
  const Outcome outcome = co_await give_way(worker, none.ref);
  co_return outcome;
}

Task<void> BTree::free_node(Worker& worker, NodeRef ref) const {
  std::vector<std::uint64_t>& spares = worker.spares_[ref.memory_node()];
  worker.seen_full_[ref.memory_node()] = false;
  if (spares.size() < kMostSpares) {
    spares.push_back(ref.object());
    co_return;
  }
  // After a LatchError the pool does not have the object. After another exception that is unknown, and nobody owns it.
  Outcome outcome = Outcome::timed_out;
  std::exception_ptr error;
  try {
    outcome = co_await pools_[ref.memory_node()].give_back(worker, ref.object());
  } catch (const LatchError&) {
    error = std::current_exception();
  }
  if (outcome != Outcome::done) {
    spares.push_back(ref.object());
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

// Gives back all but `kept` spare nodes of a memory node. Timed out, or after a LatchError: the rest stays with the
// worker. After another exception it is unknown whether the pool has the node; nobody owns it then.
Task<Outcome> BTree::give_back_spares(Worker& worker, std::size_t memory_node, std::size_t kept) const {
  forget_stuck_spares(worker);
  std::vector<std::uint64_t>& spares = worker.spares_[memory_node];
  while (spares.size() > kept) {
    const std::uint64_t object = spares.back();
    spares.pop_back();
    Outcome outcome = Outcome::timed_out;
    std::exception_ptr error;
    try {
      outcome = co_await pools_[memory_node].give_back(worker, object);
    } catch (const LatchError&) {
      error = std::current_exception();
    }
    if (outcome != Outcome::done) {
      spares.push_back(object);
    }
    if (error) {
      std::rethrow_exception(error);
    }
    if (outcome != Outcome::done) {
      co_return outcome;
    }
  }
  co_return Outcome::done;
}

Task<void> BTree::retire(Worker& worker) const {
  for (std::size_t memory_node = 0; memory_node < worker.spares_.size(); ++memory_node) {
    const Outcome outcome = co_await give_back_spares(worker, memory_node, 0);
    if (outcome != Outcome::done) {
      co_return;
    }
  }
  co_await worker.drain();
}

// Gives back what a bulk load has taken and not used.
Task<void> BTree::give_back_surplus(Worker& worker) const {
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    try {
      (void)co_await give_back_spares(worker, memory_node, kMostSpares);
    } catch (const LatchError&) {      // they stay with the worker
    } catch (const StructureError&) {  // who needs the pool is told
    }
  }
}

// Splits a full node and ends its latch. Afterwards there is more room for the key, or the caller must try again.
Task<Outcome> BTree::make_room(Worker& worker, Latched& full, std::uint64_t key) const {
  // A root gets two children, another node a neighbour. While the node is latched, the pool is not asked (is_held()).
  const std::size_t wanted = full.ref == kRoot ? 2 : 1;
  forget_stuck_spares(worker);
  if (!has_in_hand(worker, wanted, key)) {
    co_await leave(full.guard);
    const Outcome outcome = co_await stock(worker, wanted, key);
    co_return outcome;
  }
  const NodeRef busy = co_await held_spare(worker);
  if (busy) {
    co_await leave(full.guard);
    const Outcome free = co_await give_way(worker, busy);
    co_return free;
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
      const Outcome free = co_await give_way(worker, child);
      co_return SplitPoint{.outcome = free};
    }
    ReadGuard seen = co_await read_beside(worker, child);
    if (!seen) {
      co_await leave(full.guard);
      const Outcome free = co_await give_way(worker, child);
      co_return SplitPoint{.outcome = free};
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
    const Outcome outcome = co_await spare_is_free(worker, fresh);
    co_return outcome;
  }
  Unlinked unlinked(worker, fresh);
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
  unlinked.link_begins(full);
  const bool written = co_await write_both(worker, fresh, full);
  if (!written) {
    unlinked.link_failed();
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
  Unlinked unlinked_first(worker, first);
  Latched second(first.outcome);
  if (first) {
    second = co_await new_node(worker, separator);
  }
  if (!second) {
    co_await leave(first.guard);
    co_await leave(root.guard);
    const Outcome outcome = co_await spare_is_free(worker, first ? second : first);
    co_return outcome;
  }
  Unlinked unlinked_second(worker, second);
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
    unlinked_first.link_begins(root);
    unlinked_second.link_begins(root);
    written = co_await write_both(worker, first, root);
  }
  if (!written) {
    unlinked_first.link_failed();
    unlinked_second.link_failed();
    co_await leave(first.guard);
    co_await leave(root.guard);
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
      const Outcome free = co_await give_way(worker, child);
      if (free != Outcome::done) {
        co_return free;
      }
      continue;
    }
    ReadGuard seen = co_await read_beside(worker, child);
    if (!seen) {
      co_await leave(parent.guard);
      const Outcome free = co_await give_way(worker, child);
      if (free != Outcome::done) {
        co_return free;
      }
      continue;
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

}  // namespace sidelatch::structures
