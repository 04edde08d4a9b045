#include "link_paths.h"

#include <fmt/format.h>

#include <system_error>

namespace sidelatch::roce {

namespace {

// Without links, "." and "..", as far as the path exists.
std::filesystem::path plain_form(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  std::filesystem::path plain = std::filesystem::weakly_canonical(whole, error);
  return error ? whole.lexically_normal() : plain;
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
