#include "station_addresses.h"

#include <cstdint>

namespace sidelatch::roce {

namespace {

constexpr StationAddresses kNumberless = {
    .mac = {0x02, 0x53, 0x4c, 0, 0, 0},
    .ipv4 = {10, 83, 76, 0},
    .ipv6 = {0xfd, 0x53, 0x4c, 0},
};

// The number in the last byte, if all other bytes have the right values.
template <class Address>
std::optional<std::size_t> number_in(Address address, const Address& numberless) {
  const std::size_t number = address.back();
  address.back() = 0;
  if (address != numberless || number == 0 || number > kMostStations) {
    return std::nullopt;
  }
  return number - 1;
}

}  // namespace

StationAddresses addresses_of_station(std::size_t station) noexcept {
  StationAddresses addresses = kNumberless;
  const auto number = static_cast<std::uint8_t>(station + 1);
  addresses.mac.back() = number;
  addresses.ipv4.back() = number;
  addresses.ipv6.back() = number;
  return addresses;
}

std::optional<std::size_t> station_of(const MacAddress& mac) noexcept { return number_in(mac, kNumberless.mac); }

std::optional<std::size_t> station_of(const Gid& gid) noexcept {
  if (const auto ipv4 = ipv4_in(gid)) {
    return number_in(*ipv4, kNumberless.ipv4);
  }
  return number_in(gid, kNumberless.ipv6);
}

}  // namespace sidelatch::roce
