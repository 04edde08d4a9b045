// Specimens: schemes that are known to be wrong, for testing checkers. Nobody may use them for data.
//
//   auto naive = make_specimen("broken/naive");
//
// Each has a file in sync/broken/ that names who relied on the scheme and which rule breaks it.
#pragma once

#include <sidelatch/sync/scheme.h>

#include <memory>
#include <string_view>

namespace sidelatch::sync {

/// The specimen of that name. Throws std::invalid_argument that lists the names.
[[nodiscard]] std::unique_ptr<Scheme> make_specimen(std::string_view name);

}  // namespace sidelatch::sync
