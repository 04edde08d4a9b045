// Reads this project's own files, for the tests about them.
#pragma once

#include "tests/layering/include_rules.h"

#include <filesystem>
#include <functional>
#include <vector>

namespace sidelatch::layering {

/// All files below `root` that `wanted` accepts (given the path from `root`), sorted by path. Skips the build folder
/// and hidden folders other than .ci.
std::vector<SourceFile> read_tree(const std::filesystem::path& root,
                                  const std::function<bool(const std::filesystem::path&)>& wanted);

}  // namespace sidelatch::layering
