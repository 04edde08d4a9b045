#include "link_paths.h"

#include "common/same_file.h"

#include <fmt/format.h>

#include <system_error>

namespace sidelatch::roce {

namespace {

// What cannot be looked up is compared as it is written.
std::filesystem::path plain_form(const std::filesystem::path& path) {
  const std::filesystem::path place = place_of_file(path);
  std::error_code error;
  return place.empty() ? std::filesystem::absolute(path, error).lexically_normal() : place;
}

}  // namespace

std::string fault_of_link(const std::filesystem::path& local, const std::filesystem::path& remote) {
  if (plain_form(local) != plain_form(remote)) {
    return {};
  }
  return fmt::format("'{}' and '{}' are one socket: a link has two, ours and the peer's", local.string(),
                     remote.string());
}

}  // namespace sidelatch::roce
