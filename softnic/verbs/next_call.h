// Calls of the C library that this library stands in front of.
#pragma once

#include "guard.h"

#include <dlfcn.h>

#include <cerrno>

namespace sidelatch::softnic::verbs {

/// The next library that has `name`, which may be another preloaded one. `call` stays if there is none.
template <class Call>
void find_next(Call*& call, const char* name) noexcept {
  if (void* const found = ::dlsym(RTLD_NEXT, name)) {
    call = reinterpret_cast<Call*>(found);
  }
}

/// Runs `use` at the boundary to C, where a failure is -1 and errno.
template <class Use>
auto or_error(Use use) noexcept -> decltype(use()) {
  const WithoutCancellation none;
  try {
    return use();
  } catch (...) {
    errno = error_of_exception();
    return -1;
  }
}

}  // namespace sidelatch::softnic::verbs
