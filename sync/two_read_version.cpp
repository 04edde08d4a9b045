#include <sidelatch/sync/two_read_version.h>

#include <cstring>

namespace sidelatch::sync {

using namespace fabric;

void TwoReadVersion::encode(std::span<std::byte> object, std::uint64_t /*version*/,
                            std::span<const std::byte> payload) const {
  std::memcpy(object.data() + kHeaderBytes, payload.data(), payload.size());
}

Task<ReadResult> TwoReadVersion::read(QueuePair& qp, RemoteSpan object, LocalSpan scratch,
                                      std::span<std::byte> payload) const {
  check_sizes(object, scratch, payload.size());
  co_await qp.read(scratch.subspan(0, kHeaderBytes), object);
  const ObjectHeader header = header_of(scratch.bytes());
  if (header.latch != 0) {
    co_return ReadResult{};
  }
  co_await qp.read(scratch.subspan(0, payload.size()), object.subspan(kHeaderBytes, payload.size()));
  std::memcpy(payload.data(), scratch.data, payload.size());
  const bool unchanged = co_await header_unchanged(qp, object, scratch, header);
  co_return ReadResult{unchanged, header.version};
}

}  // namespace sidelatch::sync
