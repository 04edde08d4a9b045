#include "flow_nic.h"

#include "common/file_descriptor.h"

#include <fmt/format.h>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace sidelatch::tools {

namespace {

void need(bool is_right, const std::string& what) {
  if (!is_right) {
    throw std::runtime_error(what);
  }
}

std::string why() { return std::strerror(errno); }

ibv_mtu mtu_of(std::uint32_t bytes) { return static_cast<ibv_mtu>(std::bit_width(bytes) - std::bit_width(256U) + 1); }

ibv_context* open_device(const std::string& wanted) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  need(list != nullptr && count > 0,
       "no RDMA device: libibverbs lists none (it looks in /sys/class/infiniband); load the NIC's driver");
  std::string found;
  for (int i = 0; i < count; ++i) {
    const std::string name = ibv_get_device_name(list[i]);
    if (wanted.empty() || wanted == name) {
      ibv_context* const context = ibv_open_device(list[i]);
      need(context != nullptr, fmt::format("cannot open the RDMA device {}: {}", name, why()));
      ibv_free_device_list(list);
      return context;
    }
    found += (found.empty() ? "" : ", ") + name;
  }
  throw std::runtime_error(fmt::format("there is no RDMA device {}: found {}", wanted, found));
}

// The first active one.
ibv_port_attr choose_port(FlowUnitNic& nic, const std::string& name) {
  ibv_device_attr device{};
  need(ibv_query_device(nic.context, &device) == 0, fmt::format("cannot query the RDMA device {}", name));
  for (std::uint8_t number = 1; number <= device.phys_port_cnt; ++number) {
    ibv_port_attr port{};
    if (ibv_query_port(nic.context, number, &port) == 0 && port.state == IBV_PORT_ACTIVE) {
      nic.port = number;
      return port;
    }
  }
  throw std::runtime_error(fmt::format("no port of {} is active: bring its link up", name));
}

bool is_mapped_ipv4(const ibv_gid& gid) {
  constexpr unsigned char kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

// Only RoCE version 2 over IPv4 leads to the switch.
void choose_address(FlowUnitNic& nic, const ibv_port_attr& port, const std::string& name) {
  constexpr int kMostGids = 256;  // the index of a connection's GID has 8 bits
  for (int index = 0; index < std::min(port.gid_tbl_len, kMostGids); ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(nic.context, nic.port, static_cast<std::uint32_t>(index), &entry, 0) != 0 ||
        entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !is_mapped_ipv4(entry.gid)) {
      continue;
    }
    nic.gid_index = static_cast<std::uint8_t>(index);
    std::memcpy(nic.ip.data(), entry.gid.raw + 12, nic.ip.size());
    nic.mac = {0x02, 0x53, nic.ip[0], nic.ip[1], nic.ip[2], nic.ip[3]};  // of a software NIC
    if (entry.ndev_ifindex == 0) {
      return;
    }
    ifreq request{};
    const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    need(::if_indextoname(entry.ndev_ifindex, request.ifr_name) != nullptr &&
             ::ioctl(socket.number(), SIOCGIFHWADDR, &request) == 0,
         fmt::format("cannot find the MAC address of the network interface of {}: {}", name, why()));
    std::memcpy(nic.mac.data(), request.ifr_hwaddr.sa_data, nic.mac.size());
    return;
  }
  throw std::runtime_error(fmt::format("{} has no IPv4 address: give one to its network interface", name));
}

}  // namespace

FlowUnitNic open_flow_nic(const std::string& device, std::uint32_t path_mtu) {
  FlowUnitNic nic{.context = open_device(device)};
  const std::string name = ibv_get_device_name(nic.context->device);
  const ibv_port_attr port = choose_port(nic, name);
  need(mtu_of(path_mtu) <= port.active_mtu,
       fmt::format("--mtu {} is more than the {} that {} has now: give less, or raise the MTU of its network interface",
                   path_mtu, 128U << port.active_mtu, name));
  choose_address(nic, port, name);
  return nic;
}

std::uint32_t connect_to_switch(const FlowUnitNic& nic, ibv_pd& domain, ibv_cq& completions,
                                const flows::SwitchEnd& end, const flows::Ipv4Address& switch_ip,
                                std::uint32_t path_mtu) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = &completions;
  wanted.recv_cq = &completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  ibv_qp* const pair = ibv_create_qp(&domain, &wanted);
  need(pair != nullptr, "cannot make a queue pair: " + why());
  const auto modify = [pair](ibv_qp_attr& attributes, int mask, const char* state) {
    const int error = ibv_modify_qp(pair, &attributes, mask);
    need(error == 0, fmt::format("cannot bring a queue pair to {}: {}", state, std::strerror(error)));
  };
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = nic.port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(path_mtu);
  attributes.dest_qp_num = end.queue_pair;
  attributes.rq_psn = end.psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = nic.port;
  attributes.ah_attr.grh.hop_limit = 64;
  attributes.ah_attr.grh.sgid_index = nic.gid_index;
  attributes.ah_attr.grh.dgid.raw[10] = 0xff;
  attributes.ah_attr.grh.dgid.raw[11] = 0xff;
  std::memcpy(attributes.ah_attr.grh.dgid.raw + 12, switch_ip.data(), switch_ip.size());
  modify(attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER,
         "RTR (is the switch reached?)");
  return pair->qp_num;
}

}  // namespace sidelatch::tools
