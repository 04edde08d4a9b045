// The addresses of the stations of a wire of our own. They follow from the station's number, so nobody has to ask for
// them. MAC 02:53:4c:00:00:NN (locally administered, "SL"), IPv4 10.83.76.NN, IPv6 fd53:4c00::NN.
//
// Thread-safety: functions without state.
#pragma once

#include "roce/wire/wire.h"

#include <cstddef>
#include <optional>

namespace sidelatch::roce {

/// The most stations of one wire; they are numbered from 0, and their addresses from 1.
inline constexpr std::size_t kMostStations = 64;

[[nodiscard]] StationAddresses addresses_of_station(std::size_t station) noexcept;
/// The station's number; nothing if no station has such an address.
[[nodiscard]] std::optional<std::size_t> station_of(const MacAddress& mac) noexcept;
/// The same for an IPv6 address, or for the IPv4 address in a GID.
[[nodiscard]] std::optional<std::size_t> station_of(const Gid& gid) noexcept;

/// Ethernet's group bit: the frame is for many or all stations.
[[nodiscard]] constexpr bool is_group(const MacAddress& mac) noexcept { return (mac[0] & 1U) != 0; }
inline constexpr MacAddress kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

}  // namespace sidelatch::roce
