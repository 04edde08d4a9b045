// WithoutSignals: while it lives, the calling thread takes no signals, and neither do threads that it starts, ever. The
// threads of a library must not take the program's signals: the program may wait for them (sigwait(3)), and its
// handlers may call the library, of which such a thread may hold a lock. Signals that a thread's own faults raise stay
// open: the kernel ends a process that blocks them, without calling its handler.
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace sidelatch {

class WithoutSignals {
 public:
  WithoutSignals() noexcept {
    sigset_t all{};
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
      ::sigdelset(&all, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;
  ~WithoutSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace sidelatch
