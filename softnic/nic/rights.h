// Rights: what may be done to a memory region, or through a queue pair. The bits are those of ibv_access_flags.
//
// Source: InfiniBand Architecture Specification, volume 1, 10.6 (access rights of regions) and 10.2 (of queue
// pairs).
#pragma once

#include <cstdint>

namespace sidelatch::softnic::nic {

enum class Rights : std::uint8_t {
  none = 0,  ///< reading by its own NIC is always allowed
  local_write = 1,
  remote_write = 2,
  remote_read = 4,
  remote_atomic = 8,
  all = 15,
  window_bind = 16,  ///< of a region: memory windows may open parts of it
};

[[nodiscard]] constexpr Rights operator|(Rights a, Rights b) noexcept {
  return static_cast<Rights>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether `rights` includes all of `needed`.
[[nodiscard]] constexpr bool allows(Rights rights, Rights needed) noexcept {
  return (static_cast<unsigned>(rights) & static_cast<unsigned>(needed)) == static_cast<unsigned>(needed);
}

}  // namespace sidelatch::softnic::nic
