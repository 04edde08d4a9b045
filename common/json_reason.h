// The reason in the text of an exception of nlohmann-json, without its "[json.exception.KIND.NUMBER] " in front, which
// tells a user nothing. Other texts are returned as they are.
#pragma once

#include <string_view>

namespace sidelatch {

constexpr std::string_view json_reason(std::string_view what) noexcept {
  constexpr std::string_view kLabel = "[json.exception.";
  const std::size_t end = what.find("] ");
  return what.starts_with(kLabel) && end != std::string_view::npos ? what.substr(end + 2) : what;
}

}  // namespace sidelatch
