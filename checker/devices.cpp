#include <sidelatch/checker/devices.h>

#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/softnic/launch.h>

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace sidelatch::checker {

using namespace fabric;

namespace {

double lane_gbps(std::uint8_t active_speed) {
  switch (active_speed) {  // ibv_query_port(3): InfiniBand signalling rate per lane
    case 1:
      return 2.5;
    case 2:
      return 5;
    case 4:
    case 8:
      return 10;
    case 16:
      return 14;
    case 32:
      return 25;
    case 64:
      return 50;
    case 128:
      return 100;
    default:
      return 0;
  }
}

unsigned lanes(std::uint8_t active_width) {
  switch (active_width) {
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 1;
  }
}

Device describe(ibv_device* device) {
  Device found{.name = ibv_get_device_name(device),
               .kind = softnic::is_preloaded() ? "softnic" : "verbs",
               .atomic_scope = "none",
               .state = "down"};
  const std::unique_ptr<ibv_context, int (*)(ibv_context*)> context(ibv_open_device(device), ibv_close_device);
  if (context == nullptr) {
    found.state = std::strerror(errno);
    return found;
  }
  ibv_device_attr attributes{};
  if (ibv_query_device(context.get(), &attributes) == 0) {
    found.atomic_scope = attributes.atomic_cap == IBV_ATOMIC_GLOB  ? "global"
                         : attributes.atomic_cap == IBV_ATOMIC_HCA ? "nic"
                                                                   : "none";
  }
  // The first active port; a fabric passes over those without a GID. Without an active one, the first port says what
  // the device supports.
  for (std::uint8_t number = attributes.phys_port_cnt; number > 0; --number) {
    ibv_port_attr port{};
    const bool active = ibv_query_port(context.get(), number, &port) == 0 && port.state == IBV_PORT_ACTIVE;
    if (active || (number == 1 && found.state == "down")) {
      constexpr std::uint64_t kSmallestMtu = 128;  // IBV_MTU_256 is 1
      found.mtu = port.active_mtu == 0 ? 0 : kSmallestMtu << static_cast<unsigned>(port.active_mtu);
      found.link_gbps = lane_gbps(port.active_speed) * lanes(port.active_width);
      found.state = active ? "active" : "down";
    }
  }
  return found;
}

}  // namespace

std::vector<Device> devices() {
  std::vector<Device> found;
  int count = 0;
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(ibv_get_device_list(&count), ibv_free_device_list);
  for (int i = 0; list != nullptr && i < count; ++i) {
    found.push_back(describe(list.get()[i]));
  }
  if (!softnic::is_preloaded()) {
    constexpr std::uint64_t kMtu = 4096;
    // A link's properties depend on the machine. Without an order the CPU's atomics are used.
    found.push_back({std::string(softnic::kDeviceName), "softnic", 0, kMtu, "global", "with softnic run"});
  }
  for (const std::string& name : fabric::sim::profile_names()) {
    const fabric::sim::Profile profile = fabric::sim::load_profile(name);
    found.push_back({"sim:" + name, "sim", profile.link.gbps, profile.link.mtu, "nic", "active"});
  }
  return found;
}

}  // namespace sidelatch::checker
