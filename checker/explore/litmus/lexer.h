// Splits a litmus file into tokens, each with its place.
//
//   Cursor cursor(text, "mp.litmus");
//   if (cursor.accept("var")) { name = cursor.word("the name of a word"); cursor.expect("="); ... }
//
// Lines matter, so each ends with a token; comments and blanks produce none. The last token is end_of_file; it cannot
// be taken, so a parser that runs on stays there. Errors are LitmusErrors of the form FILE:LINE:COLUMN.
//
// Thread-safety: one thread per Cursor. `text` must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::explore::litmus {

enum class TokenKind : std::uint8_t { word, number, symbol, end_of_line, end_of_file };

struct Token {
  TokenKind kind = TokenKind::end_of_file;
  std::string_view text;     // empty for both ends
  std::uint32_t line = 1;    // from 1
  std::uint32_t column = 1;  // in bytes, from 1
};

/// The token for a message: quoted and shortened, or "end of line", "end of file".
[[nodiscard]] std::string describe(const Token& token);

class Cursor {
 public:
  /// Cuts all of `text`. Throws LitmusError for a byte that starts no token.
  Cursor(std::string_view text, std::string_view file);

  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const;
  const Token& take();
  /// Whether the next token is this word or symbol.
  [[nodiscard]] bool at(std::string_view text) const { return !text.empty() && peek().text == text; }
  [[nodiscard]] bool at(TokenKind kind) const { return peek().kind == kind; }
  /// Takes the next token if it is this word or symbol.
  bool accept(std::string_view text);

  // Each takes a token, or throws an error that names what was expected.
  const Token& expect(std::string_view text);
  const Token& word(std::string_view what);
  /// A signed 64-bit number.
  std::int64_t number(std::string_view what);
  /// A number from `least` to `most`.
  std::uint32_t number(std::string_view what, std::uint32_t least, std::uint32_t most);
  void end_of_line();

  [[nodiscard]] std::size_t position() const { return next_; }
  void go_to(std::size_t position) { next_ = position; }
  /// Moves to the first token of the next line.
  void skip_line();
  /// Moves to the next token that is not the end of a line.
  void skip_ends();

  [[noreturn]] void fail(const Token& at, std::string_view what) const;
  /// "expected WHAT, found TOKEN", at the next token.
  [[noreturn]] void fail_expected(std::string_view what) const;

 private:
  std::string_view file_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

}  // namespace sidelatch::explore::litmus
