// Fills an empty B-tree from below: leaves from left to right, then each level of inner nodes, the root last.
#include "btree_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

// The contents of a level of nodes: each entry's key, and its value or child.
struct Entries {
  std::span<const std::uint64_t> keys;
  std::span<const std::byte> values;
  std::uint64_t value_bytes = 0;

  [[nodiscard]] std::span<const std::byte> value(std::size_t i) const {
    return values.subspan(i * value_bytes, value_bytes);
  }
};

void append(NodeEdit& node, const Entries& entries, std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    node.insert(node.header.count, entries.keys[i], entries.value(i));
  }
}

}  // namespace

// The nodes of a load, level by level, without the root.
struct BTree::Load {
  Entries entries{};                               // of the leaves, then of the level above the last one made
  std::vector<std::vector<std::uint64_t>> lows{};  // of each level's nodes
  std::vector<NodeRef> children{};                 // the last level made
  std::vector<NodeRef> made{};                     // all nodes made
};

// Latches the root of a tree without entries.
Task<BTree::Latched> BTree::latch_empty_root(Worker& worker) const {
  Latched root = co_await latch_node(worker, kRoot);
  if (!root) {
    co_return root;
  }
  const NodeHeader header = NodeView(*format_, root.guard.payload()).header;
  if (header.torn() || header.level != 0 || header.count != 0) {
    co_await leave(root.guard);
    if (header.torn()) {
      throw_damaged(kRoot, kTornNode);
    }
    throw std::invalid_argument("a bulk load into a tree that is not empty: use put()");
  }
  co_return root;
}

// Takes all nodes that the load needs, each where it is to lie if there is room. No latch is held meanwhile: a sweep
// may have to wait for a dead client's lease, and reads the root.
Task<Outcome> BTree::stock_for(Worker& worker, const Load& load) const {
  std::size_t all = 0;
  std::vector<std::size_t> wanted(memory_nodes());
  const std::size_t turn = worker.turn_;
  for (const std::vector<std::uint64_t>& level : load.lows) {
    for (const std::uint64_t low : level) {
      ++wanted[place_for(worker, low)];
      ++worker.turn_;
      ++all;
    }
  }
  forget_stuck_spares(worker);
  worker.turn_ = turn;
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    Outcome outcome = Outcome::done;
    while (outcome == Outcome::done && worker.spares_[memory_node].size() < wanted[memory_node]) {
      outcome = co_await take_spares(worker, memory_node, wanted[memory_node] - worker.spares_[memory_node].size());
    }
    if (outcome == Outcome::timed_out) {
      co_return outcome;
    }
  }
  if (all > 0) {
    const Outcome outcome = co_await stock(worker, all, 0);
    if (outcome != Outcome::done) {
      co_return outcome;
    }
  }
  // Some may be latched by dead clients.
  for (std::size_t memory_node = 0; memory_node < memory_nodes(); ++memory_node) {
    for (std::size_t i = 0; i < worker.spares_[memory_node].size(); ++i) {
      const NodeRef ref = NodeRef::of(memory_node, worker.spares_[memory_node][i], 0);
      const bool held = co_await is_held(worker, ref);
      if (held) {
        const Outcome outcome = co_await give_way(worker, ref);
        if (outcome != Outcome::done) {
          co_return outcome;
        }
      }
    }
  }
  co_return Outcome::done;
}

// Writes all nodes but the root; when this returns, all clients see them.
Task<Outcome> BTree::make_levels(Worker& worker, Load& load) const {
  std::uint16_t level = 0;
  for (const std::vector<std::uint64_t>& lows : load.lows) {
    const std::size_t nodes = lows.size();
    const std::size_t count = load.entries.keys.size();
    std::vector<NodeRef> made;
    Latched node = co_await new_node(worker, 0);
    if (!node) {
      co_return node.outcome;
    }
    load.made.push_back(node.ref);
    for (std::size_t i = 0; i < nodes; ++i) {
      NodeEdit edit(*format_, node.guard.payload());
      edit.clear(level);
      edit.header.low = lows[i];
      append(edit, load.entries, count * i / nodes, count * (i + 1) / nodes - count * i / nodes);
      Latched next;
      if (i + 1 < nodes) {
        next = co_await new_node(worker, lows[i + 1]);
        if (!next) {
          co_await leave(node.guard);
          co_return next.outcome;
        }
        load.made.push_back(next.ref);
        edit.set_high(lows[i + 1]);
        edit.header.right = next.ref;
      }
      edit.finish();
      co_await node.guard.commit();
      made.push_back(node.ref);
      node = std::move(next);
    }
    load.children = std::move(made);
    load.entries = {lows, std::as_bytes(std::span(load.children)), sizeof(NodeRef)};
    ++level;
  }
  co_await worker.drain();
  co_return Outcome::done;
}

