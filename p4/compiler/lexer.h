// Splits P4 source text into tokens.
#pragma once

#include "source.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::p4 {

enum class TokenKind : std::uint8_t { name, number, string, symbol, end };

struct Token {
  TokenKind kind = TokenKind::end;
  /// The characters; of a string, those between the quotes.
  std::string text;
  Location at;
  /// Nothing lies between this token and the one before it. Two adjacent '>' are a shift, or end two type arguments.
  bool adjacent = false;
  /// The first of its line.
  bool starts_line = false;

  [[nodiscard]] bool is(std::string_view symbol) const { return kind == TokenKind::symbol && text == symbol; }
  [[nodiscard]] bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
};

/// The tokens of a whole file, without an end token. Comments are left out; a backslash at the end of a line joins it
/// with the next one. Throws Failure for characters that P4 does not have, and for what does not end.
[[nodiscard]] std::vector<Token> tokenize(const Sources& sources, std::uint32_t file);

}  // namespace sidelatch::p4
