#include "guard.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace sidelatch::explore {

namespace {

constinit thread_local Guard* closed_guard = nullptr;  // of this thread; a thread has closed one at most
struct sigaction fault_handler_before {};
struct sigaction trap_handler_before {};

// One instruction may touch so many bytes from the address on that its fault names.
constexpr std::size_t kMostOfAnInstruction = 64;
constexpr std::uint32_t kMostEntries = 10'000;  // a copy may take one for each byte

#if defined(__x86_64__)
constexpr bool kHasTraps = true;
void trap_behind_instruction(void* context, bool trap) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  flags = trap ? flags | kTrapFlag : flags & ~kTrapFlag;
}
#else
constexpr bool kHasTraps = false;
void trap_behind_instruction(void* /*context*/, bool /*trap*/) {}
#endif

void hand_on(const struct sigaction& before, int signal, siginfo_t* what, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, what, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    std::signal(signal, SIG_DFL);
    if (signal != SIGSEGV) {  // else the access is tried again, and ends the process
      static_cast<void>(std::raise(signal));
    }
  } else {
    before.sa_handler(signal);
  }
}

void on_fault(int signal, siginfo_t* what, void* context) {
  switch (Guard::let_in(what->si_addr)) {
    case Guard::Entry::none:
      hand_on(fault_handler_before, signal, what, context);
      break;
    case Guard::Entry::for_instruction:
      trap_behind_instruction(context, true);
      break;
    case Guard::Entry::open:
      break;
  }
}

void on_trap(int signal, siginfo_t* what, void* context) {
  if (Guard::lock_up()) {
    trap_behind_instruction(context, false);
  } else {
    hand_on(trap_handler_before, signal, what, context);
  }
}

void install(int signal, void (*handler)(int, siginfo_t*, void*), struct sigaction& before) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (::sigaction(signal, &action, &before) != 0) {
    throw std::runtime_error(
        fmt::format("the explorer cannot handle {}: {}", ::strsignal(signal), std::strerror(errno)));
  }
}

// Once for the process: the handlers stay, and hand on what is none of their business.
void install_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    install(SIGSEGV, on_fault, fault_handler_before);
    if (kHasTraps) {
      install(SIGTRAP, on_trap, trap_handler_before);
    }
  });
}

}  // namespace

Guard::Guard() { install_handlers(); }

Guard::~Guard() { open(); }

void Guard::close(std::size_t number, std::span<std::byte> pages, std::span<const std::byte> bytes) noexcept {
  static_cast<void>(open(number));
  if (rests_) {
    return;
  }
  if (ranges_.size() <= number) {
    ranges_.resize(number + 1);
  }
  Range& range = ranges_[number];
  const bool is_free = closed_guard == nullptr || closed_guard == this;
  range = {.pages = pages, .bytes = bytes, .touched = true};
  if (is_free && ::mprotect(pages.data(), pages.size(), PROT_NONE) == 0) {
    range.closed = true;
    range.touched = false;
    ++closed_;
    closed_guard = this;
  }
}

bool Guard::open(std::size_t number) noexcept {
  if (number >= ranges_.size()) {
    return false;
  }
  Range& range = ranges_[number];
  if (range.closed) {
    ::mprotect(range.pages.data(), range.pages.size(), PROT_READ | PROT_WRITE);
    range.closed = false;
    --closed_;
  }
  if (closed_ == 0 && closed_guard == this) {
    closed_guard = nullptr;
  }
  const bool touched = range.touched;
  range.touched = false;
  return touched;
}

void Guard::open() noexcept {
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    static_cast<void>(open(i));
  }
}

Guard::Entry Guard::let_in(const void* address) noexcept {
  Guard* const guard = closed_guard;
  if (guard == nullptr) {
    return Entry::none;
  }
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (Range& range : guard->ranges_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(range.pages.data());
    if (!range.closed || at < begin || at >= begin + range.pages.size()) {
      continue;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(range.bytes.data());
    const bool may_be_meant = at + kMostOfAnInstruction > first && at < first + range.bytes.size();
    const bool counts = !kHasTraps || may_be_meant || ++range.entries > kMostEntries;
    const int error = errno;
    if (counts) {
      range.closed = false;
      range.touched = true;
      --guard->closed_;
    } else {
      range.lets_in = true;
    }
    const bool opened = ::mprotect(range.pages.data(), range.pages.size(), PROT_READ | PROT_WRITE) == 0;
    errno = error;
    return !opened ? Entry::none : counts ? Entry::open : Entry::for_instruction;
  }
  return Entry::none;
}

bool Guard::lock_up() noexcept {
  Guard* const guard = closed_guard;
  bool any = false;
  const int error = errno;
  for (std::size_t i = 0; guard != nullptr && i < guard->ranges_.size(); ++i) {
    Range& range = guard->ranges_[i];
    if (range.lets_in) {
      any = true;
      range.lets_in = false;
      ::mprotect(range.pages.data(), range.pages.size(), PROT_NONE);
    }
  }
  errno = error;
  return any;
}

Guard::Pause::Pause(Guard& guard) noexcept : guard_(guard.closed_ == 0 ? nullptr : &guard) {
  if (guard_ == nullptr) {
    return;
  }
  for (Range& range : guard_->ranges_) {
    if (range.closed) {
      ::mprotect(range.pages.data(), range.pages.size(), PROT_READ | PROT_WRITE);
      range.closed = false;
      range.paused = true;
    }
  }
}

Guard::Pause::~Pause() {
  if (guard_ == nullptr) {
    return;
  }
  for (Range& range : guard_->ranges_) {
    if (range.paused) {
      ::mprotect(range.pages.data(), range.pages.size(), PROT_NONE);
      range.closed = true;
      range.paused = false;
    }
  }
}

}  // namespace sidelatch::explore
