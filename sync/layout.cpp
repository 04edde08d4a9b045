#include <sidelatch/sync/layout.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::sync {

using namespace fabric;

namespace {

constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kLargestArray = 1ULL << 47;  // a process's address space
constexpr std::uint64_t kEnoughSlots = 64;

constexpr std::array kNames = {
    std::pair{LayoutKind::interleaved, "interleaved"},     std::pair{LayoutKind::padded, "padded"},
    std::pair{LayoutKind::decoupled, "decoupled"},         std::pair{LayoutKind::footer, "footer"},
    std::pair{LayoutKind::padded_footer, "padded_footer"}, std::pair{LayoutKind::slotted, "slotted"},
};

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

bool is_padded(LayoutKind kind) { return kind == LayoutKind::padded || kind == LayoutKind::padded_footer; }

// Each line gives `width` bytes to its version, except the one with the 16-byte header.
RecordShape shape_with_line_versions(RecordShape shape, std::uint64_t width, bool header_last) {
  const std::uint64_t per_line = kLineBytes - width;
  const std::uint64_t in_header_line = kLineBytes - shape.header_bytes;
  const std::uint64_t beyond = shape.payload_bytes > in_header_line ? shape.payload_bytes - in_header_line : 0;
  const std::uint64_t plain_lines = (beyond + per_line - 1) / per_line;
  if (header_last) {
    shape.bytes = (plain_lines + 1) * kLineBytes;
    shape.header = shape.bytes - shape.header_bytes;
    shape.payload = plain_lines > 0 ? width : 0;
  } else {
    shape.bytes = round_up(shape.header_bytes + plain_lines * width + shape.payload_bytes, kWord);
    shape.header = 0;
    shape.payload = shape.header_bytes;
  }
  shape.line_versions = static_cast<std::uint32_t>(width);
  return shape;
}

RecordShape contiguous_shape(RecordShape shape, bool checksum) {
  const std::uint64_t payload = shape.payload_words() * shape.copies;
  const std::uint64_t checksum_bytes = checksum ? kWord : 0;
  const std::uint64_t inside = shape.decoupled ? 0 : shape.header_bytes;
  shape.bytes = inside + checksum_bytes + payload;
  if (shape.header_last) {
    shape.bytes = round_up(shape.bytes, shape.alignment);  // the header must not straddle two lines
    shape.header = shape.bytes - shape.header_bytes;
    shape.payload = 0;
    shape.checksum = checksum ? shape.header - kWord : RecordShape::kNone;
  } else {
    shape.header = 0;
    shape.payload = inside + checksum_bytes;
    shape.checksum = checksum ? inside : RecordShape::kNone;
  }
  return shape;
}

}  // namespace

std::string_view name(LayoutKind kind) {
  for (const auto& [value, text] : kNames) {
    if (value == kind) {
      return text;
    }
  }
  return "unknown";
}

LayoutKind parse_layout(std::string_view text) {
  std::string known;
  for (const auto& [value, known_name] : kNames) {
    if (text == known_name) {
      return value;
    }
    known += known.empty() ? "" : ", ";
    known += known_name;
  }
  throw std::invalid_argument(fmt::format("there is no layout {}: the names are {}", text, known));
}

RecordShape make_shape(const RecordNeeds& needs, LayoutKind kind, std::uint64_t payload_bytes) {
  const std::uint64_t largest = kLargestPayload / std::max(needs.copies, 1U);
  if (payload_bytes == 0 || payload_bytes > largest) {
    throw std::invalid_argument(fmt::format("a payload of {} bytes: it must be 1 to {}", payload_bytes, largest));
  }
  if (needs.line_versions != 0 && needs.line_versions != 2 && needs.line_versions != 8) {
    throw std::invalid_argument(
        fmt::format("line versions of {} bytes: they must have 2 or 8, or 0 for none", needs.line_versions));
  }
  if (needs.copies == 0 || (needs.copies > 1 && (needs.line_versions != 0 || needs.checksum))) {
    throw std::invalid_argument(fmt::format(
        "{} copies of the payload: there must be 1, or more without checksum and line versions", needs.copies));
  }
  if (needs.header_inside && kind == LayoutKind::decoupled) {
    throw std::invalid_argument(
        "layout decoupled: this scheme reads latch, version and payload by one READ, so its header must lie in the "
        "record; use interleaved, padded or footer");
  }
  if (needs.slot && kind != LayoutKind::slotted) {
    throw std::invalid_argument(
        fmt::format("layout {}: this scheme's switch finds records on slots of 2^n bytes; use slotted", name(kind)));
  }
  RecordShape shape;
  shape.payload_bytes = payload_bytes;
  shape.header_bytes = needs.version ? 2 * kWord : kWord;
  shape.alignment = needs.version || needs.slot ? kLineBytes : kWord;
  shape.header_last = is_footer(kind);
  shape.decoupled = kind == LayoutKind::decoupled;
  shape.copies = needs.copies;
  shape.needs = needs.code();
  shape = needs.line_versions != 0 ? shape_with_line_versions(shape, needs.line_versions, shape.header_last)
                                   : contiguous_shape(shape, needs.checksum);
  shape.client_bytes = shape.header_area() + kLineBytes;
  return shape;
}

