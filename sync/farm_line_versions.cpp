#include <sidelatch/sync/farm_line_versions.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// Line 0 begins with latch and version, every other line with the version alone.
constexpr std::uint64_t kVersionBytes = 8;

struct LineData {
  std::uint64_t offset;  // of the data in the object
  std::uint64_t bytes;
};

LineData data_of_line(std::uint64_t line, std::uint64_t object_bytes) {
  const std::uint64_t begin = line * kLineBytes;
  const std::uint64_t offset = begin + (line == 0 ? kHeaderBytes : kVersionBytes);
  const std::uint64_t end = std::min(begin + kLineBytes, object_bytes);
  return {offset, end > offset ? end - offset : 0};
}

std::uint64_t lines(std::uint64_t object_bytes) { return (object_bytes + kLineBytes - 1) / kLineBytes; }

// The version of a line lies right before its data.
std::uint64_t version_offset(const LineData& line) { return line.offset - kVersionBytes; }

}  // namespace

std::uint64_t FarmLineVersions::payload_bytes(std::uint64_t object_bytes) const noexcept {
  return object_bytes - kVersionBytes * (lines(object_bytes) + 1);
}

void FarmLineVersions::encode(std::span<std::byte> object, std::uint64_t version,
                              std::span<const std::byte> payload) const {
  const std::byte* from = payload.data();
  for (std::uint64_t i = 0; i < lines(object.size()); ++i) {
    const LineData line = data_of_line(i, object.size());
    std::memcpy(object.data() + version_offset(line), &version, kVersionBytes);
    std::memcpy(object.data() + line.offset, from, line.bytes);
    from += line.bytes;
  }
}

Task<ReadResult> FarmLineVersions::read(QueuePair& qp, RemoteSpan object, LocalSpan scratch,
                                        std::span<std::byte> payload) const {
  check_sizes(object, scratch, payload.size());
  co_await qp.read(scratch.subspan(0, object.length), object);
  const ObjectHeader header = header_of(scratch.bytes());
  bool equal = header.latch == 0;
  std::byte* into = payload.data();
  for (std::uint64_t i = 0; i < lines(object.length); ++i) {
    const LineData line = data_of_line(i, object.length);
    std::uint64_t version = 0;
    std::memcpy(&version, scratch.data + version_offset(line), kVersionBytes);
    equal = equal && version == header.version;
    std::memcpy(into, scratch.data + line.offset, line.bytes);
    into += line.bytes;
  }
  if (!equal) {
    co_return ReadResult{};
  }
  const bool unchanged = co_await header_unchanged(qp, object, scratch, header);
  co_return ReadResult{unchanged, header.version};
}

}  // namespace sidelatch::sync
