// Finding nodes of the B-tree: reading down from the root, and latching the node found.
#include "btree_path.h"

#include <sidelatch/sync/latch_word.h>

#include <fmt/format.h>

#include <exception>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

constexpr int kAnyLevel = -1;

constexpr const char* kNoSuchCount = "its count is not possible";

}  // namespace

Object BTree::object(NodeRef ref) const {
  if (ref.memory_node() >= objects_.size() || ref.object() >= options_.nodes) {
    throw_damaged(ref, "there is no such node");
  }
  return objects_[ref.memory_node()].at(ref.object());
}

// A damaged link may be met here first: compilers differ in which argument of a call they evaluate first.
Session& BTree::session(Worker& worker, NodeRef ref) const {
  if (ref.memory_node() >= objects_.size()) {
    throw_damaged(ref, "there is no such node");
  }
  return worker.session(ref.memory_node());
}

void BTree::throw_damaged(NodeRef ref, const char* what) const {
  throw StructureError(
      fmt::format("node {} of memory node {} of the B-tree is damaged: {}", ref.object(), ref.memory_node(), what));
}

Task<ReadGuard> BTree::read_node(Worker& worker, NodeRef ref) const {
  for (;;) {
    try {
      ReadGuard guard = co_await scheme_->begin_read(session(worker, ref), object(ref));
      co_return guard;
    } catch (const LatchError& error) {
      if (error.kind() != LatchError::Kind::holder_lost) {
        throw;
      }
    }
    // A writer died with the latch. Taking the latch over makes the node readable again.
    Latched orphan = co_await latch_node(worker, ref);
    if (!orphan) {
      co_return ReadGuard();
    }
    co_await leave(orphan.guard);
  }
}

Task<BTree::Latched> BTree::latch_node(Worker& worker, NodeRef ref) const {
  for (;;) {
    ExclusiveGuard guard = co_await scheme_->latch(session(worker, ref), object(ref));
    if (!guard || !guard.inherited()) {
      co_return Latched(ref, std::move(guard));
    }
    if (!is_sealed(guard.payload())) {
      // If left latched, it would cost each client that meets it its queue pairs, one after the other.
      const NodeHeader mixture = NodeView(*format_, guard.payload()).header;
      NodeEdit torn(*format_, guard.payload());
      torn.header = {.right = mixture.right,
                     .absorbed = mixture.absorbed,
                     .flags = NodeHeader::kTorn,
                     .generation = mixture.generation};  // of a linked node the same before and after the WRITE
      torn.finish();
    }
    co_await guard.commit();  // it is then latched with a lease that begins now
  }
}

Task<BTree::Latched> BTree::latch_beside(Worker& worker, NodeRef ref) const {
  const Session::Brief brief(session(worker, ref));
  Latched node = co_await latch_node(worker, ref);
  co_return node;
}

Task<ReadGuard> BTree::read_beside(Worker& worker, NodeRef ref) const {
  const Session::Brief brief(session(worker, ref));
  ReadGuard guard = co_await read_node(worker, ref);
  co_return guard;
}

// With leases, a client that changes the tree never waits for a latch while it holds another. The latch may be a dead
// client's; until that lease ends, the waiting client's own lease ends, too, and others take it for dead. True: some
// client holds the node now.
Task<bool> BTree::is_held(Worker& worker, NodeRef ref) const {
  if (!session(worker, ref).has_lease()) {
    co_return false;
  }
  const std::uint64_t word = co_await scheme_->peek_latch(session(worker, ref), object(ref));
  co_return is_exclusive(word);
}

// True if the node did not change while it was read, where that matters.
Task<bool> BTree::let_go(ReadGuard& guard) const {
  if (options_.traversal == Traversal::coupled) {
    const bool unchanged = co_await guard.validate();
    co_return unchanged;
  }
  co_await guard.release();
  co_return true;
}

