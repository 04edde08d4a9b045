#include "mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

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

}  // namespace sidelatch::softnic::nic
