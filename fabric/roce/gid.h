// Gid: how RoCEv2 names a port. An IPv6 address, or an IPv4 one as ::ffff:a.b.c.d.
//
// Source: InfiniBand Architecture Specification, volume 1, A17.4.5.2.
//
// Thread-safety: functions without state.
#pragma once

#include "headers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace sidelatch::fabric::roce {

using Gid = Ipv6Address;

inline constexpr std::array<std::uint8_t, 12> kMappedIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

[[nodiscard]] constexpr Gid gid_of(const Ipv4Address& address) noexcept {
  Gid gid{};
  std::copy(kMappedIpv4.begin(), kMappedIpv4.end(), gid.begin());
  std::copy(address.begin(), address.end(), gid.begin() + kMappedIpv4.size());
  return gid;
}

[[nodiscard]] constexpr bool is_ipv4(const Gid& gid) noexcept {
  return std::equal(kMappedIpv4.begin(), kMappedIpv4.end(), gid.begin());
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

}  // namespace sidelatch::fabric::roce
