#include <sidelatch/sync/remote_latches.h>

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

namespace sidelatch::sync {

namespace {

constexpr std::uint64_t kBytesOfLatch = 8;

}  // namespace

void RemoteLatches::validate() const {
  if (queue_pair == nullptr) {
    return;
  }
  if (words.length < kBytesOfLatch || words.length % kBytesOfLatch != 0) {
    throw std::invalid_argument(
        fmt::format("latches apart in {} bytes: it must be a multiple of 8, and not 0", words.length));
  }
  if (granule < kBytesOfLatch || !std::has_single_bit(granule)) {
    throw std::invalid_argument(
        fmt::format("latches apart with a granule of {} bytes: it must be a power of two, at least 8", granule));
  }
}

fabric::RemoteSpan RemoteLatches::word_of(const Object& object) const {
  const std::uint64_t address = object.record_address.value;
  const std::uint64_t which = (address - first.value) / granule;
  if (address < first.value || which >= words.length / kBytesOfLatch) {
    throw std::out_of_range(
        fmt::format("the object at {:#x} has no latch: {} words apart, one for every {} bytes from "
                    "{:#x} on, are for the objects below {:#x}",
                    address, words.length / kBytesOfLatch, granule, first.value,
                    first.value + words.length / kBytesOfLatch * granule));
  }
  return words.subspan(which * kBytesOfLatch, kBytesOfLatch);
}

}  // namespace sidelatch::sync
