#include "packet.h"

#include <utility>

namespace sidelatch::roce {

namespace {

constexpr std::size_t kAtomicWriteBytes = 8;

}  // namespace

std::string_view text(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::truncated_ethernet:
      return "shorter than an Ethernet header";
    case Refusal::not_ip:
      return "the Ethernet type is neither IPv4 nor IPv6 (a tagged frame?)";
    case Refusal::truncated_ip:
      return "shorter than its IP header";
    case Refusal::ip_version:
      return "the IP version is neither 4 nor 6, or not the one that the Ethernet type names";
    case Refusal::ipv4_header_length:
      return "the IPv4 header is not five words long: RoCEv2 has no IP options";
    case Refusal::ipv4_checksum:
      return "the IPv4 header checksum is wrong";
    case Refusal::ip_length:
      return "the length in the IP header is more than the bytes that are there, or less than IP and UDP headers need";
    case Refusal::ip_fragment:
      return "a fragment of an IP datagram: RoCEv2 packets are never fragmented";
    case Refusal::not_udp:
      return "the IP payload is not UDP";
    case Refusal::udp_port:
      return "the UDP destination port is not 4791";
    case Refusal::udp_length:
      return "the length in the UDP header is not that of the IP payload";
    case Refusal::truncated_transport:
      return "too short for a BTH and an ICRC";
    case Refusal::transport_version:
      return "the transport version in the BTH is not 0";
    case Refusal::unknown_opcode:
      return "the opcode in the BTH is none of RC, UC, UD and XRC";
    case Refusal::truncated_extension:
      return "too short for the extension headers that its opcode brings";
    case Refusal::unaligned_length:
      return "the length from BTH to ICRC is not a multiple of 4";
    case Refusal::bad_pad:
      return "the pad count is more than the bytes before the ICRC";
    case Refusal::payload_not_allowed:
      return "a payload behind an opcode that has none";
    case Refusal::payload_missing:
      return "the last packet of a message without a payload";
    case Refusal::payload_not_path_mtu:
      return "the payload of a first or middle packet is not as long as the path MTU";
    case Refusal::payload_too_long:
      return "the payload is longer than the path MTU";
    case Refusal::icrc:
      return "the ICRC is wrong";
    case Refusal::field_too_large:
      return "a value has more bits than its field";
    case Refusal::buffer_too_small:
      return "the buffer is shorter than the packet";
  }
  return "no refusal";
}

std::optional<Refusal> check_payload(Opcode opcode, std::size_t bytes, std::optional<PathMtu> path_mtu) noexcept {
  const std::optional<OpcodeTraits> traits = traits_of(opcode);
  if (!traits) {
    return Refusal::unknown_opcode;
  }
  if (traits->payload == PayloadRule::none) {
    return bytes == 0 ? std::nullopt : std::optional(Refusal::payload_not_allowed);
  }
  if (bytes > bytes_of(path_mtu.value_or(PathMtu::b4096))) {
    return Refusal::payload_too_long;
  }
  if (traits->payload == PayloadRule::non_empty && bytes == 0) {
    return Refusal::payload_missing;
  }
  if (traits->payload == PayloadRule::exact) {
    const bool is_mtu =
        path_mtu ? bytes == bytes_of(*path_mtu) : bytes >= bytes_of(PathMtu::b256) && (bytes & (bytes - 1)) == 0;
    return is_mtu ? std::nullopt : std::optional(Refusal::payload_not_path_mtu);
  }
  if (traits->payload == PayloadRule::word && bytes != kAtomicWriteBytes) {
    return bytes < kAtomicWriteBytes ? Refusal::payload_missing : Refusal::payload_too_long;
  }
  return std::nullopt;
}

}  // namespace sidelatch::roce
