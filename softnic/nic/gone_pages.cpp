#include "gone_pages.h"

#include <pthread.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

// The C library's second name. Others stand in front of the first one: UCX's swallows handlers for faults.
extern "C" int __sigaction(int signal, const struct sigaction* action, struct sigaction* before) noexcept;  // NOLINT

namespace sidelatch::softnic::nic {

namespace gone_pages {

constinit thread_local Thread thread;
constinit std::atomic<bool> are_borne = false;

}  // namespace gone_pages

namespace {

using gone_pages::thread;

constexpr std::array kSignals{SIGSEGV, SIGBUS};

using Handler = void (*)(int, siginfo_t*, void*);

struct Before {
  struct sigaction action {};
  std::atomic<bool> is_spent = false;  // SA_RESETHAND: it has been called
};
// By signal, then in the order of installation. Written before the handler is in place, and never again.
constinit std::array<std::array<Before, kMostHandlers>, kSignals.size()> handlers_before;
constinit std::array<std::atomic<int>, kSignals.size()> handlers_used;

// ThreadSanitizer must see the handler, because it runs with the sanitizer's state of its thread.
int set_action(int signal, const struct sigaction* action, struct sigaction* before) noexcept {
#if SIDELATCH_HAS_TSAN
  return ::sigaction(signal, action, before);
#else
  return ::__sigaction(signal, action, before);
#endif
}

bool is_fault(const siginfo_t& info) noexcept { return info.si_code > 0; }  // else somebody has sent the signal

// When this handler returns, a fault happens again.
void die(int signal, const siginfo_t& info) noexcept {
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  set_action(signal, &by_default, nullptr);
  if (!is_fault(info)) {
    static_cast<void>(::pthread_kill(::pthread_self(), signal));
  }
}

void pass_on(Before& before, int signal, siginfo_t* info, void* context) noexcept {
  const struct sigaction& action = before.action;
  const bool is_once = (static_cast<unsigned>(action.sa_flags) & SA_RESETHAND) != 0;
  const bool is_default = action.sa_handler == SIG_DFL || (is_once && before.is_spent.exchange(true));
  if (action.sa_handler == SIG_IGN && !is_default && !is_fault(*info)) {
    return;
  }
  if (is_default || action.sa_handler == SIG_IGN) {
    die(signal, *info);
    return;
  }
  // As if the kernel had called it. Its return puts the thread's mask back.
  sigset_t mask = action.sa_mask;
  if ((static_cast<unsigned>(action.sa_flags) & SA_NODEFER) == 0) {
    ::sigaddset(&mask, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  if ((static_cast<unsigned>(action.sa_flags) & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
}

template <int Number>
void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  gone_pages::Touch* const touch = thread.touch;
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  if (touch != nullptr && is_fault(*info) && at >= touch->begin && at < touch->end) {
    thread.touch = nullptr;
    touch->gone = at;
    SIDELATCH_JUMP_TO(touch->back);  // the mask is as it was: nothing is blocked here
  }
  pass_on(handlers_before[signal == kSignals[0] ? 0 : 1][Number], signal, info, context);
}

template <int... Numbers>
constexpr std::array<Handler, kMostHandlers> make_handlers(std::integer_sequence<int, Numbers...> /*all*/) {
  return {on_fault<Numbers>...};
}
constexpr std::array kHandlers = make_handlers(std::make_integer_sequence<int, kMostHandlers>());

bool is_ours(const struct sigaction& action) noexcept {
  bool is = false;
  for (const Handler handler : kHandlers) {
    is = is || ((static_cast<unsigned>(action.sa_flags) & SA_SIGINFO) != 0 && action.sa_sigaction == handler);
  }
  return is;
}

void stand_in_front(std::size_t which) noexcept {
  struct sigaction present {};
  if (set_action(kSignals[which], nullptr, &present) != 0 || is_ours(present)) {
    return;
  }
  const int number = handlers_used[which].fetch_add(1, std::memory_order_relaxed);
  if (number >= kMostHandlers) {
    handlers_used[which].store(kMostHandlers, std::memory_order_relaxed);
    return;
  }
  handlers_before[which][static_cast<std::size_t>(number)].action = present;
  struct sigaction ours {};
  ours.sa_sigaction = kHandlers[static_cast<std::size_t>(number)];
  // Nothing is blocked in the handler, so that it may be left by a jump.
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  set_action(kSignals[which], &ours, nullptr);
}

}  // namespace

void gone_pages::unblock_faults() noexcept {
  sigset_t faults{};
  ::sigemptyset(&faults);
  for (const int signal : kSignals) {
    ::sigaddset(&faults, signal);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  thread.is_ready = true;
}

void bear_gone_pages() noexcept {
  const int error = errno;
  for (std::size_t which = 0; which < kSignals.size(); ++which) {
    stand_in_front(which);
  }
  gone_pages::are_borne.store(true, std::memory_order_relaxed);
  errno = error;
}

}  // namespace sidelatch::softnic::nic
