#include "tree_node.h"

namespace sidelatch::structures {

void NodeEdit::clear(std::uint16_t level) noexcept {
  header.level = level;
  header.count = 0;
  header.flags = static_cast<std::uint16_t>(header.flags & ~NodeHeader::kDead);
}

void NodeEdit::insert(std::size_t at, std::uint64_t key, std::span<const std::byte> value) noexcept {
  const std::size_t behind = header.count - at;
  std::memmove(key_at(at + 1), key_at(at), behind * 8);
  std::memmove(value_at(at + 1), value_at(at), behind * value.size());
  std::memcpy(key_at(at), &key, 8);
  std::memcpy(value_at(at), value.data(), value.size());
  ++header.count;
}

void NodeEdit::insert(std::size_t at, std::uint64_t key, NodeRef child) noexcept {
  insert(at, key, std::as_bytes(std::span(&child, 1)));
}

void NodeEdit::erase(std::size_t at) noexcept {
  const std::size_t behind = header.count - at - 1;
  std::memmove(key_at(at), key_at(at + 1), behind * 8);
  std::memmove(value_at(at), value_at(at + 1), behind * format_->value_bytes_at(header.level));
  --header.count;
}

void NodeEdit::set_value(std::size_t at, std::span<const std::byte> value) noexcept {
  std::memcpy(value_at(at), value.data(), value.size());
}

void NodeEdit::append(const NodeView& from, std::size_t first, std::size_t count) noexcept {
  if (count == 0) {
    return;
  }
  std::memcpy(key_at(header.count), from.keys().data() + first, count * 8);
  std::memcpy(value_at(header.count), from.value(first).data(), count * format_->value_bytes_at(header.level));
  header.count += static_cast<std::uint32_t>(count);
}

void NodeEdit::set_high(const NodeHeader& of) noexcept {
  header.high = of.high;
  header.flags = static_cast<std::uint16_t>((header.flags & ~NodeHeader::kHasHigh) | (of.flags & NodeHeader::kHasHigh));
}

void NodeEdit::set_high(std::uint64_t key) noexcept {
  header.high = key;
  header.flags |= NodeHeader::kHasHigh;
}

void NodeEdit::finish() noexcept {
  std::memcpy(payload_.data(), &header, sizeof header);
  seal(payload_);
}

}  // namespace sidelatch::structures
