// NodeRef: a reference to a node of a B-tree: the memory node, the object there, and the generation of that object.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace sidelatch::structures {

/// 8 bytes, as stored in nodes. Zero is no node.
///
/// The generation counts how often the object was made a node, so an outdated reference does not match it. It has 16
/// bits: after the same object was made a node 65 536 times, an outdated reference would match. The fence keys then
/// still show whether the node is the right one.
struct NodeRef {
  std::uint64_t bits = 0;

  static constexpr std::uint64_t kMostObjects = 0xffff'ffffU;
  static constexpr std::size_t kMostMemoryNodes = 0x1'0000U;

  [[nodiscard]] static constexpr NodeRef of(std::size_t memory_node, std::uint64_t object, std::uint32_t generation) {
    return {std::uint64_t{memory_node} << 48 | std::uint64_t{generation & 0xffffU} << 32 | (object + 1)};
  }
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return bits != 0; }
  [[nodiscard]] constexpr std::size_t memory_node() const noexcept { return bits >> 48; }
  [[nodiscard]] constexpr std::uint32_t generation() const noexcept { return bits >> 32 & 0xffffU; }
  [[nodiscard]] constexpr std::uint64_t object() const noexcept { return (bits & 0xffff'ffffU) - 1; }
  friend constexpr auto operator<=>(NodeRef, NodeRef) = default;
};

}  // namespace sidelatch::structures
