// Fills an empty B-tree from below: leaves from left to right, then each level of inner nodes, the root last.
#include "btree_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

Task<BTree::Latched> BTree::stocked_node(Worker& worker, std::uint64_t low) const {
  if (!has_in_hand(worker, 1, low)) {
    const Outcome outcome = co_await stock(worker, 1, low);
    if (outcome != Outcome::done) {
      co_return Latched(outcome);
    }
  }
  Latched node = co_await new_node(worker, low);
  co_return node;
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
  Latched root = co_await latch_node(worker, kRoot);
  if (!root) {
    co_return root.outcome;
  }
  NodeEdit top(*format_, root.guard.payload());
  if (top.header.level != 0 || top.header.count != 0) {
    co_await leave(root.guard);
    throw std::invalid_argument("a bulk load into a tree that is not empty: use put()");
  }
  std::vector<NodeRef> made;
  std::vector<std::uint64_t> lows;
  std::vector<NodeRef> children;
  Entries entries{keys, values, options_.value_bytes};
  std::uint16_t level = 0;
  Outcome outcome = Outcome::done;
  for (; entries.keys.size() > format_->capacity(level) && outcome == Outcome::done; ++level) {
    const std::uint32_t capacity = format_->capacity(level);
    const auto per_node = static_cast<std::size_t>(std::max(2.0, std::floor(capacity * fill)));
    // Spread evenly, so that the last node is not nearly empty.
    const std::size_t count = entries.keys.size();
    const std::size_t nodes = (count + per_node - 1) / per_node;
    std::vector<std::uint64_t> new_lows;
    std::vector<NodeRef> new_children;
    Latched node = co_await stocked_node(worker, 0);
    outcome = node.outcome;
    for (std::size_t i = 0; i < nodes && outcome == Outcome::done; ++i) {
      const std::size_t first = count * i / nodes;
      const std::size_t end = count * (i + 1) / nodes;
      const std::uint64_t low = i == 0 ? 0 : entries.keys[first];
      made.push_back(node.ref);
      new_lows.push_back(low);
      new_children.push_back(node.ref);
      NodeEdit edit(*format_, node.guard.payload());
      edit.clear(level);
      edit.header.low = low;
      append(edit, entries, first, end - first);
      Latched next;
      if (i + 1 < nodes) {
        next = co_await stocked_node(worker, entries.keys[end]);
        outcome = next.outcome;
        edit.set_high(entries.keys[end]);
        edit.header.right = next.ref;
      }
      edit.finish();
      co_await node.guard.commit();
      node = std::move(next);
    }
    lows = std::move(new_lows);
    children = std::move(new_children);
    entries = {lows, std::as_bytes(std::span(children)), sizeof(NodeRef)};
  }
  co_await worker.drain();
  if (outcome != Outcome::done) {
    co_await leave(root.guard);
    for (const NodeRef ref : made) {
      co_await free_node(worker, ref);
    }
    co_return outcome;
  }
  top.clear(level);
  append(top, entries, 0, entries.keys.size());
  top.finish();
  const bool written = co_await write(worker, root);
  if (!written) {
    for (const NodeRef ref : made) {
      co_await free_node(worker, ref);
    }
    throw LatchError(LatchError::Kind::lease_expired,
                     "the root's lease ended during the bulk load: the tree is empty; load without lease");
  }
  co_return Outcome::done;
}

}  // namespace sidelatch::structures
