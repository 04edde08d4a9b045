// An exception's message, for tests that errors name their cause.
#pragma once

#include <exception>
#include <functional>
#include <string>

namespace sidelatch {

/// Only an exception of class `Error` is caught.
template <class Error = std::exception>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace sidelatch
