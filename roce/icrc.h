// The invariant CRC of RoCEv2: the last four bytes of every packet.
//
// It is the CRC-32 of Ethernet over eight bytes of ones, which stand for InfiniBand's local route header, and over the
// packet from its IP header to the end of its pad bytes. The fields that a router may change count as all ones: in IPv4
// type of service, time to live and header checksum; in IPv6 traffic class, flow label and hop limit; the UDP checksum;
// and resv8a of the BTH. It is sent lowest byte first. Sources: InfiniBand Architecture Specification, volume 1, 7.8
// (invariant CRC), and Annex A17 (its fields in RoCEv2).
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::roce {

inline constexpr std::size_t kIcrcBytes = 4;

/// The state of the CRC (crc32.h) after the headers of a packet, from its IP header, without options or extensions, to
/// the payload: at least IP, UDP and BTH, at most kMostExtensionBytes more.
[[nodiscard]] std::uint32_t icrc_after_ipv4(std::span<const std::byte> headers) noexcept;
[[nodiscard]] std::uint32_t icrc_after_ipv6(std::span<const std::byte> headers) noexcept;

/// The ICRC in the kIcrcBytes at `in`.
[[nodiscard]] std::uint32_t load_icrc(const std::byte* in) noexcept;
void store_icrc(std::byte* out, std::uint32_t icrc) noexcept;

}  // namespace sidelatch::roce
