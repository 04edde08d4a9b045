#include <sidelatch/fabric/types.h>

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::fabric {

namespace {

void require_inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t length) {
  if (offset > length || bytes > length - offset) {
    throw std::out_of_range(
        fmt::format("bytes [{}, {} + {}) are outside a span of {} bytes: offset + length must be at most {}", offset,
                    offset, bytes, length, length));
  }
}

}  // namespace

RemoteSpan RemoteSpan::subspan(std::uint64_t offset, std::uint64_t bytes) const {
  require_inside(offset, bytes, length);
  return {address + offset, bytes, rkey};
}

LocalSpan LocalSpan::subspan(std::uint64_t offset, std::uint64_t bytes) const {
  require_inside(offset, bytes, length);
  return {data + offset, bytes, lkey};
}

}  // namespace sidelatch::fabric
