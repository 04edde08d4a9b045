#include "event_counter.h"

#include "guard.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace sidelatch::softnic::verbs {

EventCounter::EventCounter() : descriptor_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {
  if (descriptor_ < 0) {
    refuse(errno, "eventfd: no descriptor for events");
  }
}

EventCounter::~EventCounter() { ::close(descriptor_); }

void EventCounter::add() const noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(::write(descriptor_, &one, sizeof one));
}

bool EventCounter::take() const {
  std::uint64_t one = 0;
  return ::read(descriptor_, &one, sizeof one) == sizeof one;
}

void EventCounter::take_back() const noexcept {
  std::uint64_t one = 0;
  const iovec into{&one, sizeof one};
  // Another thread may have read it since. RWF_NOWAIT is needed because the program owns the descriptor, which may
  // block.
  static_cast<void>(::preadv2(descriptor_, &into, 1, -1, RWF_NOWAIT));
}

}  // namespace sidelatch::softnic::verbs
