#include "file_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <thread>

namespace sidelatch::roce {

namespace {

struct flock bytes(short type, off_t first, off_t count) {
  struct flock lock {};  // l_pid must be 0
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  return lock;
}

}  // namespace

bool try_lock_byte(int file, off_t byte) noexcept {
  struct flock lock = bytes(F_WRLCK, byte, 1);
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

// Do not use F_OFD_SETLKW: it has no time limit, and the lock's holder may be stopped.
bool lock_byte(int file, off_t byte, std::chrono::milliseconds at_most) noexcept {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  while (!try_lock_byte(file, byte)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

void unlock_byte(int file, off_t byte) noexcept {
  struct flock lock = bytes(F_UNLCK, byte, 1);
  ::fcntl(file, F_OFD_SETLK, &lock);
}

bool others_hold(int file, off_t first, off_t count) noexcept {
  struct flock lock = bytes(F_WRLCK, first, count);
  return ::fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace sidelatch::roce
