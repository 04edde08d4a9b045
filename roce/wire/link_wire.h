// LinkWire: one peer at the other end of a pair of UNIX sockets, such as QEMU's `-netdev dgram` (7.2 and later). Each
// datagram is exactly one Ethernet frame. `-netdev stream`, which puts a big-endian length of four bytes before each
// frame, is not supported.
//
// Thread-safety: as Wire.
#pragma once

#include "neighbour_wire.h"
#include "unix_address.h"

#include "roce/wire/wires.h"

#include <optional>

namespace sidelatch::roce {

class LinkWire final : public NeighbourWire {
 public:
  /// Throws WireError and std::invalid_argument.
  explicit LinkWire(const LinkWireOptions& options);
  LinkWire(const LinkWire&) = delete;
  LinkWire& operator=(const LinkWire&) = delete;
  ~LinkWire() override;

 private:
  [[nodiscard]] std::optional<Address> address_of(const MacAddress& /*destination*/) override { return remote_; }

  Address remote_;
  SocketFile file_;
};

}  // namespace sidelatch::roce
