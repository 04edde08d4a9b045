// A result as the text that is printed or saved: text_of(json) + "\n".
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace sidelatch::tools {

/// Bytes that are not UTF-8 become a question mark in a box. A file's name may hold such bytes, and nlohmann-json would
/// refuse the whole result for them.
[[nodiscard]] inline std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace sidelatch::tools
