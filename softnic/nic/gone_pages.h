// Gone pages: memory that a program unmaps, protects or truncates while it is still registered.
//
//   bear_gone_pages();
//   const std::byte* gone = touch_pages({from, bytes}, [&] { std::memcpy(into, from, bytes); });
//   if (gone != nullptr) { ... the memory at `gone` cannot be touched; the rest may have been touched ... }
//
// A real NIC has pinned the pages of a region and never misses them. This one touches the program's memory in place, in
// the program's threads and its own, so the access faults (SIGSEGV; SIGBUS behind the end of a file), which would end
// the process. bear_gone_pages() installs a handler for the two signals. A fault at memory that the thread touches just
// now makes touch_pages() return. All other faults and signals go on to the handler that was there before, with its
// mask and flags; to the default action if there was none, or if a fault is ignored.
//
// A program may install a handler of its own later. The next call of bear_gone_pages() then stands in front of that
// one, too, at most kMostHandlers times. Each time it is a function of its own, so a handler that goes on to the one
// that it has found, or puts that one back, does not come round to itself.
//
// Thread-safety: any thread may call these functions.
#pragma once

#include "common/sanitizers.h"

#include <csetjmp>

#include <array>
#include <atomic>
#include <cstddef>
#include <span>

namespace sidelatch::softnic::nic {

inline constexpr int kMostHandlers = 8;

/// From now on touch_pages() survives faults. Cheap if the handler is in place: two system calls.
void bear_gone_pages() noexcept;

namespace gone_pages {

// A place to jump to, like sigjmp_buf without a mask. GCC's own needs a fifth of the time, but sanitizers must see
// jumps, and clang does not have it everywhere.
#if defined(__clang__) || SIDELATCH_IS_SANITIZED
struct Place {
  sigjmp_buf buffer;
};
// ThreadSanitizer blocks all signals in handlers, so the mask must be put back.
#define SIDELATCH_SET_PLACE(place) sigsetjmp((place).buffer, SIDELATCH_HAS_TSAN)
#define SIDELATCH_JUMP_TO(place) siglongjmp((place).buffer, 1)
#else
struct Place {
  std::array<void*, 5> buffer;  // GCC manual, "Nonlocal Gotos"
};
#define SIDELATCH_SET_PLACE(place) __builtin_setjmp((place).buffer.data())
#define SIDELATCH_JUMP_TO(place) __builtin_longjmp((place).buffer.data(), 1)
#endif

struct Touch {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  const std::byte* gone = nullptr;
  Place back;
};

struct Thread {
  Touch* touch = nullptr;  // what the thread touches now
  bool is_ready = false;
};

// Of the initial TLS, because a handler may not allocate a thread's storage. Without a constructor, so that no wrapper
// is called.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Thread thread;
extern std::atomic<bool> are_borne;

/// A thread that blocks these signals would be ended by a fault, whatever the handler.
void unblock_faults() noexcept;

}  // namespace gone_pages

/// Runs `use`, which touches no other memory of the program's than `memory`, and destroys nothing. Nullptr: all was
/// touched. Else the address that could not be, and `use` has been left there.
template <class Use>
[[nodiscard, gnu::noinline]] const std::byte* touch_pages(std::span<const std::byte> memory, const Use& use) noexcept {
  using gone_pages::thread;
  if (!gone_pages::are_borne.load(std::memory_order_relaxed)) {
    use();
    return nullptr;
  }
  if (!thread.is_ready) [[unlikely]] {
    gone_pages::unblock_faults();
  }
  gone_pages::Touch touch;  // NOLINT(cppcoreguidelines-pro-type-member-init): the place is set below
  touch.begin = memory.data();
  touch.end = memory.data() + memory.size();
  if (SIDELATCH_SET_PLACE(touch.back) != 0) {
    return touch.gone;
  }
  thread.touch = &touch;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  use();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.touch = nullptr;
  return nullptr;
}

}  // namespace sidelatch::softnic::nic
