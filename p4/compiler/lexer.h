// Splits P4 source text into tokens.
#pragma once

#include "source.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::p4 {

/// `wrong` is what P4 does not have: an error if it is part of the program, and none in what the preprocessor leaves
/// out.
enum class TokenKind : std::uint8_t { name, number, string, symbol, wrong, end };

struct Token {
  TokenKind kind = TokenKind::end;
  /// The characters; of a string, those between the quotes.
  std::string text;
  Location at;
  /// This token follows the one before it in the text, and nothing lies between them. Two adjacent '>' are a shift, or
  /// end two type arguments.
  bool adjacent = false;
  /// White space or a comment lies before it.
  bool spaced = false;
  /// The name of a macro that is not replaced, because it comes of this macro.
  bool is_final = false;
  /// The first of its line.
  bool starts_line = false;

  [[nodiscard]] bool is(std::string_view symbol) const { return kind == TokenKind::symbol && text == symbol; }
  [[nodiscard]] bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
};

/// The tokens of a whole file, without an end token. Comments are left out; a backslash at the end of a line joins it
/// with the next one. Throws Failure for a comment that does not end.
[[nodiscard]] std::vector<Token> tokenize(const Sources& sources, std::uint32_t file);

/// The same of other text. Every token has the place `at`.
[[nodiscard]] std::vector<Token> tokenize(std::string_view text, Location at);

/// What is wrong with a token of kind `wrong`.
[[nodiscard]] std::string wrong_token(const Token& token);

}  // namespace sidelatch::p4
