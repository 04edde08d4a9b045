// Layouts: where the latch, version, checksum and payload of each object of an array lie.
//
//   Layout layout(scheme.shape(256, LayoutKind::padded), LayoutKind::padded, 20'000);
//   MemoryRegion region = storage.allocate(layout.total_bytes(), Access::remote_all);
//   ObjectArray objects(layout, region.remote());
//   Object seventh = objects.at(7);
//   if (auto warning = layout.warning()) std::cerr << *warning;      // the NIC's lock table is used badly
//
// A record is all data of one object. Its header is the latch and, if the scheme has one, the version.
//
//   interleaved     header, checksum, payload; records back to back
//   padded          the same, with a stride that makes the low bits of the latch addresses vary
//   decoupled       all headers in an array of their own, apart from the records
//   footer          payload, checksum, version, latch: the latch has the record's highest address
//   padded_footer   footer with the stride of padded
//   slotted         interleaved with a stride of 2^n bytes, so that a switch finds a record by shifting
//
// Why padded: a NIC executes atomics through a lock table whose slot is chosen by the low address bits (12 on
// ConnectX-3 to -7), so latches that agree in those bits exclude each other although they are different latches.
// Sources: TODS 2025, section 3.2 and figure 6 (lock table, padding, decoupling), section 3.3 (footer).
//
// Thread-safety: values.
#pragma once

#include <sidelatch/fabric/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace sidelatch::sync {

enum class LayoutKind : std::uint8_t { interleaved, padded, decoupled, footer, padded_footer, slotted };

[[nodiscard]] std::string_view name(LayoutKind kind);
/// Throws std::invalid_argument that lists the names.
[[nodiscard]] LayoutKind parse_layout(std::string_view name);
/// True if the latch has the record's highest address.
[[nodiscard]] constexpr bool is_footer(LayoutKind kind) {
  return kind == LayoutKind::footer || kind == LayoutKind::padded_footer;
}

/// The data that a scheme keeps beside the payload.
struct RecordNeeds {
  bool version = false;             ///< an 8-byte version beside the latch, in the same line
  bool checksum = false;            ///< 8 bytes
  std::uint32_t line_versions = 0;  ///< bytes of the version at the start of each line without header: 0, 2 or 8
  std::uint32_t copies = 1;         ///< of the payload, for out-of-place updates; more than 1 excludes the two above
  bool header_inside = false;       ///< one READ must see header and payload: no decoupled layout
  bool slot = false;                ///< records must lie on slots of 2^n bytes: layout slotted only

  /// A number that is different for different needs.
  [[nodiscard]] constexpr std::uint32_t code() const {
    return 1U | (version ? 2U : 0U) | (checksum ? 4U : 0U) | (header_inside ? 8U : 0U) | (slot ? 32U : 0U) |
           line_versions << 8 | copies << 16;
  }
};

/// How one record is laid out; made by Scheme::shape(). Offsets are bytes from the record's start; a decoupled header
/// has offset 0.
struct RecordShape {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t payload_bytes = 0;
  std::uint64_t bytes = 0;          ///< of the record, a multiple of 8
  std::uint64_t alignment = 8;      ///< of the record: 8, or 64 if lines matter
  std::uint64_t payload = 0;        ///< offset of the first byte of payload
  std::uint64_t header = 0;         ///< offset of the header
  std::uint64_t header_bytes = 8;   ///< 8: latch; 16: latch and version
  std::uint64_t checksum = kNone;   ///< offset of the checksum
  std::uint32_t line_versions = 0;  ///< bytes of a line's version, see RecordNeeds
  std::uint32_t copies = 1;         ///< of the payload, back to back, each rounded up to 8 bytes
  std::uint32_t needs = 0;          ///< RecordNeeds::code() of the schemes that the shape is for
  std::uint64_t client_bytes = 0;   ///< size of a client's buffer for a record, see header_area()
  bool header_last = false;         ///< the latch is the header's and the record's last word
  bool decoupled = false;           ///< the header is not in the record

  [[nodiscard]] constexpr bool has_version() const { return header_bytes == 16; }
  /// Offsets within the header.
  [[nodiscard]] constexpr std::uint64_t latch_in_header() const { return header_last ? header_bytes - 8 : 0; }
  [[nodiscard]] constexpr std::uint64_t version_in_header() const { return header_last ? 0 : 8; }
  /// Bytes of the payload as transferred, and of one copy.
  [[nodiscard]] constexpr std::uint64_t payload_words() const { return (payload_bytes + 7) / 8 * 8; }
  /// Whether the payload is one run of bytes, without line versions in between.
  [[nodiscard]] constexpr bool contiguous() const { return line_versions == 0; }
  /// Offsets in a client's buffer: of the payload gathered from the record, and of a header that was read separately.
  [[nodiscard]] constexpr std::uint64_t payload_area() const { return whole_lines(bytes); }
  [[nodiscard]] constexpr std::uint64_t header_area() const {
    return payload_area() + (contiguous() ? 0 : whole_lines(payload_bytes));
  }
  [[nodiscard]] static constexpr std::uint64_t whole_lines(std::uint64_t count) {
    return (count + fabric::kLineBytes - 1) / fabric::kLineBytes * fabric::kLineBytes;
  }
  [[nodiscard]] constexpr std::uint64_t lines() const { return (bytes + fabric::kLineBytes - 1) / fabric::kLineBytes; }
};

