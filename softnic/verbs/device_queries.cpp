// Properties of the device and its port: ibv_query_device(3), ibv_query_device_ex(3), ibv_query_port(3),
// ibv_query_gid(3), ibv_query_gid_ex(3), ibv_query_gid_table(3), ibv_query_pkey(3), ibv_get_pkey_index(3),
// ibv_query_rt_values_ex(3).
//
// The device has one Ethernet port, which is active as long as its wire works. The GIDs are the NIC's, all RoCE v2.
// Limits are the NIC's (NicOptions); where it has none, the number is too large to be reached.
#include "context.h"
#include "convert.h"
#include "export.h"

#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/version.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

// A macro that chooses between the function and the context's operation.
#undef ibv_query_port

namespace sidelatch::softnic::verbs {

namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint16_t kDefaultPKey = 0xffff;
constexpr int kNoLimit = 1 << 20;
constexpr std::uint8_t kLinkUp = 5;  // physical port state
constexpr std::uint8_t kFourLanes = 2;
constexpr std::uint8_t k10Gbps = 4;
constexpr std::uint8_t kAckDelay = 15;  // 134 ms, as in Linux's soft-RoCE
// Programs take 0 for an error. A locally administered OUI belongs to nobody; the MACs use it too.
constexpr std::uint32_t kNobodysVendor = 0x02'53'4c;
constexpr std::uint32_t kPart = 1;
// private header of rdma-core, ibv_gid_type_sysfs
constexpr int kSysfsRoceV2 = 1;

// Timestamps count nanoseconds.
constexpr std::uint64_t kKilohertz = 1'000'000;
// What may use on-demand memory: everything.
constexpr std::uint32_t kDatagramOnDemand = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
constexpr std::uint32_t kUnreliableOnDemand = kDatagramOnDemand | IBV_ODP_SUPPORT_WRITE;
constexpr std::uint32_t kReliableOnDemand = kUnreliableOnDemand | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

int at_most_int(std::uint64_t value) {
  return static_cast<int>(std::min<std::uint64_t>(value, std::numeric_limits<int>::max()));
}

ibv_atomic_cap atomic_cap_of(const Settings& settings) {
  return atomics_of(settings) == fabric::model::AtomicScope::global ? IBV_ATOMIC_GLOB : IBV_ATOMIC_HCA;
}

ibv_device_attr device_attributes(const ProcessNic& nic) {
  const nic::NicOptions& limits = nic.options();
  ibv_device_attr attributes{};
  fmt::format_to_n(attributes.fw_ver, sizeof attributes.fw_ver - 1, "sidelatch-{}", kVersion);
  attributes.node_guid = attributes.sys_image_guid = guid_of(limits.mac);
  attributes.max_mr_size = ~std::uint64_t{0};
  attributes.page_size_cap = ~(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) - 1);  // a bit for each size
  attributes.vendor_id = kNobodysVendor;
  attributes.vendor_part_id = kPart;
  attributes.max_qp = at_most_int(limits.most_queue_pairs);
  attributes.max_qp_wr = at_most_int(limits.most_work_requests);
  attributes.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                                IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
                                IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
  attributes.max_sge = attributes.max_sge_rd = at_most_int(limits.most_sges);
  attributes.max_cq = at_most_int(limits.most_completion_queues);
  attributes.max_cqe = at_most_int(limits.most_completions);
  attributes.max_mr = at_most_int(limits.most_regions);
  attributes.max_mw = at_most_int(limits.most_regions);
  attributes.max_pd = kNoLimit;
  attributes.max_qp_rd_atom = limits.max_dest_rd_atomic;
  attributes.max_qp_init_rd_atom = limits.max_rd_atomic;
  attributes.max_res_rd_atom = at_most_int(std::uint64_t{limits.max_dest_rd_atomic} * limits.most_queue_pairs);
  attributes.atomic_cap = atomic_cap_of(nic.settings());
  attributes.max_mcast_grp = attributes.max_mcast_qp_attach = attributes.max_total_mcast_qp_attach = kNoLimit;
  attributes.max_ah = kNoLimit;
  attributes.max_srq = at_most_int(limits.most_shared_receive_queues);
  attributes.max_srq_wr = at_most_int(limits.most_work_requests);
  attributes.max_srq_sge = at_most_int(limits.most_sges);
  attributes.max_pkeys = 1;
  attributes.local_ca_ack_delay = kAckDelay;
  attributes.phys_port_cnt = kPort;
  return attributes;
}

ibv_port_attr port_attributes(ProcessNic& nic) {
  const bool works = nic.failure().empty();
  ibv_port_attr attributes{};
  attributes.state = works ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes.max_mtu = attributes.active_mtu = mtu_of(nic.options().mtu);
  attributes.gid_tbl_len = at_most_int(nic.options().gids.size());
  attributes.port_cap_flags = IBV_PORT_IP_BASED_GIDS;
  attributes.max_msg_sz = nic::kMostMessageBytes;
  attributes.pkey_tbl_len = 1;
  attributes.max_vl_num = 1;
  // A wire in memory has no lanes; programs take this number for a fast network.
  attributes.active_width = kFourLanes;
  attributes.active_speed = k10Gbps;
  attributes.phys_state = works ? kLinkUp : 3;  // 3: disabled
  attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes.flags = IBV_QPF_GRH_REQUIRED;
  return attributes;
}

