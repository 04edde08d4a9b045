// CableWire: a station at one end of a cable, with a port of a switch at the other (roce/port/cable_port.h).
//
// Thread-safety: as Wire.
#pragma once

#include "cable.h"
#include "neighbours.h"

#include "roce/wire/wires.h"

namespace sidelatch::roce {

class CableWire final : public Wire {
 public:
  /// Throws WireError and std::invalid_argument.
  explicit CableWire(const CableWireOptions& options);

  [[nodiscard]] const StationAddresses& addresses() const noexcept override { return addresses_; }
  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& gid) override;
  [[nodiscard]] std::span<std::byte> reserve(const MacAddress& /*destination*/, std::size_t bytes) override {
    return cable_.wire().reserve(cable_.other_end(), bytes);
  }
  void commit(std::size_t bytes) override { cable_.wire().commit(bytes); }
  void flush() override { cable_.wire().flush(); }
  [[nodiscard]] std::span<const std::byte> receive() override;
  void wait(std::chrono::nanoseconds at_most) override { cable_.wire().wait(at_most); }
  void interrupt() noexcept override { cable_.wire().interrupt(); }
  void abandon() noexcept override { cable_.wire().abandon(); }
  [[nodiscard]] const WireCounters& counters() const noexcept override { return cable_.wire().counters(); }

 private:
  void send_own(const Neighbours::Frame& frame);
  [[nodiscard]] bool is_for_us(std::span<const std::byte> frame) const;

  StationAddresses addresses_;
  Neighbours neighbours_;
  Neighbours::Frame reply_;
  Cable cable_;
};

}  // namespace sidelatch::roce
