// Walks a whole B-tree, level by level, and looks for damage that no sequence of operations causes.
#include "btree_path.h"

#include <sidelatch/sync/latch_word.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

constexpr std::size_t kMostProblems = 100;

std::string place(NodeRef ref) { return fmt::format("node {} of memory node {}", ref.object(), ref.memory_node()); }

struct Walk {
  BTreeReport report;
  std::set<std::pair<std::size_t, std::uint64_t>> linked;  // memory node and object

  void problem(std::string text) {
    if (report.problems.size() < kMostProblems) {
      report.problems.push_back(std::move(text));
    }
  }
};

using Separators = std::map<std::uint64_t, NodeRef>;  // by a child's lowest key

// Checks a node by itself. The walk along its level reaches it at `low`.
void look_at(Walk& walk, NodeRef ref, const NodeView& node, std::span<const std::byte> payload, std::uint16_t level,
             std::uint64_t low) {
  const NodeHeader& header = node.header;
  const std::string where = place(ref);
  if (!is_sealed(payload)) {
    walk.problem(where + " has a wrong checksum");
  }
  if (is_merged(ref, header)) {
    ++walk.report.unfinished_merges;
  } else if (!is_meant(ref, header)) {
    walk.problem(where + " is linked, and another one by now");
  }
  if (header.level != level) {
    walk.problem(fmt::format("{} says that it is at level {}, and is at level {}", where, header.level, level));
  }
  if (header.low != low) {
    walk.problem(fmt::format("{} begins at key {}, and the one before it ends at {}", where, header.low, low));
  }
  if (header.has_high() && header.high <= header.low) {
    walk.problem(fmt::format("{} ends at key {} and begins at {}", where, header.high, header.low));
  }
  if (header.has_high() != static_cast<bool>(header.right)) {
    walk.problem(where + (header.right ? " has a right neighbour and no upper end" : " has no right neighbour"));
  }
  const std::span<const std::uint64_t> keys = node.keys();
  if (std::ranges::adjacent_find(keys, std::greater_equal<>()) != keys.end()) {
    walk.problem(where + " has keys that do not ascend");
  }
  if (!keys.empty() && !(header.covers(keys.front()) && header.covers(keys.back()))) {
    walk.problem(fmt::format("{} has keys {} to {}, outside of its fences", where, keys.front(), keys.back()));
  }
  if (level > 0 && (keys.empty() || keys.front() != header.low)) {
    walk.problem(where + " has no child for its lowest keys");
  }
}

}  // namespace

// Whether a parent names, for the keys from `low` on, a node whose entries have already moved to its left neighbour.
Task<bool> BTree::has_left_its_level(Worker& worker, NodeRef ref, std::uint64_t low) const {
  const bool exists = ref.memory_node() < memory_nodes() && ref.object() < options_.nodes;
  if (!exists) {
    co_return false;
  }
  const std::uint64_t held = co_await stays_latched(*scheme_, session(worker, ref), object(ref));
  if (held != 0) {
    co_return false;
  }
  ReadGuard guard = co_await read_node(worker, ref);
  if (!guard) {
    co_return false;
  }
  const NodeView node(*format_, guard.payload());
  const bool is_it = is_merged(ref, node.header) && node.header.low == low;
  co_await guard.release();
  co_return is_it;
}

