#include "mapped_memory.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace sidelatch::softnic::nic {

bool is_mapped(const void* from, std::size_t bytes) noexcept {
  constexpr std::size_t kMostPages = 256;  // of one call
  std::array<unsigned char, kMostPages> resident{};
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::uintptr_t at = reinterpret_cast<std::uintptr_t>(from) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(from) + bytes;
  while (at < end) {
    const std::uintptr_t part = std::min(end - at, kMostPages * page);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): rounded down to its page
    if (::mincore(reinterpret_cast<void*>(at), part, resident.data()) != 0) {
      return false;
    }
    at += part;
  }
  return true;
}

void load_if_mapped(std::span<std::byte> into, const std::byte* from) noexcept {
  constexpr std::size_t kWord = 8;
  constexpr std::size_t kMostBytes = 4096;
  alignas(64) std::array<std::byte, kMostBytes + 2 * kWord> words;  // NOLINT: filled by the kernel
  const std::size_t before = reinterpret_cast<std::uintptr_t>(from) % kWord;
  // From word to word, so that the kernel copies whole words. They are in the same pages.
  const std::size_t bytes = (before + into.size() + kWord - 1) / kWord * kWord;
  const iovec local{words.data(), bytes};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it is only read
  const iovec remote{const_cast<std::byte*>(from) - before, bytes};
  if (bytes <= words.size() &&
      ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes)) {
    std::memcpy(into.data(), words.data() + before, into.size());
  } else {
    std::ranges::fill(into, std::byte{0});
  }
}

}  // namespace sidelatch::softnic::nic
