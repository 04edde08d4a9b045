#include "guard.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace sidelatch::explore {

namespace {

constinit thread_local Guard* closed_guard = nullptr;  // of this thread; a thread has closed one at most
struct sigaction handler_before {};

void on_fault(int signal, siginfo_t* what, void* context) {
  if (Guard::let_in(what->si_addr)) {
    return;
  }
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, what, context);
  } else if (handler_before.sa_handler == SIG_DFL || handler_before.sa_handler == SIG_IGN) {
    std::signal(signal, SIG_DFL);  // the access is tried again, and ends the process
  } else {
    handler_before.sa_handler(signal);
  }
}

// Once for the process: the handler stays, and hands on what is none of its business.
void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    if (::sigaction(SIGSEGV, &action, &handler_before) != 0) {
      throw std::runtime_error(fmt::format("the explorer cannot handle SIGSEGV: {}", std::strerror(errno)));
    }
  });
}

}  // namespace

Guard::Guard() { install_handler(); }

Guard::~Guard() { open(); }

void Guard::close(std::size_t number, std::span<std::byte> pages) noexcept {
  static_cast<void>(open(number));
  if (ranges_.size() <= number) {
    ranges_.resize(number + 1);
  }
  Range& range = ranges_[number];
  const bool is_free = closed_guard == nullptr || closed_guard == this;
  range = {pages, false, true, false};
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

bool Guard::let_in(const void* address) noexcept {
  Guard* const guard = closed_guard;
  if (guard == nullptr) {
    return false;
  }
  for (Range& range : guard->ranges_) {
    const auto* const begin = range.pages.data();
    if (range.closed && address >= begin && address < begin + range.pages.size()) {
      const int error = errno;
      range.closed = false;
      range.touched = true;
      --guard->closed_;
      const bool opened = ::mprotect(range.pages.data(), range.pages.size(), PROT_READ | PROT_WRITE) == 0;
      errno = error;
      return opened;
    }
  }
  return false;
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
