// Cable: shared memory with two ends. What is sent at one arrives at the other, whatever its addresses.
//
// It is a wire of shared memory (shared_memory_wire.h) with two stations, whose own addresses nobody uses. The port of
// a switch is always the first one and the NIC the second one, so a cable never joins two of a kind. Either end may
// come first, leave and come again. Frames are lost while there is no other end.
//
// Thread-safety: as Wire.
#pragma once

#include "shared_memory_wire.h"

#include <cstddef>
#include <string>

namespace sidelatch::roce {

/// Who is at an end of a cable. The value is the place in shared memory.
enum class CableEnd : std::size_t { port, nic };

class Cable {
 public:
  /// Throws WireError, also if another process has this end.
  Cable(CableEnd end, const std::string& name, const std::string& station_name, const std::string& folder);

  [[nodiscard]] SharedMemoryWire& wire() noexcept { return wire_; }
  [[nodiscard]] const SharedMemoryWire& wire() const noexcept { return wire_; }
  /// Where frames go.
  [[nodiscard]] const MacAddress& other_end() const noexcept { return other_end_; }

 private:
  SharedMemoryWire wire_;
  MacAddress other_end_;
};

}  // namespace sidelatch::roce
