#include "named_json.h"

#include "common/json_reason.h"

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::checker {

using nlohmann::ordered_json;

ordered_json parse_named_json(std::string_view file, std::string_view text, std::string_view advice) {
  try {
    return ordered_json::parse(text);
  } catch (const ordered_json::parse_error& error) {
    throw std::invalid_argument(
        fmt::format("{}: this is no JSON, or it is cut off after {} bytes: {}", file, error.byte, advice));
  } catch (const ordered_json::out_of_range& error) {
    throw std::invalid_argument(
        fmt::format("{}: this JSON cannot be read ({}): {}", file, json_reason(error.what()), advice));
  }
}

}  // namespace sidelatch::checker
