// Seals: a checksum in a structure's own payload. A client that takes over a dead client's latch learns from it whether
// the last WRITE was placed whole. A zeroed payload counts as sealed: it is fresh memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::structures {

/// The payload's first 8 bytes hold the seal.
inline constexpr std::size_t kSealBytes = 8;

/// Must be called after the rest of the payload is in place.
void seal(std::span<std::byte> payload);
[[nodiscard]] bool is_sealed(std::span<const std::byte> payload);

}  // namespace sidelatch::structures
