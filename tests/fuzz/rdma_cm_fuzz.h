// Aborts if a property of the connection manager does not hold for two programs that these bytes describe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::softnic::cm {

/// What the programs reached, so that a test can see that its inputs get far.
struct CmReached {
  std::uint64_t requests = 0;
  std::uint64_t established = 0;
  std::uint64_t ended = 0;
  std::uint64_t joined = 0;  ///< groups
};

CmReached check_connections(std::span<const std::byte> bytes);

}  // namespace sidelatch::softnic::cm
