// The declarations that every program for v1model may include.
#pragma once

#include <optional>
#include <string_view>

namespace sidelatch::p4 {

/// The text of "core.p4" or "v1model.p4".
[[nodiscard]] std::optional<std::string_view> builtin_source(std::string_view file);

}  // namespace sidelatch::p4
