// Locks on single bytes of a file: open file description locks (fcntl(2), F_OFD_SETLK). The kernel releases them when
// their owner ends in any way. They belong to one opening of the file, not to a process, so two stations in one process
// have separate locks. There is no need to compare process numbers, which may be reused or differ between containers.
//
// A child made by fork() shares the opening, and with it the locks, until it ends or calls exec().
//
// Thread-safety: functions without state.
#pragma once

#include <sys/types.h>

#include <chrono>

namespace sidelatch::roce {

/// Tries to lock the byte; returns whether we hold it now. The file must be open for writing.
[[nodiscard]] bool try_lock_byte(int file, off_t byte) noexcept;
/// The same, but waits for at most this long.
[[nodiscard]] bool lock_byte(int file, off_t byte, std::chrono::milliseconds at_most) noexcept;
void unlock_byte(int file, off_t byte) noexcept;
/// Whether another opening of the file holds one of these bytes.
[[nodiscard]] bool others_hold(int file, off_t first, off_t count) noexcept;

}  // namespace sidelatch::roce
