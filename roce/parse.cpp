// Bytes to Packet.
#include "crc32.h"
#include "icrc.h"
#include "packet.h"

#include <algorithm>

namespace sidelatch::roce {

namespace {

using Bytes = std::span<const std::byte>;
using Refused = std::optional<Refusal>;

constexpr std::uint8_t kFragmentHeader = 44;  // an IPv6 extension, RFC 8200, 4.5

unsigned version_of(Bytes datagram) { return std::to_integer<unsigned>(datagram[0]) >> 4; }

// Ones' complement has two zeros, and either is a correct sum (RFC 1071).
bool has_right_checksum(Bytes header) {
  const std::uint16_t found = Ipv4::read(header.data()).checksum;
  const std::uint16_t right = ipv4_checksum(header.data());
  return found == right || (found == 0xffff && right == 0);
}

// Shortens `datagram` to the bytes after the IP header, up to the end that the header gives.
Refused take_ipv4(Bytes& datagram, Packet& packet) {
  if (datagram.size() < Ipv4::kBytes) {
    return Refusal::truncated_ip;
  }
  const Ipv4 ip = Ipv4::read(datagram.data());
  if (ip.version_and_length != Ipv4{}.version_and_length) {
    return Refusal::ipv4_header_length;
  }
  if (!has_right_checksum(datagram)) {
    return Refusal::ipv4_checksum;
  }
  if (ip.total_length > datagram.size() || ip.total_length < Ipv4::kBytes + Udp::kBytes) {
    return Refusal::ip_length;
  }
  if ((ip.flags & Ipv4::kMoreFragments) != 0 || ip.fragment_offset != 0) {
    return Refusal::ip_fragment;
  }
  if (ip.protocol != kProtocolUdp) {
    return Refusal::not_udp;
  }
  datagram = datagram.first(ip.total_length).subspan(Ipv4::kBytes);
  packet.ip = ip;
  return std::nullopt;
}

Refused take_ipv6(Bytes& datagram, Packet& packet) {
  if (datagram.size() < Ipv6::kBytes) {
    return Refusal::truncated_ip;
  }
  const Ipv6 ip = Ipv6::read(datagram.data());
  if (ip.next_header == kFragmentHeader) {
    return Refusal::ip_fragment;
  }
  if (ip.next_header != kProtocolUdp) {
    return Refusal::not_udp;
  }
  if (ip.payload_length > datagram.size() - Ipv6::kBytes || ip.payload_length < Udp::kBytes) {
    return Refusal::ip_length;
  }
  datagram = datagram.subspan(Ipv6::kBytes, ip.payload_length);
  packet.ip = ip;
  return std::nullopt;
}

Refused take_udp(Bytes& rest, Packet& packet) {
  packet.udp = Udp::read(rest.data());
  if (packet.udp.destination_port != kUdpPort) {
    return Refusal::udp_port;
  }
  if (packet.udp.length != rest.size()) {
    return Refusal::udp_length;
  }
  rest = rest.subspan(Udp::kBytes);
  return std::nullopt;
}

// Removes the ICRC from `rest`.
Refused take_bth(Bytes& rest, Packet& packet) {
  if (rest.size() < Bth::kBytes + kIcrcBytes) {
    return Refusal::truncated_transport;
  }
  packet.bth = Bth::read(rest.data());
  if (packet.bth.transport_version != 0) {
    return Refusal::transport_version;
  }
  if (rest.size() % 4 != 0) {
    return Refusal::unaligned_length;
  }
  rest = rest.first(rest.size() - kIcrcBytes).subspan(Bth::kBytes);
  return std::nullopt;
}

template <class Header>
void take(bool there, Bytes& rest, Header& header) {
  if (there) {
    header = Header::read(rest.data());
    rest = rest.subspan(Header::kBytes);
  }
}

Refused take_extensions(Bytes& rest, Packet& packet) {
  const std::optional<OpcodeTraits> traits = traits_of(packet.bth.opcode);
  if (!traits) {
    return Refusal::unknown_opcode;
  }
  if (rest.size() < traits->extension_bytes()) {
    return Refusal::truncated_extension;
  }
  take(traits->xrceth, rest, packet.xrceth);
  take(traits->deth, rest, packet.deth);
  take(traits->reth, rest, packet.reth);
  take(traits->atomic_eth, rest, packet.atomic);
  take(traits->aeth, rest, packet.aeth);
  take(traits->atomic_ack_eth, rest, packet.atomic_ack);
  take(traits->immediate, rest, packet.immediate);
  take(traits->ieth, rest, packet.ieth);
  return std::nullopt;
}

Refused take_payload(Bytes rest, Packet& packet) {
  if (packet.bth.pad_count > rest.size()) {
    return Refusal::bad_pad;
  }
  packet.payload = rest.first(rest.size() - packet.bth.pad_count);
  std::copy_n(rest.data() + packet.payload.size(), packet.bth.pad_count, packet.pad.begin());
  return check_payload(packet.bth.opcode, packet.payload.size(), std::nullopt);
}

// `datagram`: from IP header to ICRC; `packet.payload` lies in it.
Refused check_icrc(Bytes datagram, const Packet& packet) {
  const Bytes headers = datagram.first(static_cast<std::size_t>(packet.payload.data() - datagram.data()));
  const std::uint32_t state =
      std::holds_alternative<Ipv4>(packet.ip) ? icrc_after_ipv4(headers) : icrc_after_ipv6(headers);
  const std::size_t covered = datagram.size() - kIcrcBytes;
  const std::uint32_t icrc = crc32_finish(crc32_extend(state, datagram.first(covered).subspan(headers.size())));
  return icrc == load_icrc(datagram.data() + covered) ? std::nullopt : std::optional(Refusal::icrc);
}

// `packet.ethernet` is already set if there is one.
Refused take_datagram(Bytes datagram, unsigned version, IcrcCheck check, Packet& packet) {
  Bytes rest = datagram;
  Refused refused = version == 4 ? take_ipv4(rest, packet) : take_ipv6(rest, packet);
  if (refused) {
    return refused;
  }
  const auto bytes = static_cast<std::size_t>(rest.data() + rest.size() - datagram.data());
  for (const auto step : {take_udp, take_bth, take_extensions}) {
    if (refused = step(rest, packet); refused) {
      return refused;
    }
  }
  if (refused = take_payload(rest, packet); refused) {
    return refused;
  }
  return check == IcrcCheck::yes ? check_icrc(datagram.first(bytes), packet) : std::nullopt;
}

std::optional<unsigned> version_named_by(std::uint16_t ether_type) {
  return ether_type == kEtherTypeIpv4   ? std::optional(4U)
         : ether_type == kEtherTypeIpv6 ? std::optional(6U)
                                        : std::nullopt;
}

}  // namespace

std::variant<Packet, Refusal> parse_frame(std::span<const std::byte> frame, IcrcCheck check) noexcept {
  if (frame.size() < Ethernet::kBytes) {
    return Refusal::truncated_ethernet;
  }
  std::variant<Packet, Refusal> parsed;
  Packet& packet = std::get<Packet>(parsed);
  packet.ethernet = Ethernet::read(frame.data());
  const std::optional<unsigned> version = version_named_by(packet.ethernet->ether_type);
  if (!version) {
    return Refusal::not_ip;
  }
  const Bytes datagram = frame.subspan(Ethernet::kBytes);
  if (datagram.empty()) {
    return Refusal::truncated_ip;
  }
  if (version_of(datagram) != *version) {
    return Refusal::ip_version;
  }
  if (const Refused refused = take_datagram(datagram, *version, check, packet)) {
    return *refused;
  }
  return parsed;
}

std::optional<Packet> parse_malformed(std::span<const std::byte> frame, Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::unknown_opcode:
    case Refusal::truncated_extension:
    case Refusal::bad_pad:
    case Refusal::payload_not_allowed:
    case Refusal::payload_missing:
    case Refusal::payload_not_path_mtu:
    case Refusal::payload_too_long:
      break;
    default:
      return std::nullopt;
  }
  // parse_frame() has come to the BTH, so nothing before it is refused.
  std::optional<Packet> parsed(std::in_place);
  Packet& packet = *parsed;
  packet.ethernet = Ethernet::read(frame.data());
  const Bytes datagram = frame.subspan(Ethernet::kBytes);
  Bytes rest = datagram;
  static_cast<void>(version_of(datagram) == 4 ? take_ipv4(rest, packet) : take_ipv6(rest, packet));
  const auto bytes = static_cast<std::size_t>(rest.data() + rest.size() - datagram.data());
  static_cast<void>(take_udp(rest, packet));
  static_cast<void>(take_bth(rest, packet));
  packet.payload = rest;  // all behind the BTH that the ICRC covers
  const bool is_whole = !check_icrc(datagram.first(bytes), packet);
  packet.payload = {};
  const Service service = service_of(packet.bth.opcode);
  return is_whole && (service == Service::rc || service == Service::xrc) ? parsed : std::nullopt;
}

std::variant<Packet, Refusal> parse_datagram(std::span<const std::byte> datagram, IcrcCheck check) noexcept {
  if (datagram.empty()) {
    return Refusal::truncated_ip;
  }
  const unsigned version = version_of(datagram);
  if (version != 4 && version != 6) {
    return Refusal::ip_version;
  }
  std::variant<Packet, Refusal> parsed;
  if (const Refused refused = take_datagram(datagram, version, check, std::get<Packet>(parsed))) {
    return *refused;
  }
  return parsed;
}

}  // namespace sidelatch::roce
