// MemoryTable: the protection domains, memory regions and memory windows of a NIC, with their rights.
//
//   const std::uint32_t key = table.add({.data = p, .length = n, .domain = domain, .rights = Rights::remote_read |
//   ...}); std::byte* const word = table.remote(rkey, domain, address, 8, Rights::remote_atomic);   // nullptr: refused
//
// A region has one key, which is its lkey and rkey. The key of an ended region is refused: no later region gets it
// until all others have been used, 256 * `most_regions` registrations later. Its low eight bits are a generation, and a
// place that has used them all up rests until no other place is left.
//
// A window has a place, too. It opens a part of a region to other NICs, and only to them: the upper 24 bits of its key
// stay, the low eight are chosen when it is bound. A window of type 1 serves all queue pairs of its domain, one of type
// 2 only the queue pair by which it was bound (type 2B). Source: InfiniBand Architecture Specification, volume 1, 10.6
// (memory management, memory windows) and 9.7 (validation of R_Keys).
//
// The cost of a lookup does not depend on the number of regions. Thread-safety: none.
#pragma once

#include "rights.h"
#include "work.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
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
  /// On-demand memory: asked at each use whether the bytes are there, and may be written; it fetches them if they can
  /// be.
  bool (*is_there)(std::byte* data, std::uint64_t length, bool writes) = nullptr;
  /// No memory, of all addresses: what is read are zeros, and what is written is lost.
  bool is_null = false;
};

enum class WindowType : std::uint8_t { one = 1, two = 2 };

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
  /// if the key names no region, or a null one.
  void change(std::uint32_t key, const Region& region);
  /// Throws NicError if the key names no region.
  void remove(std::uint32_t key);
  /// Makes the key invalid, as SEND with invalidate does; the region stays until it is removed, and a window of type 2
  /// may be bound again. False if the key is already invalid, belongs to another domain or queue pair, or is that of a
  /// window of type 1.
  [[nodiscard]] bool invalidate(std::uint32_t key, Domain domain, std::uint32_t queue_pair) noexcept;

  /// Makes a window, which opens nothing; returns its key. Throws NicError: invalid for an unknown domain; full.
  [[nodiscard]] std::uint32_t add_window(Domain domain, WindowType type);
  /// Throws NicError if the key, apart from its low eight bits, names no window.
  void remove_window(std::uint32_t key);
  /// Binds a window by a request of a queue pair. False, and nothing changes, if it may not be: the window, the region
  /// and the queue pair are of different domains, the region lacks window_bind, or local_write for rights to write, the
  /// range is not in it, or the window is of type 2 and still bound.
  [[nodiscard]] bool bind(const Binding& binding, Domain domain, std::uint32_t queue_pair) noexcept;
  /// Whether the key's place is a window's.
  [[nodiscard]] bool is_window(std::uint32_t key) const noexcept;
  /// The window's present key: it changes when the window is bound. 0 if there is no such window.
  [[nodiscard]] std::uint32_t window_key(std::uint32_t key) const noexcept;
  /// Nullptr if the key names no region. Valid until the next change of the table.
  [[nodiscard]] const Region* find(std::uint32_t key) const noexcept;

  /// The key of a region with this byte of the program's memory; 0 if there is none. Looks at all regions.
  [[nodiscard]] std::uint32_t key_of(const std::byte* place) const noexcept;

  /// `length` bytes from `address` for the NIC's own requests; nullptr if the key, the domain, the range or the rights
  /// do not allow it. Of a null region there are bytes for one packet only.
  [[nodiscard]] std::byte* local(std::uint32_t lkey, Domain domain, std::uint64_t address, std::uint64_t length,
                                 Rights needed) const noexcept {
    return access(lkey, domain, address, length, needed, nullptr);
  }
  /// The same for requests of other NICs to this queue pair.
  [[nodiscard]] std::byte* remote(std::uint32_t rkey, Domain domain, std::uint32_t queue_pair, std::uint64_t address,
                                  std::uint64_t length, Rights needed) const noexcept {
    return access(rkey, domain, address, length, needed, &queue_pair);
  }

 private:
  struct Slot {
    Region region{};
    std::uint8_t generation = 0;
    bool is_used = false;
    bool is_valid = false;
    std::optional<WindowType> window{};
    std::uint32_t queue_pair = 0;  // a bound window of type 2: whose requests it serves
    std::uint32_t parent = 0;      // a bound window: its region's key
    std::uint32_t windows = 0;     // a region: the windows that are bound to it
  };

  void check(const Region& region) const;
  // `queue_pair`: nullptr for the NIC's own requests.
  [[nodiscard]] std::byte* access(std::uint32_t key, Domain domain, std::uint64_t address, std::uint64_t length,
                                  Rights needed, const std::uint32_t* queue_pair) const noexcept;
  [[nodiscard]] const Slot* slot_of(std::uint32_t key) const noexcept;
  // The window of this key, whatever its low eight bits.
  [[nodiscard]] Slot* window_of(std::uint32_t key) noexcept;
  [[nodiscard]] std::uint32_t take_place();
  void free_place(std::uint32_t index);
  void unbind(Slot& window) noexcept;

  std::uint32_t most_regions_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> worn_;  // places that have used up their generations, the one that rests longest first
  std::vector<bool> domains_;
};

}  // namespace sidelatch::softnic::nic
