// Threads, and what to do if the system gives none.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace sidelatch::fabric::verbs {

/// "the system gives no thread WHAT_FOR: ...", and how it may give one.
[[nodiscard]] inline std::string no_thread_text(std::string_view what_for, const std::system_error& error) {
  return fmt::format(
      "the system gives no thread {}: {}; raise the limit of threads (ulimit -u, or TasksMax= of the service), or end "
      "other programs",
      what_for, error.what());
}

/// A thread that calls `work`. Throws std::runtime_error with no_thread_text() if the system gives none.
template <class Work>
[[nodiscard]] std::thread start_thread(std::string_view what_for, Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    throw std::runtime_error(no_thread_text(what_for, error));
  }
}

}  // namespace sidelatch::fabric::verbs
