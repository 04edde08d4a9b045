// An exception's message, for tests that errors name their cause.
#pragma once

#include <exception>
#include <functional>
#include <string>

namespace sidelatch::sync {

inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace sidelatch::sync
