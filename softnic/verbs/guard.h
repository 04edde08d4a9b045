// The boundary to C: errors become an errno there, and no exception crosses it.
//
//   return error_of([&] { pair.modify(...); return 0; });        // for functions that return an errno, and set it
//   return result_of([&] { ... });                               // for those that only return it
//   return made([&] { return new ProtectionDomain(...); });      // for functions that return a pointer and set errno
//
// NicError: EINVAL, ENOMEM or EBUSY; VerbsError and cm::IdError: their own errno; no memory: ENOMEM; anything else:
// EIO. If SIDELATCH_SOFTNIC_EXPLAIN is set in the environment, the reason of each refusal is also printed to stderr.
//
// pthread_cancel() ends no thread in here: it would leave locks held, and unwind through functions that are noexcept.
// The calls that wait for events are cancellation points, and wait outside of these functions.
//
// Thread-safety: functions without state.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sidelatch::softnic::verbs {

/// A call was refused with this errno.
class VerbsError : public std::runtime_error {
 public:
  VerbsError(int error, const std::string& what) : std::runtime_error(what), error_(error) {}
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  int error_;
};

/// An answer that is no refusal to explain: EAGAIN, for instance.
class QuietError {
 public:
  explicit QuietError(int error) : error_(error) {}
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  int error_;
};

[[noreturn]] void refuse(int error, const std::string& what);
/// Prints "sidelatch softnic: SENTENCE" to stderr; not twice in a row.
void complain(const std::string& sentence) noexcept;
/// Prints the sentence if refusals are to be explained; returns `error`.
int explained(int error, std::string_view why) noexcept;
/// The errno of the exception that is being handled.
[[nodiscard]] int error_of_exception() noexcept;

/// While it lives, the calling thread is not cancelled.
class WithoutCancellation {
 public:
  WithoutCancellation() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  WithoutCancellation(const WithoutCancellation&) = delete;
  WithoutCancellation& operator=(const WithoutCancellation&) = delete;
  ~WithoutCancellation() { ::pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// `use` returns an errno, 0 for success. For posting and polling, which leave the variable errno as it was.
template <class Use>
[[nodiscard]] int result_of(Use use) noexcept {
  const WithoutCancellation none;
  try {
    return use();
  } catch (...) {
    return error_of_exception();
  }
}

/// The same, and sets errno after a failure. So does libibverbs, whose calls reach the kernel by ioctl(2) and write(2),
/// and programs print errno.
template <class Use>
[[nodiscard]] int error_of(Use use) noexcept {
  const int error = result_of(use);
  if (error != 0) {
    errno = error;
  }
  return error;
}

/// Returns the pointer that `make` returns; nullptr and errno if it throws.
template <class Make>
[[nodiscard]] auto made(Make make) noexcept -> decltype(make()) {
  const WithoutCancellation none;
  try {
    return make();
  } catch (...) {
    errno = error_of_exception();
    return nullptr;
  }
}

}  // namespace sidelatch::softnic::verbs
