#include "arena.h"

#include "word_hash.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace sidelatch::explore {

Arena::Arena() {
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(fmt::format("cannot map {} bytes for an exploration: {}", kBytes, std::strerror(errno)));
  }
  base_ = static_cast<std::byte*>(memory);
}

Arena::~Arena() { ::munmap(base_, kBytes); }

std::span<std::byte> Arena::pages_of(std::span<const std::byte> bytes) const noexcept {
  const auto begin = static_cast<std::uint64_t>(bytes.data() - base_);
  const std::uint64_t first = begin / kPage * kPage;
  const std::uint64_t end = (begin + bytes.size() + kPage - 1) / kPage * kPage;
  return {base_ + first, std::min(end, kBytes) - first};
}

std::byte* Arena::take(std::uint64_t bytes) {
  if (bytes > kBytes - used_) {
    throw std::length_error(
        fmt::format("the program registers more than {} MiB of memory in one execution; {} bytes "
                    "more were asked for",
                    kBytes >> 20, bytes));
  }
  std::byte* const memory = base_ + used_;
  taken_.push_back({used_, bytes});
  used_ += std::min((bytes + kPage - 1) / kPage * kPage, kBytes - used_);
  return memory;
}

void Arena::reset() noexcept {
  for (const Taken& taken : taken_) {
    std::memset(base_ + taken.offset, 0, taken.bytes);
  }
  taken_.clear();
  used_ = 0;
}

std::uint64_t Arena::hash() const noexcept {
  std::uint64_t hash = taken_.size();
  for (const Taken& taken : taken_) {
    hash = mixed(hash, std::span<const std::byte>(base_ + taken.offset, taken.bytes));
  }
  return hash;
}
}  // namespace sidelatch::explore
