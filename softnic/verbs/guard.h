// The border to C: what goes wrong inside becomes an errno there, and no exception crosses.
//
//   return error_of([&] { pair.modify(...); return 0; });        // for functions that return an errno
//   return made([&] { return new ProtectionDomain(...); });      // for those that return a pointer, and set errno
//
// NicError: EINVAL, ENOMEM or EBUSY; VerbsError: its own; no memory: ENOMEM; anything else: EIO. With
// SIDELATCH_SOFTNIC_EXPLAIN set in the environment the reason of each refusal is printed to stderr, too.
//
// Thread-safety: functions without state.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>

namespace sidelatch::softnic::verbs {

/// A call was refused with this errno.
class VerbsError : public std::runtime_error {
 public:
  VerbsError(int error, const std::string& what) : std::runtime_error(what), error_(error) {}
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  int error_;
};

[[noreturn]] void refuse(int error, const std::string& what);
/// Prints "sidelatch softnic: SENTENCE" to stderr; not twice in a row.
void complain(const std::string& sentence) noexcept;
/// The errno of the exception that is being handled.
[[nodiscard]] int error_of_exception() noexcept;

/// `use` returns an errno, 0 for success.
template <class Use>
[[nodiscard]] int error_of(Use use) noexcept {
  try {
    return use();
  } catch (...) {
    return error_of_exception();
  }
}

/// `make` returns a pointer, which is passed on; nullptr and errno if it throws.
template <class Make>
[[nodiscard]] auto made(Make make) noexcept -> decltype(make()) {
  try {
    return make();
  } catch (...) {
    errno = error_of_exception();
    return nullptr;
  }
}

}  // namespace sidelatch::softnic::verbs
