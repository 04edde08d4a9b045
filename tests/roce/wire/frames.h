// Frames whose bytes follow from their beginning, so that a receiver can check whether one is whole.
#pragma once

#include "roce/wire/wire.h"

#include "roce/headers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace sidelatch::roce {

inline constexpr std::size_t kLeastTestFrame = Ethernet::kBytes + sizeof(std::uint32_t);

inline std::byte test_byte(std::uint32_t number, std::size_t i) { return static_cast<std::byte>(number * 31 + i * 7); }

/// Writes a whole frame of `out.size()` bytes, at least kLeastTestFrame.
inline void write_test_frame(std::span<std::byte> out, const MacAddress& to, const MacAddress& from,
                             std::uint32_t number) {
  Ethernet{.destination = to, .source = from, .ether_type = 0x88b5}.write(out.data());
  std::memcpy(out.data() + Ethernet::kBytes, &number, sizeof number);
  for (std::size_t i = kLeastTestFrame; i < out.size(); ++i) {
    out[i] = test_byte(number, i);
  }
}

inline std::vector<std::byte> test_frame(std::size_t bytes, const MacAddress& to, const MacAddress& from,
                                         std::uint32_t number) {
  std::vector<std::byte> frame(bytes);
  write_test_frame(frame, to, from, number);
  return frame;
}

inline std::uint32_t number_of(std::span<const std::byte> frame) {
  std::uint32_t number = 0;
  std::memcpy(&number, frame.data() + Ethernet::kBytes, sizeof number);
  return number;
}

inline bool is_whole(std::span<const std::byte> frame) {
  if (frame.size() < kLeastTestFrame) {
    return false;
  }
  const std::uint32_t number = number_of(frame);
  for (std::size_t i = kLeastTestFrame; i < frame.size(); ++i) {
    if (frame[i] != test_byte(number, i)) {
      return false;
    }
  }
  return true;
}

/// A length of any size, determined by the number.
inline std::size_t length_of(std::uint32_t number) {
  return kLeastTestFrame + (number * 2654435761U >> 7) % (kMostFrameBytes - kLeastTestFrame + 1);
}

/// A lost wake-up makes a test take for ever.
inline constexpr auto kForever = std::chrono::hours(24);

/// Sends, and waits for room.
inline void send_test_frame(Wire& wire, const MacAddress& to, std::uint32_t number, std::size_t bytes) {
  for (;;) {
    const std::span<std::byte> room = wire.reserve(to, bytes);
    if (!room.empty()) {
      write_test_frame(room, to, wire.addresses().mac, number);
      wire.commit(bytes);
      return;
    }
    wire.wait(kForever);
  }
}

/// Waits for the next frame.
inline std::span<const std::byte> wait_for_frame(Wire& wire) {
  for (;;) {
    const std::span<const std::byte> frame = wire.receive();
    if (!frame.empty()) {
      return frame;
    }
    wire.wait(kForever);
  }
}

}  // namespace sidelatch::roce