Layout::Layout(const RecordShape& shape, LayoutKind kind, std::uint64_t count)
    : shape_(shape), kind_(kind), count_(count), stride_(round_up(shape.bytes, shape.alignment)) {
  if (count == 0) {
    throw std::invalid_argument("a layout of 0 objects: there must be at least 1");
  }
  if (shape.decoupled != (kind == LayoutKind::decoupled) || shape.header_last != is_footer(kind)) {
    throw std::invalid_argument(fmt::format("layout {}: the record was shaped for another layout", name(kind)));
  }
  // The stride is an odd number of units, so its multiples reach every slot that addresses of this alignment can reach.
  if (is_padded(kind) && stride_ / shape.alignment % 2 == 0) {
    stride_ += shape.alignment;
  }
  if (kind == LayoutKind::slotted) {
    stride_ = std::bit_ceil(stride_);
  }
  const std::uint64_t per_object = stride_ + shape.header_bytes;
  if (count > kLargestArray / per_object) {
    throw std::invalid_argument(fmt::format("a layout of {} objects of {} bytes: all together must be at most {} bytes",
                                            count, per_object, kLargestArray));
  }
  if (shape.decoupled) {
    records_ = round_up(count * shape.header_bytes, kLineBytes);
  }
}

void Layout::check(std::uint64_t i) const {
  if (i >= count_) {
    throw std::out_of_range(fmt::format("object {}: the layout has objects 0 to {}", i, count_ - 1));
  }
}

std::uint64_t Layout::record(std::uint64_t i) const {
  check(i);
  return records_ + i * stride_;
}

std::uint64_t Layout::header(std::uint64_t i) const {
  check(i);
  return shape_.decoupled ? i * shape_.header_bytes : record(i) + shape_.header;
}

std::uint64_t Layout::latch(std::uint64_t i) const { return header(i) + shape_.latch_in_header(); }

std::uint64_t Layout::version(std::uint64_t i) const {
  if (!shape_.has_version()) {
    throw std::logic_error("this layout's records have no version");
  }
  return header(i) + shape_.version_in_header();
}

std::uint64_t Layout::payload(std::uint64_t i) const { return record(i) + shape_.payload; }

std::uint64_t Layout::checksum(std::uint64_t i) const {
  if (shape_.checksum == RecordShape::kNone) {
    throw std::logic_error("this layout's records have no checksum");
  }
  return record(i) + shape_.checksum;
}

std::uint64_t Layout::slots_used(const LockTableShape& table, std::uint64_t address) const {
  constexpr std::uint32_t kMostBits = 32;
  const bool has_bits = table.address_bits > 0 && table.address_bits <= kMostBits;
  if (!has_bits || table.slot_bytes == 0 || table.slots() == 0) {
    throw std::invalid_argument(
        fmt::format("a lock table whose slots have {} bytes and are chosen by the {} lowest bits of an address: slots "
                    "have 1 byte to 2^bits, and bits are 1 to {}",
                    table.slot_bytes, table.address_bits, kMostBits));
  }
  // The low bits repeat after `period` latches.
  const std::uint64_t reach = std::uint64_t{1} << table.address_bits;
  const std::uint64_t latch_stride = shape_.decoupled ? shape_.header_bytes : stride_;
  const std::uint64_t period = reach / std::gcd(reach, latch_stride);
  std::vector<bool> used(table.slots());
  std::uint64_t n = 0;
  for (std::uint64_t i = 0; i < std::min(count_, period); ++i) {
    const std::uint64_t slot = (address + latch(i)) % reach / table.slot_bytes;
    n += used[slot] ? 0U : 1U;
    used[slot] = true;
  }
  return n;
}

std::optional<std::string> Layout::warning(const LockTableShape& table) const {
  const std::uint64_t used = slots_used(table);
  if (used >= std::min(kEnoughSlots, std::min(count_, table.slots()))) {
    return std::nullopt;
  }
  return fmt::format(
      "layout {}: the latches of {} objects, {} bytes apart, use {} of the {} slots of the NIC's lock table, so that "
      "unrelated latches wait for each other; use layout padded or decoupled",
      name(kind_), count_, stride_, used, table.slots());
}

ObjectArray::ObjectArray(const Layout& layout, const RemoteSpan& region) : layout_(layout), region_(region) {
  if (region.length < layout.total_bytes()) {
    throw std::invalid_argument(fmt::format("a region of {} bytes for an array of {}: it must be as long",
                                            region.length, layout.total_bytes()));
  }
  if (region.address.value % layout.shape().alignment != 0) {
    throw std::invalid_argument(fmt::format("an array at {:#x}: its address must be a multiple of {}",
                                            region.address.value, layout.shape().alignment));
  }
}

Object ObjectArray::at(std::uint64_t i) const {
  return {region_.address + layout_.record(i), region_.address + layout_.header(i), region_.rkey, &layout_.shape()};
}

}  // namespace sidelatch::sync
