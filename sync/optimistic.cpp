#include <sidelatch/sync/optimistic.h>

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace sidelatch::sync {

using namespace fabric;

ObjectHeader header_of(std::span<const std::byte> object) {
  ObjectHeader header;
  std::memcpy(&header, object.data(), kHeaderBytes);
  return header;
}

Task<bool> header_unchanged(QueuePair& qp, RemoteSpan object, LocalSpan scratch, ObjectHeader seen) {
  co_await qp.read(scratch.subspan(0, kHeaderBytes), object);
  const ObjectHeader now = header_of(scratch.bytes());
  co_return now.latch == 0 && now == seen;
}

void OptimisticScheme::check_sizes(const RemoteSpan& object, const LocalSpan& scratch, std::uint64_t payload) const {
  if (object.length < kLineBytes || object.length % 8 != 0 || object.address.value % kLineBytes != 0) {
    throw std::invalid_argument(
        fmt::format("{}: an object of {} bytes at {:#x}: its length must be a multiple of 8 and "
                    "at least {}, its address a multiple of {}",
                    name(), object.length, object.address.value, kLineBytes, kLineBytes));
  }
  if (scratch.length < object.length) {
    throw std::invalid_argument(fmt::format("{}: a scratch buffer of {} bytes for an object of {}: it must be as long",
                                            name(), scratch.length, object.length));
  }
  if (payload != payload_bytes(object.length)) {
    throw std::invalid_argument(fmt::format("{}: {} payload bytes for an object of {} bytes: it has {}", name(),
                                            payload, object.length, payload_bytes(object.length)));
  }
}

Task<bool> OptimisticScheme::update(QueuePair& qp, RemoteSpan object, LocalSpan scratch,
                                    std::span<const std::byte> payload) const {
  check_sizes(object, scratch, payload.size());
  const LocalSpan copy = scratch.subspan(0, object.length);
  // Speculative read: the READ sees the object as it is once the CAS has been executed.
  const auto old = co_await qp.submit(compare_swap(object, 0, 1), fabric::read(copy, object));
  if (old[0] != 0) {
    co_return false;
  }
  const std::uint64_t version = header_of(copy.bytes()).version + 1;
  const ObjectHeader header{1, version};  // still latched: the FETCH-ADD unlatches
  std::memcpy(copy.data, &header, kHeaderBytes);
  encode(copy.bytes(), version, payload);
  co_await qp.submit(write(copy, object), fetch_add(object, ~std::uint64_t{0}));
  co_return true;
}

}  // namespace sidelatch::sync