Task<BTreeReport> BTree::check(Worker& worker) const {
  if (!is_open(worker)) [[unlikely]] {
    co_await open(worker);
  }
  Walk walk;
  Separators named;  // the nodes of the next level, as their parents name them
  int level = -1;
  for (NodeRef leftmost = kRoot; leftmost;) {
    Separators children;
    Separators seen;
    std::uint64_t low = 0;
    bool cut = false;  // the walk along the level met a node that it could not read
    NodeRef next_level{};
    for (NodeRef ref = leftmost; ref;) {
      if (ref.memory_node() >= memory_nodes() || ref.object() >= options_.nodes) {
        walk.problem(fmt::format("level {} links a node that there is not: {:#x}", level, ref.bits));
        break;
      }
      if (!walk.linked.emplace(ref.memory_node(), ref.object()).second) {
        walk.problem(place(ref) + " is linked twice");
        break;
      }
      const std::uint64_t held = co_await stays_latched(*scheme_, session(worker, ref), object(ref));
      if (held != 0) {  // a reader would wait for it
        walk.problem(fmt::format("{} stays latched: its latch word is {:#x}. Not checked: its level from there on",
                                 place(ref), held));
        cut = true;
        break;
      }
      ReadGuard guard = co_await read_node(worker, ref);
      if (!guard) {
        walk.problem(place(ref) + " cannot be read before the deadline");
        cut = true;
        break;
      }
      const NodeView node(*format_, guard.payload());
      if (ref == kRoot) {
        level = node.header.level;
        walk.report.levels = static_cast<std::uint32_t>(level) + 1;
      }
      ++walk.report.nodes;
      if (!node.has_plausible_count()) {
        walk.problem(fmt::format("{} has {} entries, and room for {}", place(ref), node.header.count, node.capacity()));
        co_await guard.release();
        break;
      }
      if (is_torn(ref, node.header)) {
        // Nothing in it is known but what it was: not its entries, and not its neighbour.
        walk.problem(place(ref) +
                     " is torn: its last writer died within a WRITE. Not checked: its level from there on");
        co_await guard.release();
        cut = true;
        break;
      }
      look_at(walk, ref, node, guard.payload(), static_cast<std::uint16_t>(level), low);
      seen.emplace(node.header.low, ref);
      if (level == 0) {
        walk.report.entries += node.header.count;
      } else {
        for (std::size_t i = 0; i < node.header.count; ++i) {
          children.emplace(node.keys()[i], node.child(i));
        }
        if (ref == leftmost && node.header.count > 0) {
          next_level = node.child(0);
        }
      }
      low = node.header.high;
      ref = node.header.right;
      co_await guard.release();
    }
    if (leftmost != kRoot) {
      for (const auto& [key, child] : named) {
        const auto found = seen.find(key);
        if (found != seen.end() ? found->second == child : cut) {
          continue;
        }
        const bool merged = co_await has_left_its_level(worker, child, key);
        if (merged) {
          ++walk.report.unfinished_merges;
        } else {
          walk.problem(fmt::format("a parent names {} for the keys from {} on, which is not at level {}", place(child),
                                   key, level));
        }
      }
      walk.report.missing_separators += seen.size() - std::min(seen.size(), named.size());
    }
    named = std::move(children);
    leftmost = next_level;
    --level;
    if (leftmost && level < 0) {
      walk.problem("a leaf has children");
      break;
    }
  }
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    const std::uint64_t reserved = memory_node == 0 ? 1 : 0;
    Pool::Contents pool;
    try {
      pool = co_await pools_[memory_node].contents(worker);
    } catch (const StructureError& error) {
      walk.problem(error.what());
      continue;
    }
    std::uint64_t linked = 0;
    for (const auto& [at, object] : walk.linked) {
      linked += at == memory_node ? 1U : 0U;
      if (at == memory_node && object >= reserved + pool.mark) {
        walk.problem(fmt::format("node {} of memory node {} is linked, and was never handed out", object, at));
      }
    }
    for (const std::uint64_t object : pool.free) {
      if (walk.linked.contains({memory_node, object})) {
        walk.problem(fmt::format("node {} of memory node {} is linked, and in the pool", object, memory_node));
      }
    }
    const std::uint64_t known = linked + pool.free.size();
    walk.report.unlinked_nodes += reserved + pool.mark - std::min(known, reserved + pool.mark);
    // Whoever takes such a node takes an owner's latch over.
    for (std::uint64_t number = reserved; number < reserved + pool.mark; ++number) {
      const NodeRef ref = NodeRef::of(memory_node, number, 0);
      if (!walk.linked.contains({memory_node, number})) {
        const std::uint64_t held = co_await stays_latched(*scheme_, session(worker, ref), object(ref));
        if (held != 0 && owner_of(held) == 0) {
          walk.problem(fmt::format("{} is not linked, and stays latched: its latch word is {:#x}", place(ref), held));
        }
      }
    }
  }
  co_return std::move(walk.report);
}

}  // namespace sidelatch::structures
