#include "naive.h"

#include <cstring>

namespace sidelatch::sync::broken {

using namespace fabric;

void Naive::encode(std::span<std::byte> object, std::uint64_t /*version*/, std::span<const std::byte> payload) const {
  std::memcpy(object.data() + kHeaderBytes, payload.data(), payload.size());
}

Task<ReadResult> Naive::read(QueuePair& qp, RemoteSpan object, LocalSpan scratch, std::span<std::byte> payload) const {
  check_sizes(object, scratch, payload.size());
  co_await qp.read(scratch.subspan(0, object.length), object);
  const ObjectHeader header = header_of(scratch.bytes());
  if (header.latch != 0) {
    co_return ReadResult{};
  }
  std::memcpy(payload.data(), scratch.data + kHeaderBytes, payload.size());
  const bool unchanged = co_await header_unchanged(qp, object, scratch, header);
  co_return ReadResult{unchanged, header.version};
}

}  // namespace sidelatch::sync::broken
