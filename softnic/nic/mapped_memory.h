// Whether memory that was registered is still there.
#pragma once

#include <cstddef>

namespace sidelatch::softnic::nic {

/// Whether all pages of these bytes are mapped. Another thread may unmap them right after.
[[nodiscard]] bool is_mapped(const void* from, std::size_t bytes) noexcept;

}  // namespace sidelatch::softnic::nic
