#include <sidelatch/structures/btree.h>

#include "btree_path.h"
#include "holding.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

constexpr std::uint64_t kLeastNodeBytes = 128;
constexpr std::uint64_t kMostNodeBytes = 65'536;
constexpr std::uint32_t kLeastEntries = 4;
constexpr std::uint64_t kLeastNodes = 4;
// One buffer each for the parent, two neighbours, the pool's record, its word, and a node that is read.
constexpr std::uint32_t kLeastBuffers = 6;

void validate(const BTreeOptions& options) {
  if (options.node_bytes < kLeastNodeBytes || options.node_bytes > kMostNodeBytes || options.node_bytes % 8 != 0) {
    throw std::invalid_argument(fmt::format("node_bytes {}: it must be a multiple of 8, {} to {}", options.node_bytes,
                                            kLeastNodeBytes, kMostNodeBytes));
  }
  if (options.value_bytes == 0 || options.value_bytes > kMostNodeBytes) {
    throw std::invalid_argument(fmt::format("value_bytes {}: it must be 1 to {}", options.value_bytes, kMostNodeBytes));
  }
  if (options.nodes < kLeastNodes || options.nodes > NodeRef::kMostObjects) {
    throw std::invalid_argument(
        fmt::format("nodes {}: it must be {} to {}", options.nodes, kLeastNodes, NodeRef::kMostObjects));
  }
}

NodeFormat format_of(const Scheme& scheme, const BTreeOptions& options) {
  validate(options);
  const std::uint64_t payload =
      scheme.largest_payload(options.node_bytes, options.layout.value_or(scheme.default_layout())) / 8 * 8;
  const NodeFormat format{.payload_bytes = payload, .value_bytes = options.value_bytes};
  const std::uint64_t least = sizeof(NodeHeader) + kLeastEntries * (8 + options.value_bytes);
  if (payload < least || format.capacity(1) < kLeastEntries) {
    throw std::invalid_argument(fmt::format(
        "value_bytes {} and node_bytes {}: a node must have room for {} entries, which is a payload of {} bytes, and "
        "with {} it has {}; take larger nodes or smaller values",
        options.value_bytes, options.node_bytes, kLeastEntries,
        std::max(least, sizeof(NodeHeader) + std::uint64_t{kLeastEntries} * 16), scheme.name(), payload));
  }
  return format;
}

Layout layout_of(const Scheme& scheme, const BTreeOptions& options) {
  const LayoutKind kind = options.layout.value_or(scheme.default_layout());
  return {scheme.shape(format_of(scheme, options).payload_bytes, kind), kind, options.nodes};
}

// Each memory node holds a superblock, its pool, then its tree nodes.
std::uint64_t nodes_begin(const Scheme& scheme, const BTreeOptions& options) {
  return kSuperblockBytes + RecordShape::whole_lines(Pool::bytes_needed(scheme, options.nodes));
}

Superblock superblock_for(const Scheme& scheme, const BTreeOptions& options, const Layout& layout,
                          std::size_t memory_node, std::size_t memory_nodes) {
  Superblock block;
  block.set_kind("B-tree");
  block.set_scheme(scheme.name());
  block.layout = static_cast<std::uint32_t>(layout.kind());
  block.needs = layout.shape().needs;
  block.memory_node = memory_node;
  block.memory_nodes = memory_nodes;
  block.add("node_bytes", options.node_bytes);
  block.add("value_bytes", options.value_bytes);
  block.add("nodes", options.nodes);
  block.seal();
  return block;
}

}  // namespace

std::uint64_t BTree::bytes_needed(const Scheme& scheme, const BTreeOptions& options) {
  return nodes_begin(scheme, options) + layout_of(scheme, options).total_bytes();
}

BTree::BTree(const Scheme& scheme, const BTreeOptions& options, std::span<const RemoteSpan> memory)
    : scheme_(&without_queue(scheme)),
      options_(options),
      format_(std::make_unique<const NodeFormat>(format_of(scheme, options))) {
  if (memory.empty() || memory.size() > NodeRef::kMostMemoryNodes) {
    throw std::invalid_argument(
        fmt::format("memory of {} memory nodes: it must be 1 to {}", memory.size(), NodeRef::kMostMemoryNodes));
  }
  const Layout layout = layout_of(scheme, options);
  const std::uint64_t begin = nodes_begin(scheme, options);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].length < bytes_needed(scheme, options)) {
      throw std::invalid_argument(fmt::format("{} bytes at memory node {}: the tree needs {}", memory[i].length, i,
                                              bytes_needed(scheme, options)));
    }
    objects_.emplace_back(layout, memory[i].subspan(begin, layout.total_bytes()));
    // The root is object 0 of memory node 0.
    pools_.emplace_back(scheme, memory[i].subspan(kSuperblockBytes, begin - kSuperblockBytes), i, options.nodes,
                        i == 0 ? 1 : 0);
    heads_.push_back(memory[i]);
    superblocks_.push_back(superblock_for(scheme, options, layout, i, memory.size()));
  }
}

