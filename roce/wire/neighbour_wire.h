// NeighbourWire: a socket wire to stations that are not ours, whose addresses must be asked for (neighbours.h).
//
// Thread-safety: as Wire.
#pragma once

#include "neighbours.h"
#include "socket_wire.h"

#include <optional>
#include <span>
#include <string>

namespace sidelatch::roce {

/// Throws std::invalid_argument, with the wire's name, if the MAC is not that of a single station, or if there is no IP
/// address.
[[nodiscard]] const StationAddresses& checked_addresses(const std::string& wire, const StationAddresses& addresses);

class NeighbourWire : public SocketWire {
 public:
  /// Asks if the address is unknown or no longer fresh.
  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& gid) final;

 protected:
  /// Throws as checked_addresses().
  NeighbourWire(std::string name, const StationAddresses& addresses, std::size_t most_frame_bytes);

 private:
  [[nodiscard]] bool take(std::span<const std::byte> frame) final;
  void send_own(const Neighbours::Frame& frame);

  Neighbours neighbours_;
  Neighbours::Frame reply_;
};

}  // namespace sidelatch::roce
