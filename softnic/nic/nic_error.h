// NicError: a call to make, change or end an object of the NIC was refused and changed nothing.
//
// The verbs layer maps the kind to an errno; what() names the value and what is allowed. Calls on the data path
// (posting, polling) never throw; they return their outcome.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace sidelatch::softnic::nic {

class NicError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    invalid,  ///< EINVAL: an argument, or the state of the object, does not allow it
    full,     ///< ENOMEM: a limit of the NIC is reached
    busy,     ///< EBUSY: another object still uses it
  };

  NicError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

}  // namespace sidelatch::softnic::nic
