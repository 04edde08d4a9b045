// Seals: a checksum in a structure's own payload, by which whoever takes a latch over from a dead client finds out
// whether that client's last WRITE was placed whole. A zeroed payload counts as sealed: that is fresh memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::structures {

/// The payload's first 8 bytes are the seal's.
inline constexpr std::size_t kSealBytes = 8;

/// To be called when all else in the payload is in place.
void seal(std::span<std::byte> payload);
[[nodiscard]] bool is_sealed(std::span<const std::byte> payload);

}  // namespace sidelatch::structures
