// The layout of a B-tree node, as a view of its payload.
//
//   0 seal, 8 low, 16 high, 24 right, 32 absorbed, 36 level, 38 flags, 40 count, 44 generation, 48 keys, then values
//
// The keys are sorted. A leaf's values are the user's; an inner node's values are references to its children. Key i of
// an inner node is the lowest key that child i may have, so key 0 is the node's own `low`. A node holds the keys from
// `low` up to, but not including, `high`, if it has one; `right` is the next node.
//
// `right` and `absorbed` say together what became of a WRITE that was cut, so they are in one cache line: at payload
// offsets 24 to 36, where a payload begins at most 28 bytes behind the record's begin, which is a line's.
//
// Zeroed memory is an empty leaf for all keys: an empty tree's root.
#pragma once

#include "seal.h"

#include <sidelatch/structures/node_ref.h>
#include <sidelatch/structures/node_search.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace sidelatch::structures {

struct NodeHeader {
  std::uint64_t seal = 0;
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  NodeRef right{};
  std::uint32_t absorbed = 0;  // the last WRITE took over the entries of this node (tag_of); 0: another WRITE
  std::uint16_t level = 0;
  std::uint16_t flags = 0;
  std::uint32_t count = 0;
  std::uint32_t generation = 0;  // of the references to it

  static constexpr std::uint16_t kHasHigh = 1;
  static constexpr std::uint16_t kDead = 2;  // merged into its left neighbour, or about to be
  /// Its last writer died within a WRITE, and its entries are a mixture. Only `right`, `generation` and `absorbed` are
  /// as they were found. Each is what it was either before or after that WRITE.
  static constexpr std::uint16_t kTorn = 4;

  [[nodiscard]] bool has_high() const noexcept { return (flags & kHasHigh) != 0; }
  [[nodiscard]] bool dead() const noexcept { return (flags & kDead) != 0; }
  [[nodiscard]] bool torn() const noexcept { return (flags & kTorn) != 0; }
  /// Whether the key is below this node's upper end.
  [[nodiscard]] bool below_high(std::uint64_t key) const noexcept { return !has_high() || key < high; }
  [[nodiscard]] bool covers(std::uint64_t key) const noexcept { return low <= key && below_high(key); }
  [[nodiscard]] bool is_leaf() const noexcept { return level == 0; }
};
static_assert(sizeof(NodeHeader) == 48);

/// What NodeHeader::absorbed says of a node.
[[nodiscard]] constexpr std::uint32_t tag_of(NodeRef node) noexcept {
  constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15ULL;  // odd: memory node and generation count, too
  const auto tag = static_cast<std::uint32_t>(node.bits * kSpread >> 32);
  return tag == 0 ? 1 : tag;
}

/// The capacity of a node.
struct NodeFormat {
  std::uint64_t payload_bytes = 0;
  std::uint64_t value_bytes = 0;  // of leaves

  [[nodiscard]] std::uint64_t value_bytes_at(std::uint16_t level) const noexcept {
    return level == 0 ? value_bytes : sizeof(NodeRef);
  }
  [[nodiscard]] std::uint32_t capacity(std::uint16_t level) const noexcept {
    return static_cast<std::uint32_t>((payload_bytes - sizeof(NodeHeader)) / (8 + value_bytes_at(level)));
  }
};

/// A view of a node that is only read.
class NodeView {
 public:
  NodeView(const NodeFormat& format, std::span<const std::byte> payload) noexcept
      : format_(&format), bytes_(payload.data()) {
    std::memcpy(&header, bytes_, sizeof header);
  }

  NodeHeader header;  // a copy

  [[nodiscard]] std::uint32_t capacity() const noexcept { return format_->capacity(header.level); }
  /// False for a count that no operation writes: the node's memory was damaged.
  [[nodiscard]] bool has_plausible_count() const noexcept { return header.count <= capacity(); }
  [[nodiscard]] std::span<const std::uint64_t> keys() const noexcept {
    // Payloads begin at a multiple of 8, and so do their keys.
    return {reinterpret_cast<const std::uint64_t*>(bytes_ + sizeof(NodeHeader)), header.count};
  }
  [[nodiscard]] std::span<const std::byte> value(std::size_t i) const noexcept {
    const std::uint64_t bytes = format_->value_bytes_at(header.level);
    return {bytes_ + values_begin() + i * bytes, bytes};
  }
  [[nodiscard]] NodeRef child(std::size_t i) const noexcept {
    NodeRef ref;
    std::memcpy(&ref, value(i).data(), sizeof ref);
    return ref;
  }
  /// The entry with the key.
  [[nodiscard]] std::optional<std::size_t> find(std::uint64_t key) const noexcept {
    const std::size_t at = count_less(keys(), key);
    return at < header.count && keys()[at] == key ? std::optional(at) : std::nullopt;
  }
  /// The child of an inner node that covers the key.
  [[nodiscard]] std::size_t child_index(std::uint64_t key) const noexcept {
    const std::size_t at = count_less(keys(), key);
    return at < header.count && keys()[at] == key ? at : at == 0 ? 0 : at - 1;
  }

 protected:
  [[nodiscard]] std::size_t values_begin() const noexcept {
    return sizeof(NodeHeader) + std::size_t{format_->capacity(header.level)} * 8;
  }

  const NodeFormat* format_;
  const std::byte* bytes_;
};

/// A latched node, to be changed. finish() writes the header back and seals it. It forgets what the node absorbed.
class NodeEdit : public NodeView {
 public:
  NodeEdit(const NodeFormat& format, std::span<std::byte> payload) noexcept
      : NodeView(format, payload), payload_(payload) {
    header.absorbed = 0;
  }

  /// Makes the node an empty one of that level; fences, link and generation stay.
  void clear(std::uint16_t level) noexcept;
  void insert(std::size_t at, std::uint64_t key, std::span<const std::byte> value) noexcept;
  void insert(std::size_t at, std::uint64_t key, NodeRef child) noexcept;
  void erase(std::size_t at) noexcept;
  void set_value(std::size_t at, std::span<const std::byte> value) noexcept;
  /// Appends entries [first, first + count) of a node of the same level.
  void append(const NodeView& from, std::size_t first, std::size_t count) noexcept;
  void truncate(std::size_t count) noexcept { header.count = static_cast<std::uint32_t>(count); }
  void set_high(const NodeHeader& of) noexcept;
  void set_high(std::uint64_t key) noexcept;
  void finish() noexcept;

 private:
  [[nodiscard]] std::byte* key_at(std::size_t i) noexcept { return payload_.data() + sizeof(NodeHeader) + i * 8; }
  [[nodiscard]] std::byte* value_at(std::size_t i) noexcept {
    return payload_.data() + values_begin() + i * format_->value_bytes_at(header.level);
  }

  std::span<std::byte> payload_;
};

}  // namespace sidelatch::structures
