// MemoryTable: the protection domains and memory regions of a NIC, and who may touch what.
//
//   const std::uint32_t key = table.add({.data = p, .length = n, .domain = domain, .rights = Rights::remote_read |
//   ...}); std::byte* const word = table.remote(rkey, domain, address, 8, Rights::remote_atomic);   // nullptr: refused
//
// A region has one key, its lkey and rkey. Its low eight bits are a generation: the key of a region that ended is
// refused even when its place is used again, up to 255 times. Source: InfiniBand Architecture Specification, volume
// 1, 10.6 (memory management) and 9.7 (validation of R_Keys).
//
// Looking up costs the same however many regions there are. Thread-safety: none.
#pragma once

#include "rights.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sidelatch::softnic::nic {

/// A protection domain, by number; 0 is none.
using Domain = std::uint32_t;

struct Region {
  std::byte* data = nullptr;
  std::uint64_t length = 0;   ///< bytes, at least 1
  std::uint64_t address = 0;  ///< under which requests name the first byte; as a rule that of `data`
  Domain domain = 0;
  Rights rights = Rights::none;
};

class MemoryTable {
 public:
  explicit MemoryTable(std::uint32_t most_regions) : most_regions_(most_regions) {}

  [[nodiscard]] Domain add_domain();
  /// Throws NicError: busy while it has regions, invalid if there is none of that number.
  void remove_domain(Domain domain);
  [[nodiscard]] bool has_domain(Domain domain) const noexcept;

  /// Returns the key. Throws NicError: invalid for an empty or wrapping range, an unknown domain, or remote_write or
  /// remote_atomic without local_write (10.6); full.
  [[nodiscard]] std::uint32_t add(const Region& region);
  /// The region of this key becomes another one, and keeps its key. Throws NicError as add(), and changes nothing then;
  /// invalid if the key names no region.
  void change(std::uint32_t key, const Region& region);
  /// Throws NicError if the key names no region.
  void remove(std::uint32_t key);
  /// The key opens nothing any more, though the region is there until it is removed: what SEND with invalidate does.
  /// False if it opens nothing already, or belongs to another domain.
  [[nodiscard]] bool invalidate(std::uint32_t key, Domain domain) noexcept;
  /// Nullptr if the key names no region. Good until the next change of the table.
  [[nodiscard]] const Region* find(std::uint32_t key) const noexcept;

  /// `length` bytes from `address` for the NIC's own requests; nullptr if the key, the domain, the range or the rights
  /// do not allow it.
  [[nodiscard]] std::byte* local(std::uint32_t lkey, Domain domain, std::uint64_t address, std::uint64_t length,
                                 Rights needed) const noexcept {
    return access(lkey, domain, address, length, needed);
  }
  /// The same for requests of others.
  [[nodiscard]] std::byte* remote(std::uint32_t rkey, Domain domain, std::uint64_t address, std::uint64_t length,
                                  Rights needed) const noexcept {
    return access(rkey, domain, address, length, needed);
  }

 private:
  struct Slot {
    Region region;
    std::uint8_t generation = 0;
    bool is_used = false;
    bool is_valid = false;
  };

  void check(const Region& region) const;
  [[nodiscard]] std::byte* access(std::uint32_t key, Domain domain, std::uint64_t address, std::uint64_t length,
                                  Rights needed) const noexcept;
  [[nodiscard]] const Slot* slot_of(std::uint32_t key) const noexcept;

  std::uint32_t most_regions_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<bool> domains_;
};

}  // namespace sidelatch::softnic::nic
