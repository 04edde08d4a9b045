// Parses and builds RoCEv2 packets without allocating anything.
//
//   const auto parsed = parse_frame(bytes);
//   if (const auto* packet = std::get_if<Packet>(&parsed)) use(packet->bth, packet->payload);
//   else log(text(std::get<Refusal>(parsed)));
//
//   const auto built = build(packet, buffer, PathMtu::b1024);   // bytes written, or a Refusal
//
//   [Ethernet] | IPv4 or IPv6 | UDP | BTH | extension headers, as the opcode says | payload | pad | ICRC
//
// parse() accepts exactly what a receiver must accept independently of the connection. It checks every length and reads
// no byte outside. The connection checks whether a packet fits it (queue pair number, PSN, partition, path MTU).
// parse() accepts everything that build() writes. build() reproduces what parse() accepted, byte for byte, except that
// an IPv4 checksum of 0xffff becomes 0, which means the same, and that link padding after the packet is left out.
//
// Sources: InfiniBand Architecture Specification, volume 1, chapter 9 and Annex A17 (RoCEv2); RFC 791, 1071, 8200, 768.
//
// Thread-safety: values, and functions without state.
#pragma once

#include "headers.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace sidelatch::roce {

/// The longest payload of a packet on a path (volume 1, 9.7); the value is bytes.
enum class PathMtu : std::uint16_t { b256 = 256, b512 = 512, b1024 = 1024, b2048 = 2048, b4096 = 4096 };
[[nodiscard]] constexpr std::size_t bytes_of(PathMtu mtu) noexcept { return static_cast<std::size_t>(mtu); }

/// Why bytes are not accepted as a packet, or a Packet cannot be built.
enum class Refusal : std::uint8_t {
  truncated_ethernet,
  not_ip,
  truncated_ip,
  ip_version,
  ipv4_header_length,
  ipv4_checksum,
  ip_length,
  ip_fragment,
  not_udp,
  udp_port,
  udp_length,
  truncated_transport,
  transport_version,
  unknown_opcode,
  truncated_extension,
  unaligned_length,
  bad_pad,
  payload_not_allowed,
  payload_missing,
  payload_not_path_mtu,
  payload_too_long,
  icrc,
  field_too_large,   ///< build() only
  buffer_too_small,  ///< build() only
};
inline constexpr std::size_t kRefusals = 24;
/// One sentence; lives as long as the program.
[[nodiscard]] std::string_view text(Refusal refusal) noexcept;

struct Packet {
  std::optional<Ethernet> ethernet;  ///< absent: the packet begins with its IP header
  std::variant<Ipv4, Ipv6> ip;
  Udp udp;
  Bth bth;
  // Only the headers that traits_of(bth.opcode) names have a meaning; the others keep their default values.
  XrcEth xrceth;
  Deth deth;
  Reth reth;
  AtomicEth atomic;
  Aeth aeth;
  AtomicAckEth atomic_ack;
  ImmDt immediate;
  Ieth ieth;
  /// The payload without pad bytes. parse() points it into its input.
  std::span<const std::byte> payload;
  /// The first bth.pad_count bytes are sent. They are sent as 0, and kept as received.
  std::array<std::byte, 3> pad{};
};

/// Checks whether a packet with this opcode may have `bytes` of payload on a path of this MTU, or on any path without
/// an MTU. Returns the refusal if not.
[[nodiscard]] std::optional<Refusal> check_payload(Opcode opcode, std::size_t bytes,
                                                   std::optional<PathMtu> path_mtu) noexcept;

enum class IcrcCheck : bool { no, yes };

/// A packet in an Ethernet frame without preamble, tags and frame check sequence. Bytes after the end of the IP
/// datagram are link padding, not part of the packet.
[[nodiscard]] std::variant<Packet, Refusal> parse_frame(std::span<const std::byte> frame,
                                                        IcrcCheck check = IcrcCheck::yes) noexcept;
/// The headers up to the BTH, without a payload, of a whole frame of a reliable service whose operation or length is
/// why parse_frame() has refused it: the responder answers such a request (IBA 9.9.3). Nothing if `refusal` is another
/// one.
[[nodiscard]] std::optional<Packet> parse_malformed(std::span<const std::byte> frame, Refusal refusal) noexcept;
/// Like parse_frame(), for a packet that begins with its IP header.
[[nodiscard]] std::variant<Packet, Refusal> parse_datagram(std::span<const std::byte> datagram,
                                                           IcrcCheck check = IcrcCheck::yes) noexcept;

/// Bytes from the first header to the payload; the opcode must be known.
[[nodiscard]] std::size_t payload_offset(const Packet& packet) noexcept;
/// Bytes of the whole packet; the opcode must be known.
[[nodiscard]] std::size_t encoded_bytes(const Packet& packet) noexcept;

/// Writes the packet to the beginning of `out` and returns its length in bytes. Computes and overwrites these fields:
/// Ethernet's type; IP's version, lengths, protocol and checksum; UDP's destination port and length; the BTH's pad
/// count and transport version; the ICRC. Everything else is sent as it is, including the UDP checksum.
///
/// The payload is read once, so the ICRC is right for the bytes sent even if the payload is written meanwhile. A
/// payload that already lies in `out` at payload_offset() is not copied; otherwise it must lie outside `out`. Refusals
/// (see Refusal; also IP fragments and values too large for their fields) come before anything is written.
[[nodiscard]] std::variant<std::size_t, Refusal> build(const Packet& packet, std::span<std::byte> out,
                                                       std::optional<PathMtu> path_mtu = std::nullopt) noexcept;

}  // namespace sidelatch::roce
