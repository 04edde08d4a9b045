// Numbers of queue pairs and of packets (PSNs) have 24 bits.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace sidelatch {

/// Throws std::invalid_argument that names `what` and its value if it has more.
inline void check_24_bits(std::string_view what, std::uint32_t number) {
  if (number >= 1U << 24) {
    throw std::invalid_argument(fmt::format("{} {:#x}: it has 24 bits", what, number));
  }
}

}  // namespace sidelatch
