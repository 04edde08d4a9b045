#include "pcap_port.h"

#include <stdexcept>
#include <utility>

namespace sidelatch::roce {

PcapPort::PcapPort(const PcapPortOptions& options) : room_(kMostFrameBytes) {
  if (!options.in.empty()) {
    in_.emplace(options.in);
    next_ = in_->next();
  }
  if (!options.out.empty()) {
    out_.emplace(options.out);
  }
}

std::optional<std::chrono::nanoseconds> PcapPort::next_time() const noexcept {
  return next_ ? std::optional(next_->time) : std::nullopt;
}

std::span<std::byte> PcapPort::reserve(const MacAddress& /*destination*/, std::size_t bytes) {
  if (bytes > room_.size()) {
    throw std::invalid_argument("a frame is longer than a wire takes");
  }
  return std::span(room_).first(bytes);
}

void PcapPort::commit(std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  if (!out_) {
    ++counters_.dropped;
    return;
  }
  using std::chrono::system_clock;
  out_->add(std::span(room_).first(bytes),
            system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(time_)));
  ++counters_.frames_sent;
  counters_.bytes_sent += bytes;
}

std::span<const std::byte> PcapPort::receive() {
  if (!next_) {
    return {};
  }
  current_.swap(next_->bytes);
  next_ = in_->next();
  ++counters_.frames_received;
  counters_.bytes_received += current_.size();
  return current_;
}

std::chrono::nanoseconds PcapPort::lie_down() {
  return next_ ? std::chrono::nanoseconds(0) : std::chrono::nanoseconds(std::chrono::hours(24));
}

}  // namespace sidelatch::roce
