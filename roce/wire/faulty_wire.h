// FaultyWire: a wire that loses, doubles, damages, reorders and delays sent frames, as a seed decides.
//
// Each frame draws the same number of random numbers, so changing the probability of one fault does not move the faults
// of other kinds. The fault of a frame depends on the number of frames sent before it, not on time. Only the moment
// when a held-back frame is sent may depend on the clock.
//
// Thread-safety: as Wire.
#pragma once

#include "roce/wire/wires.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace sidelatch::roce {

class FaultyWire final : public Wire {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws std::invalid_argument if a probability is outside 0 to 1 or a time is negative. `now`: for tests.
  FaultyWire(std::unique_ptr<Wire> wire, const FaultOptions& options,
             std::function<Clock::time_point()> now = Clock::now);

  [[nodiscard]] const StationAddresses& addresses() const noexcept override { return wire_->addresses(); }
  [[nodiscard]] std::size_t most_frame_bytes() const noexcept override { return wire_->most_frame_bytes(); }
  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& gid) override { return wire_->resolve(gid); }
  [[nodiscard]] std::optional<std::uint64_t> occupant(const Gid& gid) override { return wire_->occupant(gid); }
  [[nodiscard]] std::span<std::byte> reserve(const MacAddress& destination, std::size_t bytes) override;
  void commit(std::size_t bytes) override;
  void flush() override;
  [[nodiscard]] std::span<const std::byte> receive() override;
  void wait(std::chrono::nanoseconds at_most) override;
  void interrupt() noexcept override { wire_->interrupt(); }
  [[nodiscard]] int descriptor() const noexcept override { return wire_->descriptor(); }
  [[nodiscard]] std::chrono::nanoseconds lie_down() override;
  void stand_up() override { wire_->stand_up(); }
  void abandon() noexcept override { wire_->abandon(); }
  /// The counters of the wire inside, and the faults.
  [[nodiscard]] const WireCounters& counters() const noexcept override;

 private:
  struct Fate {
    bool lost;
    bool duplicated;
    bool reordered;
    bool delayed;
    std::optional<std::uint64_t> wrong_bit;  // any number
    std::uint64_t distance;
  };
  struct Held {
    MacAddress destination;
    std::vector<std::byte> frame;
    std::uint64_t behind;   // sent after this many frames,
    Clock::time_point due;  // or at this time
  };

  [[nodiscard]] double chance();
  [[nodiscard]] Fate draw();
  [[nodiscard]] bool send_inside(const Held& held);
  void hold(std::span<const std::byte> frame, std::uint64_t behind, Clock::time_point due);
  void release_due();
  [[nodiscard]] std::chrono::nanoseconds until_next(std::chrono::nanoseconds at_most) const;

  std::unique_ptr<Wire> wire_;
  FaultOptions options_;
  std::function<Clock::time_point()> now_;
  std::mt19937_64 random_;
  MacAddress destination_{};
  std::span<std::byte> room_;
  std::list<Held> held_;
  std::uint64_t sent_ = 0;
  FaultCounters faults_;
  mutable WireCounters counters_;
};

}  // namespace sidelatch::roce
