#include "doorbell.h"

#include "full_fence.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace sidelatch::fabric::roce {

namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Not FUTEX_PRIVATE_FLAG: the word is shared between processes.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* at_most) noexcept {
  return ::syscall(SYS_futex, &word, operation, value, at_most, nullptr, 0);
}

}  // namespace

std::uint32_t Doorbell::lie_down() noexcept {
  // A process that was killed here has left the word odd.
  const std::uint32_t ticket = (word_.load(std::memory_order_relaxed) + 1) | 1U;
  word_.store(ticket, std::memory_order_seq_cst);
  full_fence();
  return ticket;
}

void Doorbell::sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) noexcept {
  if (at_most <= std::chrono::nanoseconds(0)) {
    return;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  timespec time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = (at_most - seconds).count();
  // It does not sleep if the word has changed since.
  futex(word_, FUTEX_WAIT, ticket, &time);
}

void Doorbell::stand_up() noexcept {
  const std::uint32_t word = word_.load(std::memory_order_relaxed);
  if (is_odd(word)) {
    word_.store(word + 1, std::memory_order_relaxed);
  }
}

void Doorbell::ring() noexcept {
  std::uint32_t word = word_.load(std::memory_order_relaxed);
  if (is_odd(word)) {
    const int error = errno;
    futex(word_, FUTEX_WAKE, INT_MAX, nullptr);
    // Now nobody else needs to; and who has not fallen asleep yet does not. A failure: it has stood up, or somebody
    // else has rung.
    word_.compare_exchange_strong(word, word + 1, std::memory_order_relaxed);
    errno = error;
  }
}

}  // namespace sidelatch::fabric::roce
