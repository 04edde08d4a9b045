#include "doorbell.h"

#include "common/full_fence.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace sidelatch::roce {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// No call has FUTEX_PRIVATE_FLAG, because the word is shared between processes.

void Doorbell::lie_down(Bed bed) noexcept {
  word_.store(static_cast<std::uint32_t>(bed), std::memory_order_relaxed);
  full_fence();
}

void Doorbell::sleep(std::chrono::nanoseconds at_most) noexcept {
  if (at_most <= std::chrono::nanoseconds(0)) {
    return;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  timespec time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = (at_most - seconds).count();
  // The call does not sleep if the word has changed since.
  ::syscall(SYS_futex, &word_, FUTEX_WAIT, kAsleep, &time, nullptr, 0);
}

// With a store and then FUTEX_WAKE, a sleeper would sleep for ever if its waker is killed between the two, because
// nobody else would wake it. With FUTEX_WAKE and then a store, a sleeper that falls asleep between the two would be
// missed. FUTEX_WAKE_OP does both under the lock that FUTEX_WAIT holds when it compares the word.
void Doorbell::ring() noexcept {
  const int error = errno;
  ::syscall(SYS_futex, &word_, FUTEX_WAKE_OP, INT_MAX, 0L, &word_, FUTEX_OP(FUTEX_OP_SET, kAwake, FUTEX_OP_CMP_LT, 0));
  errno = error;
}

}  // namespace sidelatch::roce
