// Aborts if a property of the tables of neighbours does not hold for the frames in these bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::roce {

/// What the frames reached, so that a test can see that its inputs get far.
struct NeighboursReached {
  std::uint64_t answered = 0;  ///< questions for the station's addresses
  std::uint64_t learnt = 0;    ///< changes of the other station's known address
};

NeighboursReached check_neighbours(std::span<const std::byte> bytes);

}  // namespace sidelatch::roce
