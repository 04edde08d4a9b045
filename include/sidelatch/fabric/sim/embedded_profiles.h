// The NIC profiles that are compiled into the library: profiles/NAME.toml of the source tree, one each.
//
// They let `--profile connectx5` work without any file beside the program. The text is the file's content when the
// library was built. Parse it with the profile reader, which reports errors by line and column of that text. The span
// and its strings live as long as the program, and the entries are sorted by name.
#pragma once

#include <span>
#include <string_view>

namespace sidelatch::fabric::sim {

struct EmbeddedProfile {
  std::string_view name;  ///< "connectx5" for profiles/connectx5.toml
  std::string_view toml;  ///< the whole file
};

std::span<const EmbeddedProfile> embedded_profiles();

}  // namespace sidelatch::fabric::sim
