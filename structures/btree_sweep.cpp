// Nodes of dead clients come back: those that a client had taken and not linked, or had just taken out of the tree.
#include "btree_path.h"

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

// Whether the tree reaches the node: then it is what covers its own lowest key at its level. A node that only its dead
// owner knew stays unlinked. A linked one may leave the tree now; whoever does that marks it as his own first.
Task<BTree::Linked> BTree::is_linked(Worker& worker, NodeRef ref) const {
  ReadGuard guard = co_await read_node(worker, ref);
  if (!guard) {
    co_return Linked::unknown;
  }
  const NodeHeader header = NodeView(*format_, guard.payload()).header;
  co_await guard.release();
  if (header.torn()) {
    co_return Linked::yes;  // nobody can tell where it belongs
  }
  Found found = co_await descend(worker, header.low, header.level);
  if (found.guard) {
    co_await found.guard.release();
  }
  if (found.outcome == Outcome::timed_out) {
    co_return Linked::unknown;
  }
  const bool there = found.outcome == Outcome::done && found.ref.memory_node() == ref.memory_node() &&
                     found.ref.object() == ref.object();
  co_return there ? Linked::yes : Linked::no;
}

Task<std::uint64_t> BTree::sweep(Worker& worker, std::uint16_t dead_owner) const {
  if (worker.session(0).options().owner == 0) {
    throw std::invalid_argument(
        "a sweep by a worker without owner id: only nodes of workers with owner ids carry a mark; give every worker "
        "one");
  }
  if (!is_open(worker)) {
    co_await open(worker);
  }
  const Swept swept = co_await sweep_owner(worker, dead_owner);
  co_return swept.count;
}

Task<BTree::Swept> BTree::sweep_owner(Worker& worker, std::uint16_t dead_owner) const {
  co_await worker.revoke(dead_owner);
  // An old copy of an inner node does not name what the dead client had linked since, and what is linked must not be
  // claimed. Nothing that carries the dead client's mark is linked from now on.
  worker.cache_.clear();
  Swept swept;
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    const std::vector<std::uint64_t> objects = co_await pools_[memory_node].marked(worker, dead_owner);
    for (const std::uint64_t object : objects) {
      const NodeRef ref = NodeRef::of(memory_node, object, 0);
      Linked linked = Linked::yes;
      try {
        linked = co_await is_linked(worker, ref);
      } catch (const StructureError&) {  // a node on the way to it is damaged: nobody can tell
      }
      swept.complete = swept.complete && linked != Linked::unknown;
      if (linked != Linked::no) {
        continue;
      }
      const bool mine = co_await pools_[memory_node].claim(worker, object, dead_owner);
      if (mine) {
        co_await free_node(worker, ref);
        ++swept.count;
      }
    }
  }
  co_return swept;
}

// Sweeps the owners that this worker has revoked, each once. Not complete: the deadline passed, and the rest is for the
// next operation that finds no node.
Task<BTree::Swept> BTree::sweep_all_dead(Worker& worker) const {
  Swept all;
  for (std::uint16_t owner = worker.next_dead_owner(number_); owner != 0 && all.complete;
       owner = worker.next_dead_owner(number_)) {
    Swept swept;
    try {
      swept = co_await sweep_owner(worker, owner);
    } catch (const LatchError& error) {
      if (error.kind() != LatchError::Kind::takeover_refused) {
        throw;
      }  // a memory node does not know the owner: its nodes stay as they are
    }
    all.count += swept.count;
    all.complete = swept.complete;
    if (swept.complete) {
      worker.note_swept(number_, owner);
    }
  }
  co_return all;
}

}  // namespace sidelatch::structures
