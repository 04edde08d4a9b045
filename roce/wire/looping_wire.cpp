#include "looping_wire.h"

#include "station_addresses.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace sidelatch::roce {

std::span<std::byte> LoopingWire::reserve(const MacAddress& destination, std::size_t bytes) {
  const bool is_own = destination == addresses().mac;
  way_ = is_own ? Way::back : is_group(destination) ? Way::both : Way::out;
  room_ = {};
  if (way_ != Way::out && returning_.size() >= kMostFrames) {
    return room_;
  }
  if (!is_own) {
    room_ = wire_->reserve(destination, bytes);
    return room_;
  }
  if (bytes > most_frame_bytes()) {
    throw std::invalid_argument(
        fmt::format("a frame of {} bytes: this wire takes {} at most", bytes, most_frame_bytes()));
  }
  own_room_.resize(bytes);
  room_ = own_room_;
  return room_;
}

void LoopingWire::commit(std::size_t bytes) {
  if (bytes != 0 && way_ != Way::out) {
    const std::span<const std::byte> frame = room_.first(bytes);
    returning_.emplace_back(frame.begin(), frame.end());
  }
  if (way_ != Way::back) {
    wire_->commit(bytes);
  }
}

// Frames from others and from the station itself take turns, so that neither waits for ever.
std::span<const std::byte> LoopingWire::receive() {
  if (std::exchange(is_others_turn_, !is_others_turn_) || returning_.empty()) {
    if (const std::span<const std::byte> frame = wire_->receive(); !frame.empty()) {
      return frame;
    }
  }
  if (returning_.empty()) {
    return {};
  }
  received_ = std::move(returning_.front());
  returning_.pop_front();
  return received_;
}

void LoopingWire::wait(std::chrono::nanoseconds at_most) {
  wire_->wait(returning_.empty() ? at_most : std::chrono::nanoseconds(0));
}

std::chrono::nanoseconds LoopingWire::lie_down() {
  const std::chrono::nanoseconds at_most = wire_->lie_down();
  return returning_.empty() ? at_most : std::chrono::nanoseconds(0);
}

std::unique_ptr<Wire> with_loop(std::unique_ptr<Wire> wire) { return std::make_unique<LoopingWire>(std::move(wire)); }

}  // namespace sidelatch::roce
