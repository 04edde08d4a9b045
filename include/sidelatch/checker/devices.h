// The devices that `--fabric` can name: RDMA NICs of this machine and the embedded fabrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::checker {

struct Device {
  std::string name;
  std::string kind;  ///< "verbs", "softnic" or "sim"
  double link_gbps = 0;
  std::uint64_t mtu = 0;
  std::string atomic_scope;  ///< "none", "nic" or "global"
  std::string state;         ///< "active", "down" (no port is active), "with softnic run", or why it cannot be opened
};

/// RDMA devices through libibverbs first, then the software NIC if this process does not run on it, then one embedded
/// simulator per compiled-in profile.
[[nodiscard]] std::vector<Device> devices();

}  // namespace sidelatch::checker
