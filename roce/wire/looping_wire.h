// LoopingWire: a wire that also hands back the frames that its station sends to itself, and to groups. No other wire
// does. Wrappers around it see these frames as all others.
//
// Thread-safety: as Wire.
#pragma once

#include "roce/wire/wires.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sidelatch::roce {

class LoopingWire final : public Wire {
 public:
  /// The most frames on their way back. There is no room for another one.
  static constexpr std::size_t kMostFrames = 1024;

  explicit LoopingWire(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}

  [[nodiscard]] const StationAddresses& addresses() const noexcept override { return wire_->addresses(); }
  [[nodiscard]] std::size_t most_frame_bytes() const noexcept override { return wire_->most_frame_bytes(); }
  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& gid) override { return wire_->resolve(gid); }
  [[nodiscard]] std::optional<std::uint64_t> occupant(const Gid& gid) override { return wire_->occupant(gid); }
  [[nodiscard]] std::span<std::byte> reserve(const MacAddress& destination, std::size_t bytes) override;
  void commit(std::size_t bytes) override;
  void flush() override { wire_->flush(); }
  [[nodiscard]] std::span<const std::byte> receive() override;
  void wait(std::chrono::nanoseconds at_most) override;
  void interrupt() noexcept override { wire_->interrupt(); }
  [[nodiscard]] int descriptor() const noexcept override { return wire_->descriptor(); }
  [[nodiscard]] std::chrono::nanoseconds lie_down() override;
  void stand_up() override { wire_->stand_up(); }
  void abandon() noexcept override { wire_->abandon(); }
  /// Of the wire inside: frames to the station itself do not count.
  [[nodiscard]] const WireCounters& counters() const noexcept override { return wire_->counters(); }

 private:
  enum class Way : std::uint8_t { out, back, both };

  std::unique_ptr<Wire> wire_;
  Way way_ = Way::out;
  std::span<std::byte> room_;
  std::vector<std::byte> own_room_;
  std::deque<std::vector<std::byte>> returning_;
  std::vector<std::byte> received_;
  bool is_others_turn_ = false;
};

}  // namespace sidelatch::roce