Task<BTree::Found> BTree::try_descend(Worker& worker, std::uint64_t key, std::uint16_t level) const {
  Found at{.ref = kRoot};
  int expected = kAnyLevel;
  std::vector<NodeRef> cached_path;
  for (;;) {
    const auto cached = worker.cache_.find(at.ref.bits);
    if (cached == worker.cache_.end()) {
      break;
    }
    const NodeView node(*format_, cached->second);
    if (node.header.level <= level || !node.header.covers(key)) {
      break;
    }
    cached_path.push_back(at.ref);
    expected = node.header.level - 1;
    at.ref = node.child(node.child_index(key));
  }
  at.guard = co_await read_node(worker, at.ref);
  for (;;) {
    if (!at.guard) {
      at.outcome = Outcome::timed_out;
      co_return at;
    }
    const NodeView node(*format_, at.guard.payload());
    at.level = node.header.level;
    at.low = node.header.low;
    // A dead node at the end of a stale cached path needs no repair.
    at.is_dead = cached_path.empty() && node.header.dead() && node.header.generation == at.ref.generation();
    at.lost = !is_meant(at.ref, node.header) || (expected != kAnyLevel && at.level != expected) || key < at.low;
    const bool torn = is_torn(at.ref, node.header);
    if (torn || (!at.lost && (!node.has_plausible_count() || (at.level > 0 && node.header.count == 0)))) {
      co_await at.guard.release();
      throw_damaged(at.ref, torn ? kTornNode : kNoSuchCount);
    }
    const bool beyond = !node.header.below_high(key);
    if ((at.lost || beyond) && !cached_path.empty()) {
      for (const NodeRef ref : cached_path) {
        worker.cache_.erase(ref.bits);
      }
      cached_path.clear();
    }
    if (at.lost || (!beyond && at.level <= level)) {
      if (at.lost) {
        co_await at.guard.release();
      } else if (at.level < level) {
        co_await at.guard.release();
        at.outcome = Outcome::absent;
      }
      co_return at;
    }
    if (at.level > 0 && worker.most_cached_ > 0) {
      remember(worker, at.ref, at.guard.payload());
    }
    const NodeRef next = beyond ? node.header.right : node.child(node.child_index(key));
    expected = beyond ? at.level : at.level - 1;
    // Coupled: the next node is read while this one is still held, or before it is validated.
    bool unchanged = true;
    ReadGuard next_guard;
    if (options_.traversal == Traversal::coupled) {
      std::exception_ptr error;
      try {
        next_guard = co_await read_node(worker, next);
      } catch (...) {
        error = std::current_exception();
      }
      unchanged = co_await at.guard.validate();
      if (error) {
        std::rethrow_exception(error);
      }
    } else {
      co_await at.guard.release();
      next_guard = co_await read_node(worker, next);
    }
    at.ref = next;
    at.guard = std::move(next_guard);
    if (!unchanged) {
      if (at.guard) {
        co_await at.guard.release();
      }
      at.lost = true;
      at.is_dead = false;
      co_return at;
    }
  }
}

void BTree::remember(Worker& worker, NodeRef ref, std::span<const std::byte> payload) {
  if (worker.cache_.size() >= worker.most_cached_ && !worker.cache_.contains(ref.bits)) {
    worker.cache_.erase(worker.cache_.begin());
  }
  worker.cache_[ref.bits].assign(payload.begin(), payload.end());
}

Task<BTree::Found> BTree::descend(Worker& worker, std::uint64_t key, std::uint16_t level) const {
  Attempts attempts(worker.session(0), Attempts::Forgotten());
  while (attempts.shows_head()) {
    co_await attempts.pause();
  }
  for (;;) {
    Found found = co_await try_descend(worker, key, level);
    if (!found.lost) {
      co_return found;
    }
    worker.count_restart();
    if (found.is_dead) {
      co_await end_merge(worker, found.ref, found.level, found.low);
    }
    if (attempts.expired()) {
      found.outcome = Outcome::timed_out;
      co_return found;
    }
    co_await attempts.pause();
  }
}

Task<BTree::Latched> BTree::latch_covering(Worker& worker, std::uint64_t key, std::uint16_t level) const {
  Attempts attempts(worker.session(0), Attempts::Forgotten());
  while (attempts.shows_head()) {
    co_await attempts.pause();
  }
  for (;;) {
    Found parent = co_await descend(worker, key, static_cast<std::uint16_t>(level + 1));
    if (parent.outcome == Outcome::timed_out) {
      co_return Latched(Outcome::timed_out);
    }
    NodeRef ref = kRoot;
    bool unchanged = true;
    Latched node;
    if (parent.outcome == Outcome::done) {
      const NodeView view(*format_, parent.guard.payload());
      ref = view.child(view.child_index(key));
      if (options_.traversal == Traversal::coupled) {
        std::exception_ptr error;
        try {
          node = co_await latch_node(worker, ref);
        } catch (...) {
          error = std::current_exception();
        }
        unchanged = co_await parent.guard.validate();
        if (error) {
          std::rethrow_exception(error);
        }
      } else {
        co_await parent.guard.release();
      }
    }
    if (!node.guard && node.outcome == Outcome::done) {
      node = co_await latch_node(worker, ref);
    }
    bool is_dead = false;
    std::uint64_t low = 0;
    while (node) {
      const NodeHeader header = NodeView(*format_, node.guard.payload()).header;
      is_dead = header.dead() && header.generation == node.ref.generation();
      low = header.low;
      if (unchanged && is_torn(node.ref, header)) {
        co_await leave(node.guard);
        throw_damaged(node.ref, kTornNode);
      }
      if (!unchanged || !is_meant(node.ref, header) || header.level != level || key < header.low) {
        break;
      }
      if (header.below_high(key)) {
        co_return node;
      }
      co_await leave(node.guard);
      node = co_await latch_node(worker, header.right);
      node.moved_right = true;
    }
    if (!node) {
      co_return Latched(Outcome::timed_out);
    }
    const bool no_such_level = node.ref == kRoot && NodeView(*format_, node.guard.payload()).header.level < level;
    co_await leave(node.guard);
    if (no_such_level) {
      co_return Latched(Outcome::absent);
    }
    worker.count_restart();
    if (is_dead) {
      co_await end_merge(worker, node.ref, level, low);
    }
    if (attempts.expired()) {
      co_return Latched(Outcome::timed_out);
    }
    co_await attempts.pause();
  }
}

}  // namespace sidelatch::structures
