// The NIC of a unit of `sidelatch flow`, by libibverbs: a software NIC under `softnic`, or an RDMA device by its name.
#pragma once

#include <sidelatch/flows/flow_switch.h>

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace sidelatch::tools {

struct FlowUnitNic {
  ibv_context* context = nullptr;
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;
  flows::MacAddress mac{};
  flows::Ipv4Address ip{};
};

/// Opens the device, or the first one if `device` is empty. Throws std::runtime_error that says what is missing: the
/// device, an active port, an IPv4 address, a path MTU of that size.
[[nodiscard]] FlowUnitNic open_flow_nic(const std::string& device, std::uint32_t path_mtu);

/// A reliable connection with the rights of remote READ and WRITE, ready to receive from the switch. Throws
/// std::runtime_error.
[[nodiscard]] std::uint32_t connect_to_switch(const FlowUnitNic& nic, ibv_pd& domain, ibv_cq& completions,
                                              const flows::SwitchEnd& end, const flows::Ipv4Address& switch_ip,
                                              std::uint32_t path_mtu);

}  // namespace sidelatch::tools
