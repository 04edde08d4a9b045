// CapturingWire: a wire that captures every frame sent over it or received from it. The capture shows the frames given
// to the wire inside, including those that it drops or loses.
//
// Thread-safety: as Wire.
#pragma once

#include "pcap_file.h"

#include "roce/wire/wires.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace sidelatch::roce {

class CapturingWire final : public Wire {
 public:
  /// Throws WireError if the file cannot be written; so do commit() and receive().
  CapturingWire(std::unique_ptr<Wire> wire, const CaptureOptions& options);

  [[nodiscard]] const StationAddresses& addresses() const noexcept override { return wire_->addresses(); }
  [[nodiscard]] std::size_t most_frame_bytes() const noexcept override { return wire_->most_frame_bytes(); }
  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& gid) override { return wire_->resolve(gid); }
  [[nodiscard]] std::optional<std::uint64_t> occupant(const Gid& gid) override { return wire_->occupant(gid); }
  [[nodiscard]] std::span<std::byte> reserve(const MacAddress& destination, std::size_t bytes) override;
  void commit(std::size_t bytes) override;
  void flush() override { wire_->flush(); }
  [[nodiscard]] std::span<const std::byte> receive() override;
  void wait(std::chrono::nanoseconds at_most) override { wire_->wait(at_most); }
  void interrupt() noexcept override { wire_->interrupt(); }
  void abandon() noexcept override { wire_->abandon(); }
  [[nodiscard]] const WireCounters& counters() const noexcept override { return wire_->counters(); }

 private:
  std::unique_ptr<Wire> wire_;
  PcapFile file_;
  std::span<const std::byte> room_;
};

}  // namespace sidelatch::roce
