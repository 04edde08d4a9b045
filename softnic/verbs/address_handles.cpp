// Address handles: ibv_create_ah(3), ibv_init_ah_from_wc(3), ibv_create_ah_from_wc(3), and the resolution of Ethernet
// addresses.
//
// The Ethernet address is resolved when the handle is made: ETIMEDOUT if nobody answers. A datagram's first 40 bytes
// hold an IPv6 header, or an IPv4 header in the last 20 of them (volume 1, A17.4.5.2).
#include "context.h"
#include "convert.h"
#include "export.h"

#include "roce/headers.h"
#include "softnic/nic/path.h"

#include <fmt/format.h>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

namespace sidelatch::softnic::verbs {

namespace {

std::uint32_t next_handle() {
  static std::atomic<std::uint32_t> handle = 0;
  return ++handle;
}

nic::AddressVector resolved(ProcessNic& nic, const ibv_ah_attr& attributes) {
  nic::AddressVector address = address_of(attributes, nic.options().gids.size());
  if (!nic::Path::is_possible(address, nic.options().gids[address.gid_index])) {
    refuse(EINVAL, fmt::format("sgid_index {} and the destination's GID are of IPv4 and IPv6: take a GID of the "
                               "destination's kind",
                               address.gid_index));
  }
  address.mac = nic.resolve(address.gid);
  return address;
}

ibv_ah* make(ibv_pd& domain, const ibv_ah_attr& attributes) {
  ProtectionDomain& its = of(domain);
  auto handle = std::make_unique<AddressHandle>();
  handle->context = domain.context;
  handle->pd = &domain;
  handle->handle = next_handle();
  handle->to = resolved(*its.nic, attributes);
  handle->domain = its.domain;
  handle->domain_users = its.users;
  ++*handle->domain_users;
  return handle.release();
}

// The path of a datagram, from its IP header.
struct Way {
  roce::Gid from{};
  roce::Gid to{};
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
};

Way way_of(const ibv_grh& header) {
  constexpr std::size_t kIpv4Offset = sizeof(ibv_grh) - roce::Ipv4::kBytes;
  std::array<std::byte, sizeof header> bytes;
  std::memcpy(bytes.data(), &header, sizeof header);
  const std::uint32_t first = ntohl(header.version_tclass_flow);
  constexpr unsigned kVersionShift = 28;
  if (first >> kVersionShift == 6) {
    return {.from = gid_of(header.sgid),
            .to = gid_of(header.dgid),
            .traffic_class = static_cast<std::uint8_t>(first >> 20),
            .flow_label = first & 0xfffff};
  }
  const roce::Ipv4 ip = roce::Ipv4::read(bytes.data() + kIpv4Offset);
  return {.from = roce::gid_of(ip.source),
          .to = roce::gid_of(ip.destination),
          .traffic_class = std::to_integer<std::uint8_t>(bytes[kIpv4Offset + 1]),
          .flow_label = 0};
}

// The attributes for an answer to the sender of a completed datagram.
ibv_ah_attr answer_to(const ProcessNic& nic, const ibv_wc& completion, const ibv_grh& header, std::uint8_t port) {
  if ((completion.wc_flags & IBV_WC_GRH) == 0) {
    refuse(EINVAL, "the completion is of no datagram");
  }
  constexpr std::uint8_t kFarthest = 0xff;
  const Way way = way_of(header);
  const auto& gids = nic.options().gids;
  // Of a group it tells only whether the answer goes by IPv4 or IPv6.
  const auto own = std::ranges::find_if(gids, [&](const roce::Gid& gid) {
    return roce::is_group(way.to) ? roce::is_ipv4(gid) == roce::is_ipv4(way.to) : gid == way.to;
  });
  if (own == gids.end()) {
    refuse(EINVAL, "the datagram was for none of the port's GIDs");
  }
  ibv_ah_attr attributes{};
  attributes.grh.dgid = gid_of(way.from);
  attributes.grh.sgid_index = static_cast<std::uint8_t>(own - gids.begin());
  attributes.grh.flow_label = way.flow_label;
  attributes.grh.hop_limit = kFarthest;
  attributes.grh.traffic_class = way.traffic_class;
  attributes.dlid = completion.slid;
  attributes.sl = completion.sl;
  attributes.src_path_bits = completion.dlid_path_bits;
  attributes.is_global = 1;
  attributes.port_num = port;
  return attributes;
}

}  // namespace

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;

SIDELATCH_VERBS_EXPORT ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* attributes) {
  return made([&] { return make(*domain, *attributes); });
}

SIDELATCH_VERBS_EXPORT int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* completion,
                                               ibv_grh* header, ibv_ah_attr* attributes) {
  const int error = error_of([&] {
    *attributes = answer_to(*of(*context).nic, *completion, *header, port);
    return 0;
  });
  errno = error != 0 ? error : errno;
  return error == 0 ? 0 : -1;
}

SIDELATCH_VERBS_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* domain, ibv_wc* completion, ibv_grh* header,
                                                     std::uint8_t port) {
  return made([&] { return make(*domain, answer_to(*of(*domain).nic, *completion, *header, port)); });
}

SIDELATCH_VERBS_EXPORT int ibv_destroy_ah(ibv_ah* handle) {
  return error_of([&] {
    --*of(*handle).domain_users;
    delete &of(*handle);
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attributes, std::uint8_t* mac,
                                                       std::uint16_t* vlan) {
  constexpr std::uint16_t kNoVlan = 0xffff;
  return error_of([&] {
    std::ranges::copy(resolved(*of(*context).nic, *attributes).mac, mac);
    *vlan = kNoVlan;
    return 0;
  });
}
