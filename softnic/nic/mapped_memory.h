// Memory that was registered, and is perhaps not there any more.
#pragma once

#include <cstddef>
#include <span>

namespace sidelatch::softnic::nic {

/// Whether all pages of these bytes are mapped. Another thread may unmap them right after.
[[nodiscard]] bool is_mapped(const void* from, std::size_t bytes) noexcept;

/// As load_shared(), for at most a packet's payload. The bytes are zero if some of them are not mapped, also if another
/// thread unmaps them meanwhile. Slower: a system call.
void load_if_mapped(std::span<std::byte> into, const std::byte* from) noexcept;

}  // namespace sidelatch::softnic::nic
