#include "p4/switch/stf_value.h"

#include <sidelatch/p4/state.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace sidelatch::p4::stf {

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

U128 value(const std::string& text) {
  const std::string digits = lowered(text);
  unsigned base = 10;
  std::size_t from = 0;
  if (digits.size() > 2 && digits[0] == '0') {
    base = digits[1] == 'x' ? 16 : digits[1] == 'b' ? 2 : digits[1] == 'o' ? 8 : 10;
    from = base == 10 ? 0 : 2;
  }
  U128 made = 0;
  for (std::size_t i = from; i < digits.size(); ++i) {
    const int digit = hex_digit(digits[i]);
    if (digit < 0 || static_cast<unsigned>(digit) >= base) {
      throw ControlError("'" + text + "' is not a number");
    }
    if (made > (~U128{0} - static_cast<unsigned>(digit)) / base) {
      throw ControlError("'" + text + "' has more than 128 bits");
    }
    made = made * base + static_cast<unsigned>(digit);
  }
  if (digits.size() == from) {
    throw ControlError("a number is missing");
  }
  return made;
}

std::uint32_t number(const std::string& text) {
  const U128 made = value(text);
  if (made > ~std::uint32_t{0}) {
    throw ControlError("'" + text + "' has more than 32 bits");
  }
  return static_cast<std::uint32_t>(made);
}

namespace {

std::optional<U128> mac(const std::string& text) {
  if (text.empty() || mac_at(text, 0) != text.size()) {
    return std::nullopt;
  }
  U128 made = 0;
  for (const char c : text) {
    made = c == ':' ? made : made << 4 | static_cast<unsigned>(hex_digit(c));
  }
  return made;
}

std::optional<U128> ipv4(const std::string& text) {
  constexpr int kParts = 4;
  U128 made = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < kParts; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) {
      return std::nullopt;
    }
    std::uint8_t part = 0;
    const auto [next, error] = std::from_chars(at, end, part);
    if (error != std::errc{}) {
      return std::nullopt;
    }
    made = made << 8 | part;
    at = next;
  }
  return at == end ? std::optional(made) : std::nullopt;
}

// All its bits count, so it cannot be a value of fewer.
U128 whole_address(U128 address, unsigned bits, const std::string& text, unsigned width) {
  if (width < bits) {
    throw ControlError(fmt::format("'{}' has {} bits; its place has {}", text, bits, width));
  }
  return address;
}

std::optional<U128> truth(const std::string& text) {
  return text == "true" ? std::optional<U128>(1) : text == "false" ? std::optional<U128>(0) : std::nullopt;
}

}  // namespace

std::size_t mac_at(std::string_view text, std::size_t at) {
  constexpr std::size_t kMacLetters = 17;  // six groups of two, and a colon before each but the first
  if (text.size() < at + kMacLetters) {
    return at;
  }
  for (std::size_t i = 0; i < kMacLetters; ++i) {
    const char c = text[at + i];
    if (i % 3 == 2 ? c != ':' : hex_digit(c) < 0) {
      return at;
    }
  }
  return at + kMacLetters;
}

bool is_named_value(const std::string& text) { return mac(text) || ipv4(text) || truth(text); }

U128 data_value(const std::string& text, unsigned width) {
  if (const std::optional<U128> bit = truth(text)) {
    if (width != 1) {
      throw ControlError(fmt::format("'{}' is a value of one bit, not of {}", text, width));
    }
    return *bit;
  }
  constexpr unsigned kMacBits = 48;
  constexpr unsigned kIpv4Bits = 32;
  if (const std::optional<U128> address = mac(text)) {
    return whole_address(*address, kMacBits, text, width);
  }
  const std::optional<U128> address = ipv4(text);
  return address ? whole_address(*address, kIpv4Bits, text, width) : value(text);
}

std::size_t colon_before_value(std::string_view text) {
  constexpr std::string_view kJoins = "&.->/";  // of what two values are joined with
  for (std::size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
    std::size_t at = colon + 1;
    bool is_value = true;
    while (at < text.size() && is_value) {
      const bool may_begin = at == colon + 1 || kJoins.find(text[at - 1]) != std::string_view::npos;
      const std::size_t end = may_begin ? mac_at(text, at) : at;
      const bool is_mac = end != at && (end == text.size() || kJoins.find(text[end]) != std::string_view::npos);
      is_value = is_mac || text[at] != ':';
      at = is_mac ? end : at + 1;
    }
    if (is_value) {
      return colon;
    }
  }
  return std::string_view::npos;
}

}  // namespace sidelatch::p4::stf
