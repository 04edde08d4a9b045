// Gid: RoCEv2's name of a port: an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d.
//
// Source: InfiniBand Architecture Specification, volume 1, Annex A17 (RoCEv2).
//
// Thread-safety: functions without state.
#pragma once

#include "headers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>

namespace sidelatch::roce {

using Gid = Ipv6Address;

inline constexpr std::array<std::uint8_t, 12> kMappedIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

[[nodiscard]] constexpr Gid gid_of(const Ipv4Address& address) noexcept {
  Gid gid{};
  std::copy(kMappedIpv4.begin(), kMappedIpv4.end(), gid.begin());
  std::copy(address.begin(), address.end(), gid.begin() + kMappedIpv4.size());
  return gid;
}

/// Compares two words: GCC 12 calls memcmp() to compare arrays, and each packet needs several comparisons.
[[nodiscard]] constexpr bool is_same(const Gid& a, const Gid& b) noexcept {
  using Words = std::array<std::uint64_t, 2>;
  const auto left = std::bit_cast<Words>(a);
  const auto right = std::bit_cast<Words>(b);
  return ((left[0] ^ right[0]) | (left[1] ^ right[1])) == 0;
}

[[nodiscard]] constexpr bool is_ipv4(const Gid& gid) noexcept {
  Gid prefix = gid;
  std::fill(prefix.begin() + kMappedIpv4.size(), prefix.end(), std::uint8_t{0});
  return is_same(prefix, gid_of({}));
}

/// Whether it names a group: an IPv6 or IPv4 multicast address.
[[nodiscard]] constexpr bool is_group(const Gid& gid) noexcept {
  return is_ipv4(gid) ? gid[kMappedIpv4.size()] >> 4U == 0xe : gid[0] == 0xff;
}

/// The Ethernet address for frames to a group (RFC 1112, RFC 2464).
[[nodiscard]] constexpr MacAddress group_mac(const Gid& group) noexcept {
  return is_ipv4(group)
             ? MacAddress{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(group[13] & 0x7fU), group[14], group[15]}
             : MacAddress{0x33, 0x33, group[12], group[13], group[14], group[15]};
}

/// Nothing if the GID holds no IPv4 address.
[[nodiscard]] constexpr std::optional<Ipv4Address> ipv4_in(const Gid& gid) noexcept {
  if (!is_ipv4(gid)) {
    return std::nullopt;
  }
  Ipv4Address address{};
  std::copy(gid.begin() + kMappedIpv4.size(), gid.end(), address.begin());
  return address;
}

}  // namespace sidelatch::roce
