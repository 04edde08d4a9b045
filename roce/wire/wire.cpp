#include "wire.h"

#include <fmt/format.h>

#include <cstring>

namespace sidelatch::roce {

bool Wire::send(std::span<const std::byte> frame) {
  if (frame.size() < Ethernet::kBytes) {
    throw std::invalid_argument(
        fmt::format("a frame of {} bytes: an Ethernet header alone has {}", frame.size(), Ethernet::kBytes));
  }
  const std::span<std::byte> room = reserve(Ethernet::read(frame.data()).destination, frame.size());
  if (room.empty()) {
    return false;
  }
  std::memcpy(room.data(), frame.data(), frame.size());
  commit(frame.size());
  flush();
  return true;
}

}  // namespace sidelatch::roce