// Unless this is done, or a connection fails while the root is written, nothing leads to the nodes that were made.
Task<Outcome> BTree::load_under(Worker& worker, Latched& root, Load& load) const {
  std::exception_ptr error;
  Outcome outcome = Outcome::timed_out;
  try {
    outcome = co_await make_levels(worker, load);
  } catch (...) {
    error = std::current_exception();
  }
  if (outcome == Outcome::done) {
    NodeEdit top(*format_, root.guard.payload());
    top.clear(static_cast<std::uint16_t>(load.lows.size()));
    append(top, load.entries, 0, load.entries.keys.size());
    top.finish();
    const bool written = co_await write(worker, root);
    if (written) {
      co_return Outcome::done;
    }
    error = std::make_exception_ptr(
        LatchError(LatchError::Kind::lease_expired,
                   "the root's lease ended during the bulk load: the tree is empty; load without lease"));
  }
  for (const NodeRef ref : load.made) {
    worker.spares_[ref.memory_node()].push_back(ref.object());
  }
  try {
    co_await leave(root.guard);
  } catch (...) {
    error = error ? error : std::current_exception();
  }
  if (error) {
    std::rethrow_exception(error);
  }
  co_return outcome;
}

Task<Outcome> BTree::try_load(Worker& worker, Load& load) const {
  // First to see that it is empty. If its last holder died in the middle of a load, it is known from now on whose nodes
  // a sweep may bring back.
  Latched root = co_await latch_empty_root(worker);
  if (!root) {
    co_return root.outcome;
  }
  co_await leave(root.guard);
  const Outcome stocked = co_await stock_for(worker, load);
  if (stocked != Outcome::done) {
    co_return stocked;
  }
  root = co_await latch_empty_root(worker);
  if (!root) {
    co_return root.outcome;
  }
  const Outcome outcome = co_await load_under(worker, root, load);
  co_return outcome;
}

Task<Outcome> BTree::bulk_load(Worker& worker, std::span<const std::uint64_t> keys, std::span<const std::byte> values,
                               double fill) const {
  if (!(fill >= 0.5 && fill <= 1)) {
    throw std::invalid_argument(fmt::format("fill {}: it must be 0.5 to 1", fill));
  }
  if (values.size() != keys.size() * options_.value_bytes) {
    throw std::invalid_argument(fmt::format("{} keys need {} bytes of values, not {}", keys.size(),
                                            keys.size() * options_.value_bytes, values.size()));
  }
  const auto descent = std::ranges::adjacent_find(keys, std::greater_equal<>());
  if (descent != keys.end()) {
    throw std::invalid_argument(fmt::format("key {} of the bulk load does not ascend: {} comes after {}",
                                            descent - keys.begin() + 1, *(descent + 1), *descent));
  }
  if (!is_open(worker)) [[unlikely]] {
    co_await open(worker);
  }
  Load load{.entries = {keys, values, options_.value_bytes}};
  std::size_t count = keys.size();
  std::span<const std::uint64_t> below = keys;
  for (std::uint16_t level = 0; count > format_->capacity(level); ++level) {
    const auto per_node = static_cast<std::size_t>(std::max(2.0, std::floor(format_->capacity(level) * fill)));
    // Spread evenly, so that the last node is not nearly empty.
    const std::size_t nodes = (count + per_node - 1) / per_node;
    std::vector<std::uint64_t> lows(nodes);
    for (std::size_t i = 1; i < nodes; ++i) {
      lows[i] = below[count * i / nodes];
    }
    load.lows.push_back(std::move(lows));
    below = load.lows.back();
    count = nodes;
  }
  std::exception_ptr error;
  Outcome outcome = Outcome::timed_out;
  try {
    outcome = co_await try_load(worker, load);
  } catch (...) {
    error = std::current_exception();
  }
  try {
    co_await give_back_surplus(worker);
  } catch (...) {
    error = error ? error : std::current_exception();
  }
  if (error) {
    std::rethrow_exception(error);
  }
  co_return outcome;
}

}  // namespace sidelatch::structures
