// Where tests find the source tree and what was built. One generated file has these paths, so that all other objects
// are the same in every clone and the compiler cache serves them.
#pragma once

#include <string>
#include <string_view>

namespace sidelatch {

/// The absolute path of a file in the source tree: in_source_tree("tests/litmus").
[[nodiscard]] std::string in_source_tree(std::string_view path);
/// The program `sidelatch` of this build.
[[nodiscard]] const char* program_path();
/// libsidelatch-verbs.so of this build.
[[nodiscard]] const char* verbs_library_path();

}  // namespace sidelatch
