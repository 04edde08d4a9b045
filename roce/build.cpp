// Packet to bytes.
#include "crc32.h"
#include "icrc.h"
#include "packet.h"

#include <algorithm>

namespace sidelatch::roce {

namespace {

constexpr std::uint32_t kMax24 = 0xffffff;
constexpr std::uint32_t kMax20 = 0xfffff;
constexpr std::uint8_t kMax7 = 0x7f;
constexpr std::uint8_t kMax3 = 7;

std::size_t ip_bytes(const Packet& packet) {
  return std::holds_alternative<Ipv4>(packet.ip) ? Ipv4::kBytes : Ipv6::kBytes;
}

std::size_t link_bytes(const Packet& packet) { return packet.ethernet ? Ethernet::kBytes : 0; }

std::size_t extension_bytes(const Packet& packet) {
  return traits_of(packet.bth.opcode).value_or(OpcodeTraits{}).extension_bytes();
}

// Payload and pad bytes fill whole words (9.2, PadCnt).
std::uint8_t pad_for(std::size_t payload) { return static_cast<std::uint8_t>((4 - payload % 4) % 4); }

std::optional<Refusal> check_fields(const Packet& packet, const OpcodeTraits& traits) {
  bool fits = packet.bth.destination_qp <= kMax24 && packet.bth.resv7 <= kMax7 &&
              (!traits.deth || packet.deth.source_qp <= kMax24) && (!traits.xrceth || packet.xrceth.srq <= kMax24) &&
              (!traits.aeth || packet.aeth.msn <= kMax24);
  if (const auto* const ip = std::get_if<Ipv4>(&packet.ip)) {
    fits = fits && ip->flags <= kMax3;
    if ((ip->flags & Ipv4::kMoreFragments) != 0 || ip->fragment_offset != 0) {
      return Refusal::ip_fragment;
    }
  } else {
    fits = fits && std::get<Ipv6>(packet.ip).flow_label <= kMax20;
  }
  return fits ? std::nullopt : std::optional(Refusal::field_too_large);
}

template <class Header>
void put(bool there, std::byte*& out, const Header& header) {
  if (there) {
    header.write(out);
    out += Header::kBytes;
  }
}

// `bytes`: length of the whole datagram.
void put_ip(std::byte*& out, Ipv4 ip, std::size_t bytes) {
  ip.version_and_length = Ipv4{}.version_and_length;
  ip.total_length = static_cast<std::uint16_t>(bytes);
  ip.protocol = kProtocolUdp;
  ip.write(out);
  ip.checksum = ipv4_checksum(out);
  put(true, out, ip);
}

void put_ip(std::byte*& out, Ipv6 ip, std::size_t bytes) {
  ip.version = Ipv6{}.version;
  ip.payload_length = static_cast<std::uint16_t>(bytes - Ipv6::kBytes);
  ip.next_header = kProtocolUdp;
  put(true, out, ip);
}

// Writes all headers before the payload; returns where the payload begins.
std::byte* put_headers(const Packet& packet, const OpcodeTraits& traits, std::byte* out, std::size_t datagram_bytes) {
  if (packet.ethernet) {
    Ethernet ethernet = *packet.ethernet;
    ethernet.ether_type = std::holds_alternative<Ipv4>(packet.ip) ? kEtherTypeIpv4 : kEtherTypeIpv6;
    put(true, out, ethernet);
  }
  std::visit([&](const auto& ip) { put_ip(out, ip, datagram_bytes); }, packet.ip);
  Udp udp = packet.udp;
  udp.destination_port = kUdpPort;
  udp.length = static_cast<std::uint16_t>(datagram_bytes - ip_bytes(packet));
  put(true, out, udp);
  Bth bth = packet.bth;
  bth.pad_count = pad_for(packet.payload.size());
  bth.transport_version = 0;
  put(true, out, bth);
  put(traits.xrceth, out, packet.xrceth);
  put(traits.deth, out, packet.deth);
  put(traits.reth, out, packet.reth);
  put(traits.atomic_eth, out, packet.atomic);
  put(traits.aeth, out, packet.aeth);
  put(traits.atomic_ack_eth, out, packet.atomic_ack);
  put(traits.immediate, out, packet.immediate);
  put(traits.ieth, out, packet.ieth);
  return out;
}

}  // namespace

std::size_t payload_offset(const Packet& packet) noexcept {
  return link_bytes(packet) + ip_bytes(packet) + Udp::kBytes + Bth::kBytes + extension_bytes(packet);
}

std::size_t encoded_bytes(const Packet& packet) noexcept {
  return payload_offset(packet) + packet.payload.size() + pad_for(packet.payload.size()) + kIcrcBytes;
}

std::variant<std::size_t, Refusal> build(const Packet& packet, std::span<std::byte> out,
                                         std::optional<PathMtu> path_mtu) noexcept {
  const std::optional<OpcodeTraits> traits = traits_of(packet.bth.opcode);
  if (!traits) {
    return Refusal::unknown_opcode;
  }
  if (const auto refused = check_payload(packet.bth.opcode, packet.payload.size(), path_mtu)) {
    return *refused;
  }
  if (const auto refused = check_fields(packet, *traits)) {
    return *refused;
  }
  const std::size_t bytes = encoded_bytes(packet);
  if (bytes > out.size()) {
    return Refusal::buffer_too_small;
  }
  std::byte* const datagram = out.data() + link_bytes(packet);
  std::byte* const payload = put_headers(packet, *traits, out.data(), bytes - link_bytes(packet));
  const std::span<const std::byte> headers(datagram, payload);
  std::uint32_t state = std::holds_alternative<Ipv4>(packet.ip) ? icrc_after_ipv4(headers) : icrc_after_ipv6(headers);
  state = packet.payload.data() == payload ? crc32_extend(state, packet.payload)
                                           : crc32_copy(state, payload, packet.payload);
  std::byte* const pad = payload + packet.payload.size();
  std::byte* const icrc = std::copy_n(packet.pad.begin(), pad_for(packet.payload.size()), pad);
  state = crc32_extend(state, {pad, icrc});
  store_icrc(icrc, crc32_finish(state));
  return bytes;
}

}  // namespace sidelatch::roce
