#include "own_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace sidelatch::fabric::verbs {

namespace {

constexpr std::uint64_t kWordBytes = 8;

// The i-th word; the region's memory is this process's, and a region's address is that of its first byte.
std::atomic_ref<std::uint64_t> own_word(std::uint64_t address) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(static_cast<std::uintptr_t>(address)));  // NOLINT
}

void require_own_words(std::span<const exchange::SharedRegion> regions, const RemoteSpan& span, std::uint64_t stride,
                       std::uint64_t count, Access right) {
  const auto holds = [&](const exchange::SharedRegion& region) {
    const RemoteSpan& all = region.span;
    return span.rkey == all.rkey && span.address.value >= all.address.value && span.length <= all.length &&
           span.address.value - all.address.value <= all.length - span.length;
  };
  const auto region = std::ranges::find_if(regions, holds);
  if (span.address.value % kWordBytes != 0 || stride % kWordBytes != 0 || stride == 0 || count > span.length / stride ||
      region == regions.end()) {
    throw std::invalid_argument(fmt::format("{} words, {} bytes apart from {:#x} on, are not words of a shared region",
                                            count, stride, span.address.value));
  }
  if (!allows(region->access, right)) {
    throw std::invalid_argument(fmt::format("region '{}' may not be {} by others", region->name,
                                            right == Access::remote_write ? "written" : "read"));
  }
}

}  // namespace

std::vector<std::uint64_t> read_own_words(std::span<const exchange::SharedRegion> regions,
                                          const exchange::ReadWords& wanted) {
  if (wanted.count > exchange::kMostWords) {
    throw std::invalid_argument(fmt::format("{} words at once: at most {}", wanted.count, exchange::kMostWords));
  }
  return read_all_own_words(regions, wanted.span, wanted.stride, wanted.count);
}

std::vector<std::uint64_t> read_all_own_words(std::span<const exchange::SharedRegion> regions, const RemoteSpan& span,
                                              std::uint64_t stride, std::uint64_t count) {
  require_own_words(regions, span, stride, count, Access::remote_read);
  std::vector<std::uint64_t> words;
  words.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    words.push_back(own_word(span.address.value + i * stride).load());
  }
  return words;
}

void require_writable_own_words(std::span<const exchange::SharedRegion> regions, const RemoteSpan& span,
                                std::uint64_t stride, std::uint64_t count) {
  require_own_words(regions, span, stride, count, Access::remote_write);
}

void write_own_words(std::span<const exchange::SharedRegion> regions, const exchange::WriteWords& wanted) {
  require_writable_own_words(regions, wanted.span, wanted.stride, wanted.count);
  for (std::uint64_t i = 0; i < wanted.count; ++i) {
    own_word(wanted.span.address.value + i * wanted.stride).store(wanted.value);
  }
}

}  // namespace sidelatch::fabric::verbs
