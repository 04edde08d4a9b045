// The registry of schemes: one line each in checker/schemes.cpp. `check`, `bench` and the tests read it.
#pragma once

#include <sidelatch/sync/optimistic.h>

#include <memory>
#include <span>
#include <string_view>

namespace sidelatch::checker {

struct Scheme {
  std::string_view name;      ///< as on the command line
  bool known_broken = false;  ///< a specimen: a tear is what is expected of it
  std::unique_ptr<sync::OptimisticScheme> (*make)() = nullptr;
};

[[nodiscard]] std::span<const Scheme> schemes();

}  // namespace sidelatch::checker
