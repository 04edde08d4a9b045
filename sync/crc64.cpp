#include <sidelatch/sync/crc64.h>

#include <isa-l/crc64.h>

#include <cstring>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// Layout: latch, CRC's own word at 16, then the payload. What the CRC covers is not contiguous, so it is chained: the
// version first, the payload after it.
constexpr std::uint64_t kCrcOffset = kHeaderBytes;
constexpr std::uint64_t kPayloadOffset = kCrcOffset + 8;

std::uint64_t extend(std::uint64_t crc, const void* bytes, std::uint64_t length) {
  return ::crc64_ecma_refl(crc, static_cast<const unsigned char*>(bytes), length);
}

std::uint64_t checksum(std::uint64_t version, std::span<const std::byte> payload) {
  return extend(extend(0, &version, sizeof version), payload.data(), payload.size());
}

}  // namespace

std::uint64_t crc64(std::span<const std::byte> bytes) { return extend(0, bytes.data(), bytes.size()); }

void Crc64::encode(std::span<std::byte> object, std::uint64_t version, std::span<const std::byte> payload) const {
  const std::uint64_t crc = checksum(version, payload);
  std::memcpy(object.data() + kCrcOffset, &crc, sizeof crc);
  std::memcpy(object.data() + kPayloadOffset, payload.data(), payload.size());
}

Task<ReadResult> Crc64::read(QueuePair& qp, RemoteSpan object, LocalSpan scratch, std::span<std::byte> payload) const {
  check_sizes(object, scratch, payload.size());
  co_await qp.read(scratch.subspan(0, object.length), object);
  const ObjectHeader header = header_of(scratch.bytes());
  std::uint64_t stored = 0;
  std::memcpy(&stored, scratch.data + kCrcOffset, sizeof stored);
  std::memcpy(payload.data(), scratch.data + kPayloadOffset, payload.size());
  // An object that was never written is all zeros, and its CRC is not. A mixture of version 0 and the first update
  // passes here, and the validation refuses it: the writer latched before it wrote, and the version is 1 when it
  // unlatches.
  const bool right = header.version == 0 ? stored == 0 : stored == checksum(header.version, payload);
  if (header.latch != 0 || !right) {
    co_return ReadResult{};
  }
  const bool unchanged = co_await header_unchanged(qp, object, scratch, header);
  co_return ReadResult{unchanged, header.version};
}

}  // namespace sidelatch::sync
