#include "lexer.h"

#include "litmus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

namespace sidelatch::explore::litmus {
namespace {

// Longer symbols first, so that "==" is not read as two "=".
constexpr std::array<std::string_view, 18> kSymbols = {"==", "!=", "&&", "||", ":=", "=", "!", "{", "}",
                                                       "[",  "]",  "(",  ")",  ",",  ";", ":", ".", "@"};

// std::isalpha and the like are not used, because the result must not depend on the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool continues_word(char c) { return starts_word(c) || is_digit(c); }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
constexpr bool is_visible(char c) { return c > ' ' && c <= '~'; }

[[noreturn]] void fail_at(std::string_view file, std::uint32_t line, std::uint32_t column, std::string_view what) {
  throw LitmusError(fmt::format("{}:{}:{}: error: {}", file, line, column, what));
}

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  std::vector<Token> run() {
    while (next_ < text_.size()) {
      const char c = text_[next_];
      if (c == '\n' || c == '#') {
        end_line();
      } else if (is_blank(c)) {
        ++next_;
      } else if (follows_litmus()) {
        push(TokenKind::word, run_of(is_visible_but_no_comment));
      } else if (starts_word(c)) {
        push(TokenKind::word, run_of(continues_word));
      } else if (is_digit(c) || c == '-') {
        number();
      } else {
        symbol();
      }
    }
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::end_of_line) {
      push(TokenKind::end_of_line, 0);  // a last line without a line feed is a line
    }
    push(TokenKind::end_of_file, 0);
    return std::move(tokens_);
  }

 private:
  static bool is_visible_but_no_comment(char c) { return is_visible(c) && c != '#'; }

  // The name of a test may have characters that are not allowed in other words: 2+2w, write-read.
  [[nodiscard]] bool follows_litmus() const {
    return is_visible(text_[next_]) && !tokens_.empty() && tokens_.back().text == "litmus" &&
           (tokens_.size() == 1 || tokens_[tokens_.size() - 2].kind == TokenKind::end_of_line);
  }

  template <class Accepts>
  [[nodiscard]] std::size_t run_of(Accepts accepts) const {
    const auto rest = text_.substr(next_);
    return static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), accepts) - rest.begin());
  }

  [[nodiscard]] std::uint32_t column() const { return static_cast<std::uint32_t>(next_ - line_start_ + 1); }

  void push(TokenKind kind, std::size_t length) {
    tokens_.push_back({kind, text_.substr(next_, length), line_, column()});
    next_ += length;
  }

  // A comment counts as the end of its line, so that errors about missing text point before the comment.
  void end_line() {
    push(TokenKind::end_of_line, 0);
    next_ = std::min(text_.find('\n', next_), text_.size());
    if (next_ != text_.size()) {
      ++next_;
      ++line_;
      line_start_ = next_;
    }
  }

  void number() {
    const bool negative = text_[next_] == '-';
    ++next_;
    const std::size_t rest = run_of(continues_word);
    --next_;
    const std::string_view text = text_.substr(next_, rest + 1);
    const std::string_view digits = text.substr(negative ? 1 : 0);
    if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) {
      fail_at(file_, line_, column(), fmt::format("{} is no decimal number", describe({TokenKind::number, text})));
    }
    push(TokenKind::number, text.size());
  }

  void symbol() {
    const std::string_view rest = text_.substr(next_);
    for (const std::string_view symbol : kSymbols) {
      if (rest.starts_with(symbol)) {
        push(TokenKind::symbol, symbol.size());
        return;
      }
    }
    const char c = rest.front();
    fail_at(file_, line_, column(),
            is_visible(c) ? fmt::format("unexpected character '{}'", c)
                          : fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned char>(c)));
  }

  std::string_view text_;
  std::string_view file_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::size_t line_start_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace

std::string describe(const Token& token) {
  constexpr std::size_t kLongest = 40;
  switch (token.kind) {
    case TokenKind::end_of_line:
      return "end of line";
    case TokenKind::end_of_file:
      return "end of file";
    default:
      return token.text.size() <= kLongest ? fmt::format("'{}'", token.text)
                                           : fmt::format("'{}...'", token.text.substr(0, kLongest));
  }
}

Cursor::Cursor(std::string_view text, std::string_view file) : file_(file), tokens_(Lexer(text, file).run()) {}

const Token& Cursor::peek(std::size_t ahead) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }

const Token& Cursor::take() {
  const Token& token = peek();
  next_ = std::min(next_ + 1, tokens_.size() - 1);
  return token;
}

bool Cursor::accept(std::string_view text) {
  if (!at(text)) {
    return false;
  }
  take();
  return true;
}

const Token& Cursor::expect(std::string_view text) {
  if (!at(text)) {
    fail_expected(fmt::format("'{}'", text));
  }
  return take();
}

const Token& Cursor::word(std::string_view what) {
  if (!at(TokenKind::word)) {
    fail_expected(what);
  }
  return take();
}

std::int64_t Cursor::number(std::string_view what) {
  if (!at(TokenKind::number)) {
    fail_expected(what);
  }
  const Token& token = peek();
  std::int64_t value = 0;
  const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (result.ec != std::errc{}) {
    fail(token, fmt::format("{} is out of range: a value is from {} to {}", describe(token),
                            std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  }
  return take(), value;
}

std::uint32_t Cursor::number(std::string_view what, std::uint32_t least, std::uint32_t most) {
  const Token& token = peek();
  const std::int64_t value = number(what);
  if (value < least || value > most) {
    fail(token, fmt::format("expected {} from {} to {}, found {}", what, least, most, describe(token)));
  }
  return static_cast<std::uint32_t>(value);
}

void Cursor::end_of_line() {
  if (!at(TokenKind::end_of_line) && !at(TokenKind::end_of_file)) {
    fail_expected("the end of the line");
  }
  take();
}

void Cursor::skip_line() {
  while (!at(TokenKind::end_of_line) && !at(TokenKind::end_of_file)) {
    take();
  }
  take();
}

void Cursor::skip_ends() {
  while (at(TokenKind::end_of_line)) {
    take();
  }
}

void Cursor::fail(const Token& at, std::string_view what) const { fail_at(file_, at.line, at.column, what); }

void Cursor::fail_expected(std::string_view what) const {
  fail(peek(), fmt::format("expected {}, found {}", what, describe(peek())));
}

}  // namespace sidelatch::explore::litmus
