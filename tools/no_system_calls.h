// From here on this thread makes no system call: one ends the process.
#pragma once

#include <atomic>
#include <cstdint>

namespace sidelatch::tools {

/// A filter of seccomp(2) for the calling thread, for as long as it lives: it may end the process by _exit(), and
/// nothing else. Any other call is not made; its number goes to `made`, and the process ends with the status 1. Throws
/// std::runtime_error if the kernel has no such filter. `made` must live as long as the process.
void forbid_system_calls(std::int32_t& made);

}  // namespace sidelatch::tools