BTree::~BTree() = default;

std::uint64_t BTree::buffer_bytes() const {
  return std::max(
      {sync::buffer_bytes(objects_.front().layout().shape()), Pool::buffer_bytes(*scheme_), kSuperblockBuffer});
}

std::uint32_t BTree::leaf_capacity() const { return format_->capacity(0); }
std::uint32_t BTree::inner_capacity() const { return format_->capacity(1); }

BTree::Worker::Worker(const BTree& tree, Node& node, std::span<Node* const> memory_nodes,
                      const BTreeWorkerOptions& options)
    : Client(node, memory_nodes, tree.buffer_bytes(), options.session, options.queue_pair, options.revokers),
      tree_(&tree),
      most_cached_(options.cached_nodes),
      spares_(memory_nodes.size()),
      seen_full_(memory_nodes.size(), false) {
  if (memory_nodes.size() != tree.memory_nodes()) {
    throw std::invalid_argument(
        fmt::format("a worker for {} memory nodes: the tree lies on {}", memory_nodes.size(), tree.memory_nodes()));
  }
  if (options.session.buffers < kLeastBuffers) {
    throw std::invalid_argument(
        fmt::format("buffers {}: a B-tree's worker needs at least {}", options.session.buffers, kLeastBuffers));
  }
}

Task<void> BTree::Worker::close() {
  std::exception_ptr error;
  try {
    co_await tree_->retire(*this);
  } catch (...) {
    error = std::current_exception();
  }
  co_await Client::close();
  if (error) {
    std::rethrow_exception(error);
  }
}

void BTree::require_value(std::size_t bytes) const {
  if (bytes != options_.value_bytes) {
    throw std::invalid_argument(fmt::format("a value of {} bytes: the tree's have {}", bytes, options_.value_bytes));
  }
}

// A worker's first operation looks what the memory holds.
Task<void> BTree::open(Worker& worker) const {
  if (worker.tree_ != this) {
    throw std::invalid_argument(
        "a worker of another tree: its spare nodes and its cache are of that tree; make one for this tree");
  }
  co_await open_superblocks(worker, heads_, superblocks_);
  worker.note_opened(number_);
}

Task<Outcome> BTree::get(Worker& worker, std::uint64_t key, std::span<std::byte> value) const {
  require_value(value.size());
  if (!is_open(worker)) [[unlikely]] {
    co_await open(worker);
  }
  const Client::Operation operation(worker);
  worker.begin_operation();
  Attempts attempts(worker.session(0), Attempts::Forgotten());
  while (attempts.shows_head()) {
    co_await attempts.pause();
  }
  for (;;) {
    Found leaf = co_await descend(worker, key, 0);
    if (leaf.outcome != Outcome::done) {
      co_return leaf.outcome;
    }
    const NodeView node(*format_, leaf.guard.payload());
    const std::optional<std::size_t> at = node.find(key);
    if (at) {
      std::ranges::copy(node.value(*at), value.begin());
    }
    const bool unchanged = co_await let_go(leaf.guard);
    if (unchanged) {
      co_return at ? Outcome::done : Outcome::absent;
    }
    worker.count_restart();
    if (attempts.expired()) {
      co_return Outcome::timed_out;
    }
    co_await attempts.pause();
  }
}

Task<Outcome> BTree::insert(Worker& worker, std::uint64_t key, std::span<const std::byte> value) const {
  return change(worker, key, value, Change::insert);
}
Task<Outcome> BTree::put(Worker& worker, std::uint64_t key, std::span<const std::byte> value) const {
  return change(worker, key, value, Change::put);
}
Task<Outcome> BTree::update(Worker& worker, std::uint64_t key, std::span<const std::byte> value) const {
  return change(worker, key, value, Change::update);
}
Task<Outcome> BTree::remove(Worker& worker, std::uint64_t key) const { return change(worker, key, {}, Change::remove); }

