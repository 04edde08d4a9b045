// The two paths of a link: our UNIX socket and the peer's (LinkWireOptions).
//
// Thread-safety: functions without state.
#pragma once

#include <filesystem>
#include <string>

namespace sidelatch::roce {

/// Why these are no two ends of a link; empty: they are. Paths that do not exist yet are fine.
[[nodiscard]] std::string fault_of_link(const std::filesystem::path& local, const std::filesystem::path& remote);

}  // namespace sidelatch::roce
