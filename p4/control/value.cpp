#include "p4/control/value.h"

#include <sidelatch/p4/bits.h>
#include <sidelatch/p4/state.h>

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace sidelatch::p4 {

namespace {

constexpr const char* kValueForms =
    R"(18, "0x12", "0b10010", a MAC "02:00:00:00:00:01" or an IP address "10.0.0.1", "fd00::1")";

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9') {
    return static_cast<unsigned>(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return static_cast<unsigned>(c - 'a' + 10);
  }
  return c >= 'A' && c <= 'F' ? std::optional(static_cast<unsigned>(c - 'A' + 10)) : std::nullopt;
}

std::optional<U128> number_of(std::string_view text, unsigned base) {
  constexpr U128 kMost = ~U128{0};
  U128 value = 0;
  for (const char c : text) {
    const auto digit = digit_of(c);
    if (!digit || *digit >= base || value > (kMost - *digit) / base) {
      return std::nullopt;
    }
    value = value * base + *digit;
  }
  return text.empty() ? std::nullopt : std::optional(value);
}

std::optional<U128> plain_number(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) {
    return number_of(text.substr(2), 16);
  }
  if (text.starts_with("0b") || text.starts_with("0B")) {
    return number_of(text.substr(2), 2);
  }
  return number_of(text, 10);
}

std::optional<U128> mac_value(std::string_view text) {
  constexpr std::size_t kGroups = 6;
  constexpr std::size_t kStride = 3;
  if (text.size() != kGroups * kStride - 1) {
    return std::nullopt;
  }
  U128 value = 0;
  for (std::size_t at = 0; at < text.size(); at += kStride) {
    const auto group = number_of(text.substr(at, 2), 16);
    if (!group || (at + 2 < text.size() && text[at + 2] != ':')) {
      return std::nullopt;
    }
    value = value << 8 | *group;
  }
  return value;
}

std::optional<U128> ip_value(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  std::size_t count = 0;
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) {
    count = 4;
  } else if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) {
    count = bytes.size();
  }
  U128 value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value = value << 8 | bytes[i];
  }
  return count == 0 ? std::nullopt : std::optional(value);
}

[[noreturn]] void refuse(const KeyInfo& key, const std::string& text, std::string_view form) {
  throw ControlError(fmt::format("the key {} is {}: \"{}\" is not {}", key.name, name(key.kind), text, form));
}

// The parts before and after a mark.
std::optional<std::pair<std::string, std::string>> parted(const std::string& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? std::nullopt
                                 : std::optional(std::pair(text.substr(0, at), text.substr(at + mark.size())));
}

}  // namespace

U128 control_value(const std::string& text) {
  for (const auto& value : {plain_number(text), mac_value(text), ip_value(text)}) {
    if (value) {
      return *value;
    }
  }
  throw ControlError(fmt::format("\"{}\" is no value; write {}", text, kValueForms));
}

Match control_match(const KeyInfo& key, const std::string& text) {
  const U128 all = ones(key.width);
  switch (key.kind) {
    case MatchKind::exact:
      return {.value = control_value(text), .mask = all};
    case MatchKind::optional:
      return text == "*" ? Match{} : Match{.value = control_value(text), .mask = all};
    case MatchKind::ternary: {
      if (text == "*") {
        return {};
      }
      const auto parts = parted(text, "&&&");
      return parts ? Match{.value = control_value(parts->first), .mask = control_value(parts->second)}
                   : Match{.value = control_value(text), .mask = all};
    }
    case MatchKind::lpm: {
      const auto parts = parted(text, "/");
      if (!parts) {
        refuse(key, text, fmt::format("VALUE/BITS, with 0 to {} bits", key.width));
      }
      const auto bits = number_of(parts->second, 10);
      if (!bits || *bits > key.width) {
        refuse(key, text, fmt::format("VALUE/BITS, with 0 to {} bits", key.width));
      }
      return {.value = control_value(parts->first), .mask = all & ~ones(key.width - static_cast<unsigned>(*bits))};
    }
    case MatchKind::range:
      break;
  }
  const auto parts = parted(text, "..");
  if (!parts) {
    refuse(key, text, "LOW..HIGH");
  }
  return {.value = control_value(parts->first), .mask = control_value(parts->second)};
}

}  // namespace sidelatch::p4
