#include "wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace sidelatch::fabric::roce {

namespace {

constexpr std::array<std::uint8_t, 12> kMappedIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

Gid gid_of(const Ipv4Address& address) noexcept {
  Gid gid{};
  std::copy(kMappedIpv4.begin(), kMappedIpv4.end(), gid.begin());
  std::copy(address.begin(), address.end(), gid.begin() + kMappedIpv4.size());
  return gid;
}

std::optional<Ipv4Address> ipv4_in(const Gid& gid) noexcept {
  if (!std::equal(kMappedIpv4.begin(), kMappedIpv4.end(), gid.begin())) {
    return std::nullopt;
  }
  Ipv4Address address{};
  std::copy(gid.begin() + kMappedIpv4.size(), gid.end(), address.begin());
  return address;
}

bool Wire::send(std::span<const std::byte> frame) {
  if (frame.size() < Ethernet::kBytes) {
    throw std::invalid_argument(
        fmt::format("a frame of {} bytes: an Ethernet header alone has {}", frame.size(), Ethernet::kBytes));
  }
  const std::span<std::byte> room = reserve(Ethernet::read(frame.data()).destination, frame.size());
  if (room.empty()) {
    return false;
  }
  std::memcpy(room.data(), frame.data(), frame.size());
  commit(frame.size());
  flush();
  return true;
}

}  // namespace sidelatch::fabric::roce
