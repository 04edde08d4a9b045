// LinkWire: one peer at the other end of a pair of UNIX sockets, as `-netdev dgram` of QEMU is (7.2 and later): each
// datagram is an Ethernet frame and nothing else. `-netdev stream` puts a length of four bytes before each frame, big
// endian, and is not spoken here.
//
// Thread-safety: as Wire.
#pragma once

#include "neighbour_wire.h"

#include "roce/wire/wires.h"

#include <filesystem>
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

  std::filesystem::path local_path_;
  Address remote_;
};

}  // namespace sidelatch::roce
