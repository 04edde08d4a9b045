// What a probe noted beside its verdict, by name.
#pragma once

#include <sidelatch/checker/observation.h>

#include <cstdint>
#include <map>
#include <string>

namespace sidelatch::checker {

inline std::uint64_t detail(const Observation& seen, const std::string& key) {
  const std::map<std::string, std::uint64_t> all(seen.detail.begin(), seen.detail.end());
  return all.at(key);
}

}  // namespace sidelatch::checker
