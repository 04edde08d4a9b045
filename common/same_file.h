// Whether two paths lead to one file, so that writing to one of them changes what the other one has.
#pragma once

#include <filesystem>
#include <system_error>

namespace sidelatch {

/// Where a write to the path goes, as an absolute path; empty if that cannot be found out. A symbolic link may lead to
/// a file that is not there yet.
inline std::filesystem::path place_of_file(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::error_code error;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, error); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  // Absolute first: weakly_canonical() leaves the name of a new file relative, but not that of "./" and it.
  path = std::filesystem::absolute(path, error);
  return error ? std::filesystem::path{} : std::filesystem::weakly_canonical(path, error);
}

/// True if both lead to one ordinary file. Either may not be there yet. False for what is no ordinary file, /dev/null
/// or a pipe: whatever is written there overwrites nothing.
inline bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  if (a.empty() || b.empty() || (std::filesystem::exists(a, error) && !std::filesystem::is_regular_file(a, error))) {
    return false;
  }
  if (std::filesystem::equivalent(a, b, error)) {
    return true;
  }
  const std::filesystem::path place = place_of_file(a);
  return !place.empty() && place == place_of_file(b);
}

}  // namespace sidelatch
