// Parses JSON from a saved file; errors name the file.
#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

namespace sidelatch::checker {

/// Throws std::invalid_argument if `text` is not JSON, is cut off, or holds a number that does not fit a double.
/// `advice` says what to do then.
[[nodiscard]] nlohmann::ordered_json parse_named_json(std::string_view file, std::string_view text,
                                                      std::string_view advice);

}  // namespace sidelatch::checker
