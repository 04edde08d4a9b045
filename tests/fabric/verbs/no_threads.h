// While a NoThreads lives, the system gives no thread: each would get a stack as large as the address space.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <stdexcept>

namespace sidelatch::fabric::verbs {

class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t impossible{};
    if (::pthread_getattr_default_np(&before_) != 0 || ::pthread_attr_init(&impossible) != 0 ||
        ::pthread_attr_setstacksize(&impossible, std::size_t{1} << 47) != 0 ||
        ::pthread_setattr_default_np(&impossible) != 0) {
      throw std::runtime_error("threads cannot be given another stack");
    }
    ::pthread_attr_destroy(&impossible);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

}  // namespace sidelatch::fabric::verbs
