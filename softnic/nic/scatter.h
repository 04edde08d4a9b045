// Cuts a range of a scatter/gather list into parts of memory.
//
// Thread-safety: functions without state.
#pragma once

#include "work.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace sidelatch::softnic::nic {

/// Calls `use(sge, offset in it, bytes)` for each part of bytes [offset, offset + length) of the list, as long as `use`
/// returns true. False if it returned false, or if the list is shorter.
template <class Use>
[[nodiscard]] bool for_each_part(std::span<const Sge> sges, std::uint64_t offset, std::uint64_t length, Use use) {
  for (const Sge& sge : sges) {
    if (length == 0) {
      return true;
    }
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::uint64_t bytes = std::min(length, sge.length - offset);
    if (!use(sge, offset, bytes)) {
      return false;
    }
    offset = 0;
    length -= bytes;
  }
  return length == 0;
}

}  // namespace sidelatch::softnic::nic
