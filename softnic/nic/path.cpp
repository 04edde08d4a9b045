#include "path.h"

#include <algorithm>

namespace sidelatch::softnic::nic {

namespace {

// 20 bits that are constant for a connection and differ between connections.
std::uint32_t label_of(std::uint32_t own_qp, std::uint32_t remote_qp) {
  std::uint64_t mixed = std::uint64_t{own_qp} * remote_qp;
  mixed ^= mixed >> 20 ^ mixed >> 40;
  return static_cast<std::uint32_t>(mixed & 0xfffff);
}

}  // namespace

Gid source_gid(const Packet& packet) noexcept {
  const auto* const ip = std::get_if<Ipv4>(&packet.ip);
  return ip != nullptr ? gid_of(ip->source) : std::get<Ipv6>(packet.ip).source;
}

Gid destination_gid(const Packet& packet) noexcept {
  const auto* const ip = std::get_if<Ipv4>(&packet.ip);
  return ip != nullptr ? gid_of(ip->destination) : std::get<Ipv6>(packet.ip).destination;
}

Path::Path(const AddressVector& to, const MacAddress& own_mac, const Gid& own_gid, std::uint32_t own_qp,
           std::uint32_t remote_qp) noexcept
    : own_(own_gid), remote_(to.gid) {
  headers_.ethernet = Ethernet{.destination = to.mac, .source = own_mac};
  const std::uint32_t label = to.flow_label != 0 ? to.flow_label : label_of(own_qp, remote_qp);
  if (is_ipv4(own_gid)) {
    headers_.ip = Ipv4{.type_of_service = to.traffic_class,
                       .time_to_live = to.hop_limit,
                       .source = ipv4_in(own_gid).value_or(Ipv4Address{}),
                       .destination = ipv4_in(to.gid).value_or(Ipv4Address{})};
  } else {
    headers_.ip = Ipv6{.traffic_class = to.traffic_class,
                       .flow_label = label,
                       .hop_limit = to.hop_limit,
                       .source = own_gid,
                       .destination = to.gid};
  }
  // Folds the upper and lower bits of the label into the range of dynamic ports, as Linux does.
  headers_.udp.source_port = static_cast<std::uint16_t>(0xc000U | ((label & 0x3fff) ^ (label >> 14)));
  headers_.bth.destination_qp = remote_qp;
}

bool Path::accepts(const Packet& received) const noexcept {
  return is_same(source_gid(received), remote_) && is_same(destination_gid(received), own_);
}

}  // namespace sidelatch::softnic::nic
