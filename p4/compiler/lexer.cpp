#include "lexer.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <string_view>

namespace sidelatch::p4 {

namespace {

// Longest first. '>>' is not here: see Token::adjacent.
constexpr std::array<std::string_view, 37> kSymbols{"|+|=", "|-|=", "&&&", "|+|", "|-|", "<<=", "...", "++", "&&", "||",
                                                    "==",   "!=",   "<=",  ">=",  "<<",  "..",  "+=",  "-=", "*=", "/=",
                                                    "%=",   "&=",   "|=",  "^=",  "##",  "::",  "{#",  "#}", "+",  "-",
                                                    "*",    "/",    "%",   "&",   "|",   "^",   "~"};
constexpr std::string_view kSingles = "(){}[]<>=!?:;,.@#_";

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view text, std::uint32_t file) : text_(text), at_{file, 1, 1} {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    while (true) {
      spaced_ = false;
      skip_space();
      if (position_ >= text_.size()) {
        return tokens;
      }
      Token token = next();
      token.adjacent = !spaced_ && !tokens.empty();
      token.spaced = spaced_;
      token.starts_line = line_start_;
      line_start_ = false;
      tokens.push_back(std::move(token));
    }
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }

  void step() {
    if (text_[position_++] == '\n') {
      ++at_.line;
      at_.column = 1;
    } else {
      ++at_.column;
    }
  }

  // A backslash at the end of a line.
  [[nodiscard]] bool joins_lines() const {
    return peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'));
  }

  void join_lines() {
    while (joins_lines()) {
      while (peek() != '\n') {
        step();
      }
      step();
    }
  }

  void skip_space() {
    while (position_ < text_.size()) {
      join_lines();
      const char c = peek();
      if (position_ >= text_.size()) {
        return;
      }
      if (c == '\n') {
        line_start_ = true;
        step();
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        step();
      } else if (c == '/' && peek(1) == '/') {
        // Lines are joined before comments are taken out.
        while (position_ < text_.size() && peek() != '\n') {
          step();
          join_lines();
        }
      } else if (c == '/' && peek(1) == '*') {
        skip_comment();
      } else {
        return;
      }
      spaced_ = true;
    }
  }

  void skip_comment() {
    const Location start = at_;
    step();
    step();
    while (peek() != '*' || peek(1) != '/') {
      if (position_ >= text_.size()) {
        fail(start, "this comment does not end; '*/' is missing");
      }
      step();
    }
    step();
    step();
  }

  Token next() {
    Token token;
    token.at = at_;
    const char c = peek();
    if (begins_name(c)) {
      token.kind = TokenKind::name;
      take_while(token, continues_name);
    } else if (is_digit(c)) {
      token.kind = TokenKind::number;
      take_while(token, continues_name);
    } else if (c == '"') {
      take_string(token);
    } else {
      take_symbol(token);
    }
    return token;
  }

  template <class Condition>
  void take_while(Token& token, Condition condition) {
    while (position_ < text_.size() && condition(peek())) {
      token.text += peek();
      step();
      join_lines();
    }
  }

  // Whether the string that begins here is an argument that ends: the texts of annotations may have several lines. In
  // other places a line without its second '"' is a mistake, or not meant for the compiler (in #if 0).
  [[nodiscard]] bool may_have_lines() const {
    const std::size_t before = text_.substr(0, position_).find_last_not_of(" \t\r\n");
    return before != std::string_view::npos && text_[before] == '(' &&
           text_.find('"', position_ + 1) != std::string_view::npos;
  }

  void take_string(Token& token) {
    token.kind = TokenKind::string;
    const bool has_lines = may_have_lines();
    step();
    join_lines();
    while (peek() != '"') {
      if (position_ >= text_.size() || (peek() == '\n' && !has_lines)) {
        token.kind = TokenKind::wrong;
        token.text = '"' + token.text;
        return;
      }
      if (peek() == '\\' && position_ + 1 < text_.size()) {
        step();
      }
      token.text += peek();
      step();
      join_lines();
    }
    step();
  }

  void take_symbol(Token& token) {
    token.kind = TokenKind::symbol;
    const std::string_view rest = text_.substr(position_);
    for (const std::string_view symbol : kSymbols) {
      if (rest.starts_with(symbol)) {
        token.text = symbol;
        break;
      }
    }
    if (token.text.empty() && kSingles.find(rest.front()) != std::string_view::npos) {
      token.text = rest.front();
    }
    if (token.text.empty()) {
      token.kind = TokenKind::wrong;
      token.text = rest.front();
    }
    for (std::size_t i = 0; i < token.text.size(); ++i) {
      step();
    }
  }

  std::string_view text_;
  std::size_t position_ = 0;
  Location at_;
  bool line_start_ = true;
  bool spaced_ = false;
};

}  // namespace

std::string wrong_token(const Token& token) {
  const char first = token.text.front();
  return first == '"' ? "this string does not end on its line; '\"' is missing"
                      : fmt::format("P4 has no character {:#04x}", static_cast<unsigned char>(first));
}

std::vector<Token> tokenize(const Sources& sources, std::uint32_t file) {
  return Lexer(sources.text(file), file).run();
}

std::vector<Token> tokenize(std::string_view text, Location at) {
  std::vector<Token> tokens = Lexer(text, at.file).run();
  for (Token& token : tokens) {
    token.at = at;
  }
  return tokens;
}

}  // namespace sidelatch::p4
