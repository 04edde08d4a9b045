#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
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

namespace {

// A line as it is shown, and a caret below one of its columns. Of a long line only the part around the column; and no
// control characters, which a terminal would obey: the file may be no text.
std::string shown(std::string_view line, std::size_t column) {
  constexpr std::size_t kLongest = 200;
  const bool is_long = line.size() > kLongest;
  std::size_t from = is_long && column > kLongest / 2 ? std::min(column - kLongest / 2, line.size()) : 0;
  const auto is_within_character = [&](std::size_t at) {
    return at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0U) == 0x80U;  // of UTF-8
  };
  while (from > 0 && from + 1 < column && is_within_character(from)) {
    ++from;
  }
  std::size_t end = is_long ? std::min(from + kLongest, line.size()) : line.size();
  while (end < line.size() && end > column && is_within_character(end)) {
    --end;
  }
  constexpr std::string_view kCut = "...";
  std::string text(from > 0 ? kCut : "");
  std::string indent(text.size(), ' ');
  for (std::size_t i = from; i < end; ++i) {
    const char c = line[i];
    const bool is_control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    text += is_control && c != '\t' ? '?' : c;
    if (i + 1 < column) {
      indent += c == '\t' ? '\t' : ' ';
    }
  }
  return fmt::format("{}{}\n{}^", text, end < line.size() ? kCut : "", indent);
}

}  // namespace

std::string Sources::describe(Location at, std::string_view kind, std::string_view message) const {
  std::string text = fmt::format("{}: {}: {}", place(at), kind, message);
  const std::string_view source = line(at);
  if (at.line == 0 || source.empty()) {
    return text;
  }
  return fmt::format("{}\n{}", text, shown(source, at.column));
}

}  // namespace sidelatch::p4
