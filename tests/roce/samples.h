// Packets that the tests of the codec share, and the files they compare with.
#pragma once

#include "roce/packet.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::roce {

using Bytes = std::vector<std::byte>;

/// Hexadecimal digits, spaces between them ignored.
[[nodiscard]] Bytes from_hex(std::string_view hex);
[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);

/// `n` bytes that differ from their neighbours.
[[nodiscard]] Bytes payload_of(std::size_t n);

/// Every field set to a value of its own, as tests/data/roce/make_vectors.py has them. `ip_version`: 4 or 6.
[[nodiscard]] Packet sample(int ip_version, Opcode opcode, std::span<const std::byte> payload);

/// What build() writes, in exactly as many bytes. Fails the test if it refuses.
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
/// A length of payload that the opcode may have on any path, not a multiple of 4 where that is possible.
[[nodiscard]] std::size_t some_length(Opcode opcode);

}  // namespace sidelatch::roce
