#include "neighbour_wire.h"

#include "station_addresses.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace sidelatch::roce {

const StationAddresses& checked_addresses(const std::string& wire, const StationAddresses& addresses) {
  if (addresses.mac == MacAddress{} || is_group(addresses.mac)) {
    throw std::invalid_argument(fmt::format(
        "{}: this station needs a MAC address of its own, of which the lowest bit of the first byte is 0", wire));
  }
  if (addresses.ipv4 == Ipv4Address{} && addresses.ipv6 == Ipv6Address{}) {
    throw std::invalid_argument(fmt::format(
        "{}: this station needs an IP address, one that nobody else has: give an IPv4 or an IPv6 address", wire));
  }
  return addresses;
}

NeighbourWire::NeighbourWire(std::string name, const StationAddresses& addresses, std::size_t most_frame_bytes)
    : SocketWire(std::move(name), addresses, most_frame_bytes),
      neighbours_(checked_addresses(this->name(), addresses)) {}

std::optional<MacAddress> NeighbourWire::resolve(const Gid& gid) {
  send_own(neighbours_.question_for(gid));
  return neighbours_.find(gid);
}

bool NeighbourWire::take(std::span<const std::byte> frame) {
  if (!neighbours_.take(frame, reply_)) {
    return false;
  }
  send_own(reply_);
  return true;
}

// If there is no room the frame is lost, and the address is asked for again.
void NeighbourWire::send_own(const Neighbours::Frame& frame) {
  if (!frame.empty()) {
    static_cast<void>(send(frame));
  }
}

}  // namespace sidelatch::roce
