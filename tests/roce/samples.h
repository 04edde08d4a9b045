// Packets shared by the codec's tests, and the files with which they compare.
#pragma once

#include "roce/packet.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::roce {

using Bytes = std::vector<std::byte>;

/// Hexadecimal digits; spaces between them are ignored.
[[nodiscard]] Bytes from_hex(std::string_view hex);
[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);

/// `n` bytes that differ from their neighbours.
[[nodiscard]] Bytes payload_of(std::size_t n);

/// Each field has its own value, as in tests/data/roce/make_vectors.py. `ip_version` is 4 or 6.
[[nodiscard]] Packet sample(int ip_version, Opcode opcode, std::span<const std::byte> payload);

/// The output of build(), exactly as long. Fails the test if it refuses.
[[nodiscard]] Bytes built(const Packet& packet);

/// A packet in tests/data/roce/vectors.txt.
struct Vector {
  int ip_version;
  Opcode opcode;
  std::size_t payload_bytes;
  Bytes frame;
};
[[nodiscard]] std::vector<Vector> read_vectors();

/// The frames of a capture in tests/data/roce, as tcpdump writes them: microseconds, Ethernet.
[[nodiscard]] std::vector<Bytes> read_capture(const std::string& name);

/// All opcodes.
[[nodiscard]] std::vector<Opcode> all_opcodes();
/// A payload length allowed for the opcode on any path, if possible not a multiple of 4.
[[nodiscard]] std::size_t some_length(Opcode opcode);

}  // namespace sidelatch::roce
