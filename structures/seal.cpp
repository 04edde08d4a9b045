#include "seal.h"

#include <sidelatch/sync/crc64.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::structures {

void seal(std::span<std::byte> payload) {
  const std::uint64_t checksum = sync::crc64(payload.subspan(kSealBytes));
  std::memcpy(payload.data(), &checksum, kSealBytes);
}

bool is_sealed(std::span<const std::byte> payload) {
  const std::span<const std::byte> rest = payload.subspan(kSealBytes);
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, payload.data(), kSealBytes);
  return checksum == sync::crc64(rest) ||
         (checksum == 0 && std::ranges::all_of(rest, [](std::byte byte) { return byte == std::byte{0}; }));
}

}  // namespace sidelatch::structures
