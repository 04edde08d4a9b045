// MemoryTable: the protection domains and memory regions of a NIC, with their rights.
//
//   const std::uint32_t key = table.add({.data = p, .length = n, .domain = domain, .rights = Rights::remote_read |
//   ...}); std::byte* const word = table.remote(rkey, domain, address, 8, Rights::remote_atomic);   // nullptr: refused
//
// A region has one key, which is its lkey and rkey. The key of an ended region is refused: no later region gets it
// until all others have been used, 256 * `most_regions` registrations later. Its low eight bits are a generation, and a
// place that has used them all up rests until no other place is left. Source: InfiniBand Architecture Specification,
// volume 1, 10.6 (memory management) and 9.7 (validation of R_Keys).
//
// The cost of a lookup does not depend on the number of regions. Thread-safety: none.
#pragma once

#include "rights.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace sidelatch::softnic::nic {

/// A protection domain, by number; 0 is none.
using Domain = std::uint32_t;

struct Region {
  std::byte* data = nullptr;
  std::uint64_t length = 0;   ///< bytes, at least 1
  std::uint64_t address = 0;  ///< the first byte's address in requests; normally that of `data`
  Domain domain = 0;
  Rights rights = Rights::none;
};

class MemoryTable {
 public:
  explicit MemoryTable(std::uint32_t most_regions) : most_regions_(most_regions) {}

  [[nodiscard]] Domain add_domain();
  /// Throws NicError: busy while it has regions, invalid if there is no such domain.
  void remove_domain(Domain domain);
  [[nodiscard]] bool has_domain(Domain domain) const noexcept;

  /// Returns the key. Throws NicError: invalid for an empty or wrapping range, an unknown domain, or remote_write or
  /// remote_atomic without local_write (10.6); full.
  [[nodiscard]] std::uint32_t add(const Region& region);
  /// Replaces the region of this key, and keeps the key. Throws NicError like add() and then changes nothing; invalid
  /// if the key names no region.
  void change(std::uint32_t key, const Region& region);
  /// Throws NicError if the key names no region.
  void remove(std::uint32_t key);
  /// Makes the key invalid, as SEND with invalidate does; the region stays until it is removed. False if the key is
  /// already invalid or belongs to another domain.
  [[nodiscard]] bool invalidate(std::uint32_t key, Domain domain) noexcept;
  /// Nullptr if the key names no region. Valid until the next change of the table.
  [[nodiscard]] const Region* find(std::uint32_t key) const noexcept;

  /// `length` bytes from `address` for the NIC's own requests; nullptr if the key, the domain, the range or the rights
  /// do not allow it.
  [[nodiscard]] std::byte* local(std::uint32_t lkey, Domain domain, std::uint64_t address, std::uint64_t length,
                                 Rights needed) const noexcept {
    return access(lkey, domain, address, length, needed);
  }
  /// The same for requests of other NICs.
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
  std::deque<std::uint32_t> worn_;  // places that have used up their generations, the one that rests longest first
  std::vector<bool> domains_;
};

}  // namespace sidelatch::softnic::nic
