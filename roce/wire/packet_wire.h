// PacketWire: an interface of the kernel, with a packet socket (packet(7)). It has IP addresses of its own beside the
// machine's, and answers for them itself (neighbours.h).
//
// Why not the machine's addresses: the kernel gets a copy of all that the socket gets, finds no socket of its own on
// UDP port 4791, and answers the sender with ICMP "port unreachable". For an address that is not the machine's it drops
// its copy, unless it forwards packets (net.ipv4.ip_forward); then give the station a MAC address of its own.
//
// Thread-safety: as Wire.
#pragma once

#include "neighbour_wire.h"

#include "roce/wire/wires.h"

#include <optional>

namespace sidelatch::roce {

class PacketWire final : public NeighbourWire {
 public:
  /// Throws WireError and std::invalid_argument.
  explicit PacketWire(const PacketWireOptions& options);

 private:
  struct Opened;

  PacketWire(const PacketWireOptions& options, Opened opened);
  [[nodiscard]] static Opened open(const PacketWireOptions& options);
  [[nodiscard]] std::optional<Address> address_of(const MacAddress& /*destination*/) override { return Address{}; }
};

}  // namespace sidelatch::roce
