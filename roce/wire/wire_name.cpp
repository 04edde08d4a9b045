#include "wire_name.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::roce {

std::string fault_of_wire_name(std::string_view name, std::size_t most_bytes) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (!name.empty() && name.size() <= most_bytes && std::ranges::all_of(name, is_allowed)) {
    return {};
  }
  return fmt::format("'{}' is no name of a wire: it must be 1 to {} letters, digits, '-', '_' or '.'", name,
                     most_bytes);
}

}  // namespace sidelatch::roce
