#include "source.h"

#include <fmt/format.h>

#include <utility>

namespace sidelatch::p4 {

std::uint32_t Sources::add(std::string name, std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.erase(0, 3);
  }
  files_.push_back({std::move(name), std::move(text)});
  return static_cast<std::uint32_t>(files_.size() - 1);
}

std::string_view Sources::line(Location at) const {
  if (at.file >= files_.size()) {
    return {};
  }
  std::string_view rest = files_[at.file].text;
  for (std::uint32_t line = 1; line < at.line; ++line) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) {
      return {};
    }
    rest.remove_prefix(end + 1);
  }
  return rest.substr(0, rest.find_first_of("\r\n"));
}

std::string Sources::place(Location at) const {
  if (at.file >= files_.size() || at.line == 0) {
    return "<program>";
  }
  return fmt::format("{}:{}:{}", files_[at.file].name, at.line, at.column);
}

std::string Sources::describe(Location at, std::string_view kind, std::string_view message) const {
  std::string text = fmt::format("{}: {}: {}", place(at), kind, message);
  const std::string_view source = line(at);
  if (at.line == 0 || source.empty()) {
    return text;
  }
  std::string indent;
  for (std::size_t i = 0; i + 1 < at.column && i < source.size(); ++i) {
    indent += source[i] == '\t' ? '\t' : ' ';
  }
  return fmt::format("{}\n{}\n{}^", text, source, indent);
}

}  // namespace sidelatch::p4
