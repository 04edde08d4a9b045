// Locks on single bytes of a file, which the kernel gives up when their owner ends, however it ends: open file
// description locks (fcntl(2), F_OFD_SETLK). They belong to one opening of the file, not to a process, so two stations
// in one process are told apart, and no process number has to be compared, which may have been given to another process
// or mean another one in the next container.
//
// A child made by fork() shares the opening, and with it the locks, until it ends or calls exec().
//
// Thread-safety: functions without state.
#pragma once

#include <sys/types.h>

#include <chrono>

namespace sidelatch::roce {

/// Whether we hold the byte now. The file is open for writing.
[[nodiscard]] bool try_lock_byte(int file, off_t byte) noexcept;
/// The same, waiting for at most this long.
[[nodiscard]] bool lock_byte(int file, off_t byte, std::chrono::milliseconds at_most) noexcept;
void unlock_byte(int file, off_t byte) noexcept;
/// Whether another opening of the file holds one of these bytes.
[[nodiscard]] bool others_hold(int file, off_t first, off_t count) noexcept;

}  // namespace sidelatch::roce