bool is_gid(const ProcessNic& nic, std::uint32_t port, std::uint32_t index) {
  return port == kPort && index < nic.options().gids.size();
}

ibv_gid_entry gid_entry(const ProcessNic& nic, std::uint32_t index) {
  ibv_gid_entry entry{};
  entry.gid = gid_of(nic.options().gids[index]);
  entry.gid_index = index;
  entry.port_num = kPort;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  return entry;
}

}  // namespace

__be64 guid_of(const roce::MacAddress& mac) noexcept {
  constexpr std::uint8_t kUniversalBit = 2;
  const std::array<std::uint8_t, 8> bytes{
      static_cast<std::uint8_t>(mac[0] ^ kUniversalBit), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  __be64 guid = 0;
  std::memcpy(&guid, bytes.data(), sizeof guid);
  return guid;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* /*input*/, ibv_device_attr_ex* attributes,
                    std::size_t bytes) {
  return error_of([&] {
    ibv_device_attr_ex whole{};
    whole.orig_attr = device_attributes(*of(*context).nic);
    whole.device_cap_flags_ex = whole.orig_attr.device_cap_flags;
    whole.completion_timestamp_mask = ~std::uint64_t{0};
    whole.hca_core_clock = kKilohertz;
    whole.odp_caps = {.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
                      .per_transport_caps = {kReliableOnDemand, kUnreliableOnDemand, kDatagramOnDemand}};
    whole.xrc_odp_caps = kReliableOnDemand;
    whole.phys_port_cnt_ex = kPort;
    std::memset(attributes, 0, bytes);
    std::memcpy(attributes, &whole, std::min(bytes, sizeof whole));
    return 0;
  });
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t bytes) {
  return error_of([&] {
    if (port != kPort) {
      return EINVAL;
    }
    const ibv_port_attr whole = port_attributes(*of(*context).nic);
    std::memset(attributes, 0, bytes);
    std::memcpy(attributes, &whole, std::min(bytes, sizeof whole));
    return 0;
  });
}

int query_rt_values(ibv_context* /*context*/, ibv_values_ex* values) {
  const bool clock_is_wanted = (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0;
  values->comp_mask = 0;
  if (clock_is_wanted && ::clock_gettime(CLOCK_MONOTONIC, &values->raw_clock) == 0) {
    values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  }
  return 0;
}

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;

SIDELATCH_VERBS_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return error_of([&] {
    *attributes = device_attributes(*of(*context).nic);
    return 0;
  });
}

// For programs compiled against old headers, whose struct ends before port_cap_flags2.
SIDELATCH_VERBS_EXPORT int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attributes),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

SIDELATCH_VERBS_EXPORT int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  const ProcessNic& nic = *of(*context).nic;
  if (index < 0 || !is_gid(nic, port, static_cast<std::uint32_t>(index))) {
    errno = EINVAL;
    return -1;
  }
  *gid = gid_of(nic.options().gids[static_cast<std::size_t>(index)]);
  return 0;
}

SIDELATCH_VERBS_EXPORT int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                             ibv_gid_entry* entry, std::uint32_t flags, std::size_t bytes) {
  const ProcessNic& nic = *of(*context).nic;
  if (flags != 0) {
    return EOPNOTSUPP;
  }
  if (!is_gid(nic, port, index)) {
    return EINVAL;
  }
  const ibv_gid_entry whole = gid_entry(nic, index);
  std::memset(entry, 0, bytes);
  std::memcpy(entry, &whole, std::min(bytes, sizeof whole));
  return 0;
}

SIDELATCH_VERBS_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                                                    std::uint32_t flags, std::size_t bytes) {
  const ProcessNic& nic = *of(*context).nic;
  const std::size_t count = nic.options().gids.size();
  if (flags != 0) {
    return -EOPNOTSUPP;
  }
  if (most < count) {
    return -EINVAL;
  }
  auto* to = reinterpret_cast<std::byte*>(entries);
  for (std::uint32_t index = 0; index < count; ++index, to += bytes) {
    const ibv_gid_entry whole = gid_entry(nic, index);
    std::memset(to, 0, bytes);
    std::memcpy(to, &whole, std::min(bytes, sizeof whole));
  }
  return static_cast<ssize_t>(count);
}

// Private to rdma-core, but used by its programs; the last argument is an ibv_gid_type_sysfs.
SIDELATCH_VERBS_EXPORT int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type) {
  if (!is_gid(*of(*context).nic, port, index)) {
    errno = EINVAL;
    return -1;
  }
  *type = kSysfsRoceV2;
  return 0;
}

SIDELATCH_VERBS_EXPORT int ibv_query_pkey(ibv_context* /*context*/, std::uint8_t port, int index, __be16* key) {
  if (port != kPort || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *key = htons(kDefaultPKey);
  return 0;
}

SIDELATCH_VERBS_EXPORT int ibv_get_pkey_index(ibv_context* /*context*/, std::uint8_t port, __be16 key) {
  if (port == kPort && key == htons(kDefaultPKey)) {
    return 0;
  }
  errno = EINVAL;
  return -1;
}
