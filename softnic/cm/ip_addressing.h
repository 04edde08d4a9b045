// IP addressing of connections: how a port space, IP addresses and ports travel in REQ and SIDR_REQ.
//
//   const std::uint64_t service = service_id_of(kTcp, 7471);
//   const auto header = encode({.source = client, .destination = server});     // the first 36 bytes of private data
//
// Source: InfiniBand Architecture Specification, volume 1, Annex A11 (RDMA IP CM Service).
//
// Thread-safety: values, and functions without state.
#pragma once

#include "roce/big_endian.h"
#include "roce/gid.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sidelatch::softnic::cm {

/// Of librdmacm, and bytes 4 and 5 of a service ID.
using PortSpace = std::uint16_t;
inline constexpr PortSpace kIpoib = 0x0002;
inline constexpr PortSpace kTcp = 0x0106;
inline constexpr PortSpace kUdp = 0x0111;
inline constexpr PortSpace kInfiniband = 0x013f;

struct SocketAddress {
  roce::Gid ip{};  ///< IPv4 as ::ffff:a.b.c.d
  std::uint16_t port = 0;

  [[nodiscard]] bool is_ipv4() const noexcept { return roce::is_ipv4(ip); }
  /// 0.0.0.0 or ::.
  [[nodiscard]] bool is_any() const noexcept { return ip == roce::Gid{} || ip == roce::gid_of(roce::Ipv4Address{}); }
  [[nodiscard]] bool is_loopback() const noexcept {
    constexpr roce::Gid kLoopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    constexpr std::uint8_t kLoopbackNet = 127;
    const auto ipv4 = roce::ipv4_in(ip);
    return ipv4 ? ipv4->front() == kLoopbackNet : ip == kLoopback;
  }
  /// A wildcard becomes the loopback address of its family, another address stays.
  [[nodiscard]] SocketAddress as_destination() const noexcept {
    SocketAddress to = *this;
    if (is_any() && is_ipv4()) {
      to.ip = roce::gid_of(roce::Ipv4Address{127, 0, 0, 1});
    } else if (is_any()) {
      to.ip.back() = 1;
    }
    return to;
  }
  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
};

[[nodiscard]] constexpr std::uint64_t service_id_of(PortSpace space, std::uint16_t port) noexcept {
  return std::uint64_t{space} << 16U | port;
}
[[nodiscard]] constexpr PortSpace port_space_of(std::uint64_t service_id) noexcept {
  return static_cast<PortSpace>(service_id >> 16U);
}
[[nodiscard]] constexpr bool is_of_ip(std::uint64_t service_id) noexcept {
  const PortSpace space = port_space_of(service_id);
  return service_id >> 32U == 0 && (space == kTcp || space == kUdp || space == kIpoib || space == kInfiniband);
}

inline constexpr std::size_t kAddressHeaderBytes = 36;

/// The destination's port is in the service ID.
struct AddressHeader {
  SocketAddress source{};
  SocketAddress destination{};
  friend bool operator==(const AddressHeader&, const AddressHeader&) = default;
};

namespace detail {
inline constexpr std::size_t kHeaderPort = 2;
inline constexpr std::size_t kHeaderSource = 4;
inline constexpr std::size_t kHeaderDestination = 20;
}  // namespace detail

[[nodiscard]] inline std::array<std::byte, kAddressHeaderBytes> encode(const AddressHeader& header) noexcept {
  std::array<std::byte, kAddressHeaderBytes> bytes{};
  const bool is_ipv4 = header.destination.is_ipv4();
  roce::store8(bytes.data() + 1, is_ipv4 ? 0x40 : 0x60);
  roce::store16(bytes.data() + detail::kHeaderPort, header.source.port);
  const auto put = [&](std::size_t at, const roce::Gid& ip) {
    for (std::size_t i = is_ipv4 ? roce::kMappedIpv4.size() : 0; i < ip.size(); ++i) {
      bytes[at + i] = std::byte{ip[i]};  // an IPv4 address stands behind 12 bytes of 0
    }
  };
  put(detail::kHeaderSource, header.source.ip);
  put(detail::kHeaderDestination, header.destination.ip);
  return bytes;
}

/// Nothing if the bytes are too few or no such header.
[[nodiscard]] inline std::optional<AddressHeader> decode_addresses(std::span<const std::byte> bytes,
                                                                   std::uint64_t service_id) noexcept {
  if (bytes.size() < kAddressHeaderBytes || bytes[0] != std::byte{0}) {
    return std::nullopt;
  }
  const unsigned version = std::to_integer<unsigned>(bytes[1]) >> 4U;
  if (version != 4 && version != 6) {
    return std::nullopt;
  }
  const auto get = [&](std::size_t at) {
    roce::Gid ip{};
    for (std::size_t i = 0; i < ip.size(); ++i) {
      ip[i] = std::to_integer<std::uint8_t>(bytes[at + i]);
    }
    if (version == 4) {
      std::ranges::copy(roce::kMappedIpv4, ip.begin());
    }
    return ip;
  };
  return AddressHeader{
      .source = {.ip = get(detail::kHeaderSource), .port = roce::load16(bytes.data() + detail::kHeaderPort)},
      .destination = {.ip = get(detail::kHeaderDestination), .port = static_cast<std::uint16_t>(service_id)}};
}

}  // namespace sidelatch::softnic::cm
