#include "cable_wire.h"

#include "neighbour_wire.h"
#include "station_addresses.h"

#include <memory>

namespace sidelatch::roce {

CableWire::CableWire(const CableWireOptions& options)
    : addresses_(checked_addresses(options.name, options.addresses)),
      neighbours_(addresses_),
      cable_(CableEnd::nic, options.name, options.station_name, options.folder.string()) {}

std::optional<MacAddress> CableWire::resolve(const Gid& gid) {
  send_own(neighbours_.question_for(gid));
  return neighbours_.find(gid);
}

// If there is no room the frame is lost, and the address is asked for again.
void CableWire::send_own(const Neighbours::Frame& frame) {
  if (!frame.empty()) {
    static_cast<void>(send(frame));
  }
}

// A switch floods frames for stations that it does not know.
bool CableWire::is_for_us(std::span<const std::byte> frame) const {
  if (frame.size() < Ethernet::kBytes) {
    return false;
  }
  const MacAddress destination = Ethernet::read(frame.data()).destination;
  return destination == addresses_.mac || is_group(destination);
}

std::span<const std::byte> CableWire::receive() {
  for (;;) {
    const std::span<const std::byte> frame = cable_.wire().receive();
    if (frame.empty()) {
      return {};
    }
    if (!is_for_us(frame)) {
      continue;
    }
    if (!neighbours_.take(frame, reply_)) {
      return frame;
    }
    send_own(reply_);
  }
}

std::unique_ptr<Wire> join_cable_wire(const CableWireOptions& options) { return std::make_unique<CableWire>(options); }

}  // namespace sidelatch::roce
