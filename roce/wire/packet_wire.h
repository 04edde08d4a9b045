// PacketWire: a packet socket (packet(7)) on an interface of the kernel. It has its own IP addresses besides the
// machine's, and answers for them itself (neighbours.h).
//
// The machine's addresses cannot be used: the kernel gets a copy of every frame that the socket gets, finds no socket
// of its own on UDP port 4791, and answers the sender with ICMP "port unreachable". For other addresses it drops its
// copy, unless it forwards packets (net.ipv4.ip_forward); then give the station a MAC address of its own.
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
