#include "capturing_wire.h"

#include <utility>

namespace sidelatch::roce {

CapturingWire::CapturingWire(std::unique_ptr<Wire> wire, const CaptureOptions& options)
    : wire_(std::move(wire)), file_(options.path, options.appends) {}

std::span<std::byte> CapturingWire::reserve(const MacAddress& destination, std::size_t bytes) {
  const std::span<std::byte> room = wire_->reserve(destination, bytes);
  room_ = room;
  return room;
}

// Captures the frame before it is sent, so that no answer is recorded before its question.
void CapturingWire::commit(std::size_t bytes) {
  if (bytes != 0) {
    file_.add(room_.first(bytes), std::chrono::system_clock::now());
  }
  wire_->commit(bytes);
}

std::span<const std::byte> CapturingWire::receive() {
  const std::span<const std::byte> frame = wire_->receive();
  const bool was_written = frame.size() >= Ethernet::kBytes && Ethernet::read(frame.data()).source == addresses().mac;
  if (!frame.empty() && !was_written) {
    file_.add(frame, std::chrono::system_clock::now());
  }
  return frame;
}

std::unique_ptr<Wire> with_capture(std::unique_ptr<Wire> wire, const CaptureOptions& options) {
  return std::make_unique<CapturingWire>(std::move(wire), options);
}

}  // namespace sidelatch::roce
