// Nodes of dead clients come back: those that a client had taken and not linked, or had just taken out of the tree.
#include "btree_path.h"

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

// Whether the tree reaches the node: then it is what covers its own lowest key at its level. A node that only its dead
// owner knew stays unlinked. A linked one may leave the tree now; whoever does that marks it as his own first.
Task<bool> BTree::is_linked(Worker& worker, NodeRef ref) const {
  ReadGuard guard = co_await read_node(worker, ref);
  if (!guard) {
    co_return true;  // the deadline passed; nobody knows
  }
  const NodeHeader header = NodeView(*format_, guard.payload()).header;
  co_await guard.release();
  if (header.torn()) {
    co_return true;  // nobody can tell where it belongs
  }
  Found found = co_await descend(worker, header.low, header.level);
  const bool there = found.outcome == Outcome::done && found.ref.memory_node() == ref.memory_node() &&
                     found.ref.object() == ref.object();
  const bool unknown = found.outcome == Outcome::timed_out;
  if (found.guard) {
    co_await found.guard.release();
  }
  co_return there || unknown;
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
  co_await worker.revoke(dead_owner);
  std::uint64_t count = 0;
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    const std::vector<std::uint64_t> objects = co_await pools_[memory_node].marked(worker, dead_owner);
    for (const std::uint64_t object : objects) {
      const NodeRef ref = NodeRef::of(memory_node, object, 0);
      bool linked = true;
      try {
        linked = co_await is_linked(worker, ref);
      } catch (const StructureError&) {  // a node on the way to it is damaged: nobody can tell
      }
      if (linked) {
        continue;
      }
      const bool mine = co_await pools_[memory_node].claim(worker, object, dead_owner);
      if (mine) {
        co_await free_node(worker, ref);
        ++count;
      }
    }
  }
  co_return count;
}

Task<std::uint64_t> BTree::sweep_all_dead(Worker& worker) const {
  std::uint64_t count = 0;
  for (std::uint16_t owner = worker.next_dead_owner(number_); owner != 0; owner = worker.next_dead_owner(number_)) {
    try {
      const std::uint64_t more = co_await sweep(worker, owner);
      count += more;
    } catch (const LatchError& error) {
      if (error.kind() != LatchError::Kind::takeover_refused) {
        throw;
      }  // a memory node does not know the owner: its nodes stay as they are
    }
    worker.note_swept(number_, owner);
  }
  co_return count;
}

}  // namespace sidelatch::structures
