// The names that a wire of shared memory, or a cable, may have: they become names of files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sidelatch::roce {

inline constexpr std::size_t kMostWireNameBytes = 64;
inline constexpr const char* kCableSuffix = ".cable";
inline constexpr std::size_t kMostCableNameBytes = kMostWireNameBytes - std::string_view(kCableSuffix).size();

/// Why that is no name; empty: it is one.
[[nodiscard]] std::string fault_of_wire_name(std::string_view name, std::size_t most_bytes = kMostWireNameBytes);

}  // namespace sidelatch::roce
