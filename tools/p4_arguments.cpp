#include "p4_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace sidelatch::tools {

namespace {

bool is_macro_name(const std::string& text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

p4::CompileOptions compile_options_of(const std::vector<std::string>& folders, const std::vector<std::string>& macros) {
  p4::CompileOptions options;
  for (const std::string& folder : folders) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) {
      throw std::invalid_argument(fmt::format("-I {}: there is no such folder", folder));
    }
    options.include_folders.emplace_back(folder);
  }
  for (const std::string& macro : macros) {
    const std::size_t equals = macro.find('=');
    if (!is_macro_name(macro.substr(0, equals))) {
      throw std::invalid_argument(fmt::format(
          "-D {}: it is NAME or NAME=TEXT; a name has letters, digits and _, and begins with no digit", macro));
    }
    options.macros[macro.substr(0, equals)] = equals == std::string::npos ? "1" : macro.substr(equals + 1);
  }
  return options;
}

}  // namespace sidelatch::tools
