// Paths as addresses of UNIX sockets, which hold 107 bytes.
//
// Thread-safety: functions without state.
#pragma once

#include "common/file_descriptor.h"

#include <sys/un.h>

#include <filesystem>

namespace sidelatch::roce {

/// Throws WireError if the path is too long.
[[nodiscard]] sockaddr_un unix_address(const std::filesystem::path& path);
/// A datagram socket that is bound to this path. An existing socket is removed; any other file is left alone. Throws
/// WireError.
[[nodiscard]] FileDescriptor bind_datagram_socket(const std::filesystem::path& path);

}  // namespace sidelatch::roce