Task<Outcome> BTree::change(Worker& worker, std::uint64_t key, std::span<const std::byte> value, Change what) const {
  if (what != Change::remove) {
    require_value(value.size());
  }
  if (!is_open(worker)) [[unlikely]] {
    co_await open(worker);
  }
  const Client::Operation operation(worker);
  worker.begin_operation();
  for (;;) {
    Latched leaf = co_await latch_covering(worker, key, 0);
    if (!leaf) {
      co_return leaf.outcome;
    }
    NodeEdit node(*format_, leaf.guard.payload());
    if (!node.has_plausible_count()) {
      co_await leave(leaf.guard);
      throw_damaged(leaf.ref, "its count is not possible");
    }
    const std::optional<std::size_t> at = node.find(key);
    if (at ? what == Change::insert : what == Change::update || what == Change::remove) {
      co_await leave(leaf.guard);
      co_return at ? Outcome::present : Outcome::absent;
    }
    if (!at && node.header.count == node.capacity()) {
      const Outcome room = co_await make_room(worker, leaf, key);
      if (room != Outcome::done) {
        co_return room;
      }
      continue;
    }
    if (!at) {
      node.insert(count_less(node.keys(), key), key, value);
    } else if (what == Change::remove) {
      node.erase(*at);
    } else {
      node.set_value(*at, value);
    }
    node.finish();
    const NodeHeader header = node.header;
    const bool few = what == Change::remove && header.count < node.capacity() / 4;
    co_await leaf.guard.commit();
    try {
      if (few && leaf.ref != kRoot) {
        co_await merge_around(worker, 0, key);
      } else if (leaf.moved_right) {
        // The client that split it may have died before it updated the parent.
        (void)co_await add_separator(worker, 1, header.low, leaf.ref);
      }
    } catch (const LatchError&) {      // the operation itself is done, and the tree is valid
    } catch (const StructureError&) {  // who needs the damaged node is told
    }
    co_return Outcome::done;
  }
}

Task<BTree::Scanned> BTree::scan(Worker& worker, std::uint64_t from, std::span<std::uint64_t> keys,
                                 std::span<std::byte> values) const {
  if (values.size() != keys.size() * options_.value_bytes) {
    throw std::invalid_argument(fmt::format("a scan of {} keys needs {} bytes for values, not {}", keys.size(),
                                            keys.size() * options_.value_bytes, values.size()));
  }
  if (!is_open(worker)) [[unlikely]] {
    co_await open(worker);
  }
  const Client::Operation operation(worker);
  worker.begin_operation();
  Attempts attempts(worker.session(0));
  Scanned scanned;
  Found leaf;
  while (scanned.count < keys.size()) {
    if (!leaf.guard) {
      leaf = co_await descend(worker, from, 0);
      if (leaf.outcome != Outcome::done) {
        co_return Scanned{leaf.outcome, 0};
      }
    }
    const NodeView node(*format_, leaf.guard.payload());
    const NodeHeader header = node.header;
    const std::size_t first = count_less(node.keys(), from);
    const std::size_t count = std::min<std::size_t>(header.count - first, keys.size() - scanned.count);
    for (std::size_t i = 0; i < count; ++i) {
      keys[scanned.count + i] = node.keys()[first + i];
      std::ranges::copy(node.value(first + i),
                        values.begin() + static_cast<std::ptrdiff_t>((scanned.count + i) * options_.value_bytes));
    }
    const bool unchanged = co_await let_go(leaf.guard);
    leaf = Found();
    if (!unchanged) {  // read this leaf's entries again
      worker.count_restart();
      if (attempts.expired()) {
        co_return Scanned{Outcome::timed_out, 0};
      }
      co_await attempts.pause();
      continue;
    }
    scanned.count += count;
    if (!header.has_high() || scanned.count == keys.size()) {
      break;
    }
    from = header.high;
    leaf.ref = header.right;
    leaf.guard = co_await read_node(worker, leaf.ref);
    if (!leaf.guard) {
      co_return Scanned{Outcome::timed_out, 0};
    }
    const NodeView next(*format_, leaf.guard.payload());
    if (!is_meant(leaf.ref, next.header) || !next.header.is_leaf() || !next.header.covers(from) ||
        !next.has_plausible_count()) {  // start again from the root, which finds out what is wrong
      worker.count_restart();
      co_await leaf.guard.release();
    }
  }
  co_return scanned;
}

}  // namespace sidelatch::structures
