// The macros of the preprocessor. Source: ISO C17, 6.10.3, and for what that leaves open GNU's cpp, which the reference
// compiler calls.
#pragma once

#include "lexer.h"
#include "source.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace sidelatch::p4 {

class Macros {
 public:
  /// What #warning and a second, other definition say is appended to `warnings`, unless that is null.
  Macros(const Sources& sources, std::vector<Warning>* warnings) : sources_(sources), warnings_(warnings) {}

  /// A macro without parameters.
  void predefine(const std::string& name, std::vector<Token> body);
  /// `line`: what follows #define or #undef. `at`: the place of the directive.
  void define(const std::vector<Token>& line, Location at);
  void undefine(const std::vector<Token>& line, Location at);
  [[nodiscard]] bool defined(const std::string& name) const;

  /// Appends `text` to `out`, macros replaced. What comes of a macro has the place of its use.
  void replace(std::vector<Token> text, std::vector<Token>& out);
  /// The same for the expression of an #if, where `defined NAME` becomes 0 or 1.
  [[nodiscard]] std::vector<Token> replace_in_condition(std::vector<Token> text);

 private:
  struct Macro {
    bool has_parameters = false;
    bool is_variadic = false;  // the last parameter takes the rest of the arguments
    std::vector<std::string> parameters;
    std::vector<Token> body;
    bool disabled = false;  // its replacement is being read, so its name in there is no macro

    [[nodiscard]] std::size_t parameter(const Token& token) const;
  };
  // Tokens that are still to be read. The last context is read first, then the one below it.
  struct Context {
    std::vector<Token> tokens;
    std::size_t position = 0;
    Macro* macro = nullptr;  // whose replacement this is
  };
  struct Arguments {
    std::vector<std::vector<Token>> tokens;
    bool without_rest = false;  // nothing was given for the "..."
  };
  // Bounds recursion.
  class Deeper;

  static void read_parameters(Macro& macro, const std::vector<Token>& line, std::size_t& position, Location at);
  static void read_body(Macro& macro, const std::vector<Token>& line, std::size_t position);
  void replace_down_to(std::size_t floor, std::vector<Token>& out);
  bool read(Token& token, std::size_t floor);
  void leave_context();
  bool replaced(const Token& name, std::size_t floor, std::vector<Token>& out);
  bool parenthesis_ahead(std::size_t floor);
  void count_tokens(std::size_t count, Location at);
  [[nodiscard]] Token answer_defined(const Token& name, std::size_t floor);
  [[nodiscard]] Arguments arguments(const Macro& macro, const Token& name, std::size_t floor);
  [[nodiscard]] std::vector<Token> substituted(const Macro& macro, const Token& name, const Arguments& arguments);
  [[nodiscard]] std::vector<Token> expanded_argument(const std::vector<Token>& argument, const Token& name);
  [[nodiscard]] Token pasted(const Token& left, const Token& right) const;

  const Sources& sources_;
  std::vector<Warning>* warnings_;
  std::map<std::string, Macro> macros_;
  std::vector<Context> contexts_;
  Location use_;              // of the outermost macro that is being replaced
  bool boundary_ = false;     // the next token does not follow the last one in the text
  bool space_ahead_ = false;  // a macro that left nothing had white space before it
  bool in_condition_ = false;
  unsigned depth_ = 0;
  std::size_t replacements_ = 0;
  std::size_t made_ = 0;  // tokens of all arguments and replacements
};

/// The tokens as they were written, white space as one space.
[[nodiscard]] std::string spelling(const std::vector<Token>& tokens);

}  // namespace sidelatch::p4