/// The largest payload of a record with one copy of it; it is below the largest message of an RC queue pair, 2^31
/// bytes. All copies together are at most as large.
inline constexpr std::uint64_t kLargestPayload = 1ULL << 30;

/// The smallest record for `payload_bytes` (1 to kLargestPayload / copies). Throws std::invalid_argument that names the
/// impossible combination.
[[nodiscard]] RecordShape make_shape(const RecordNeeds& needs, LayoutKind kind, std::uint64_t payload_bytes);

/// One synchronized object at the memory node. Plain data; the shape must outlive it (an ObjectArray keeps it).
struct Object {
  fabric::RemoteAddress record_address;
  fabric::RemoteAddress header_address;
  fabric::RKey rkey;
  const RecordShape* shape = nullptr;

  [[nodiscard]] fabric::RemoteSpan record() const { return {record_address, shape->bytes, rkey}; }
  /// `bytes` of the record from `offset`, which must lie in it.
  [[nodiscard]] fabric::RemoteSpan part(std::uint64_t offset, std::uint64_t bytes) const {
    return {record_address + offset, bytes, rkey};
  }
  [[nodiscard]] fabric::RemoteSpan header() const { return {header_address, shape->header_bytes, rkey}; }
  [[nodiscard]] fabric::RemoteSpan latch() const { return {header_address + shape->latch_in_header(), 8, rkey}; }
  /// Whether the version is not in the record.
  [[nodiscard]] bool version_is_apart() const { return shape->decoupled && shape->has_version(); }
  [[nodiscard]] fabric::RemoteSpan version() const { return {header_address + shape->version_in_header(), 8, rkey}; }
};

/// The structure of a NIC's lock table; `sidelatch check` measures it.
struct LockTableShape {
  std::uint32_t address_bits = 12;  ///< from bit 0 to the highest bit that chooses a slot
  std::uint32_t slot_bytes = 8;     ///< all addresses in an aligned block of this size share a slot
  [[nodiscard]] std::uint64_t slots() const { return (std::uint64_t{1} << address_bits) / slot_bytes; }
};

class Layout {
 public:
  /// Throws std::invalid_argument for no objects, a shape that was made for another kind of layout, or an array too
  /// large for the address space.
  Layout(const RecordShape& shape, LayoutKind kind, std::uint64_t count);

  [[nodiscard]] const RecordShape& shape() const noexcept { return shape_; }
  [[nodiscard]] LayoutKind kind() const noexcept { return kind_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Bytes from one record to the next.
  [[nodiscard]] std::uint64_t stride() const noexcept { return stride_; }
  /// Bytes of the whole array; it begins at a multiple of shape().alignment.
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return records_ + stride_ * count_; }

  /// Offsets from the array's start. All throw std::out_of_range if there is no object `i`, version() and checksum()
  /// std::logic_error if the shape has none.
  [[nodiscard]] std::uint64_t record(std::uint64_t i) const;
  [[nodiscard]] std::uint64_t header(std::uint64_t i) const;
  [[nodiscard]] std::uint64_t latch(std::uint64_t i) const;
  [[nodiscard]] std::uint64_t version(std::uint64_t i) const;
  /// First byte of payload.
  [[nodiscard]] std::uint64_t payload(std::uint64_t i) const;
  [[nodiscard]] std::uint64_t checksum(std::uint64_t i) const;

  /// The number of slots of a NIC's lock table that the latches of an array at `address` use. Throws
  /// std::invalid_argument for a table without slots.
  [[nodiscard]] std::uint64_t slots_used(const LockTableShape& table = {}, std::uint64_t address = 0) const;
  /// A sentence if the latches use fewer than 64 slots and could use more.
  [[nodiscard]] std::optional<std::string> warning(const LockTableShape& table = {}) const;

 private:
  void check(std::uint64_t i) const;

  RecordShape shape_;
  LayoutKind kind_;
  std::uint64_t count_;
  std::uint64_t stride_;
  std::uint64_t records_ = 0;  // offset of record 0
};

/// A layout in a memory node's region. Its objects refer to it.
class ObjectArray {
 public:
  /// Throws std::invalid_argument if the region is too small or not aligned for the records.
  ObjectArray(const Layout& layout, const fabric::RemoteSpan& region);
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return layout_.count(); }
  /// Throws std::out_of_range. The array must outlive the object.
  [[nodiscard]] Object at(std::uint64_t i) const;

 private:
  Layout layout_;
  fabric::RemoteSpan region_;
};

}  // namespace sidelatch::sync
