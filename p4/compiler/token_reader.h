// Reading expressions, types, statements and parameters; the declarations are in parser.cpp.
#pragma once

#include "ast.h"
#include "lexer.h"

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::p4::ast {

/// How tightly a binary operator binds, from 1 on; 0: this is none.
[[nodiscard]] int operator_level(std::string_view symbol);

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens);
  virtual ~ExpressionParser() = default;
  ExpressionParser(const ExpressionParser&) = delete;
  ExpressionParser& operator=(const ExpressionParser&) = delete;

 protected:
  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const;
  const Token& next();
  [[nodiscard]] std::size_t position() const { return position_; }
  void seek(std::size_t position) { position_ = position; }
  bool take(std::string_view symbol);
  void expect(std::string_view symbol);
  Token expect_name(std::string_view what);
  /// The same, of something that is declared here: no keyword.
  Token declared_name(std::string_view what);
  /// Whether a name is that of a type decides how '(' and '<' are read. The innermost declaration counts.
  void declare_type(const std::string& name) { declare(name, true); }
  void declare_value(const std::string& name) { declare(name, false); }
  /// What is declared until its end is forgotten then.
  class NameScope {
   public:
    explicit NameScope(ExpressionParser& parser) : parser_(parser) { parser_.names_.emplace_back(); }
    ~NameScope() {
      parser_.names_.pop_back();
      parser_.forget_looks();
    }
    NameScope(const NameScope&) = delete;
    NameScope& operator=(const NameScope&) = delete;

   private:
    ExpressionParser& parser_;
  };

  Annotations annotations();
  TypePtr type();
  ExprPtr expression();
  /// An expression of a set: also a &&& b, a .. b, default, _.
  ExprPtr set_element();
  /// The right side of an initialization.
  ExprPtr initializer() { return expression(); }
  void argument_list(std::vector<ExprPtr>& arguments, std::vector<std::string>& names);
  std::vector<std::string> type_parameters();
  std::vector<Parameter> parameters();
  /// Of a control or parser with these other parameters.
  std::vector<Parameter> constructor_parameters(const std::vector<Parameter>& others);
  static void check_none_optional(const std::vector<Parameter>& list);
  StatementPtr block();
  StatementPtr statement();
  virtual DeclarationPtr statement_declaration() = 0;

 private:
  // Nesting is bounded, so that no input can exhaust the stack.
  static constexpr unsigned kDeepest = 300;
  class Deeper {
   public:
    explicit Deeper(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepest) {
        unsupported(parser_.peek().at, "nesting this deep");
      }
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    ExpressionParser& parser_;
  };
  ExprPtr conditional();
  ExprPtr binary(int level);
  ExprPtr unary();
  ExprPtr primary();
  ExprPtr postfix(ExprPtr base);
  ExprPtr braces();
  void structured_body();
  void skip_brackets(std::string_view opens, std::string_view closes, const Annotation& note);
  void declare(const std::string& name, bool is_type) {
    names_.back()[name] = is_type;
    forget_looks();
  }
  // What was seen ahead depends on what the names mean.
  void forget_looks() {
    casts_.clear();
    comparisons_.clear();
  }
  [[nodiscard]] bool cast_ahead();
  [[nodiscard]] bool is_cast();
  [[nodiscard]] bool declaration_ahead();
  bool type_arguments_of_call(std::vector<TypePtr>& arguments);
  [[nodiscard]] std::string_view binary_operator() const;
  StatementPtr switch_statement();
  void conditional_statement(Statement& first);
  StatementPtr branch();
  StatementPtr loop();
  StatementPtr without_semicolon();
  DeclarationPtr variable_without_semicolon();
  void assignment_or_call(Statement& made);
  TypePtr type_without_stack();
  [[nodiscard]] bool is_type_name(const Token& token) const;
  [[nodiscard]] bool is_global_type(const std::string& name) const;
  [[nodiscard]] bool is_declared_type(const std::string& name) const;
  [[nodiscard]] bool names_types_only(const Type& type) const;

  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  bool takes_any_ = false;  // within an annotation, where characters that P4 has not are none of its business
  unsigned depth_ = 0;
  unsigned loops_ = 0;                                              // around the statement
  std::vector<std::map<std::string, bool, std::less<>>> names_{1};  // per scope: whether it is a type
  // By position, as what is looked at ahead is read again, and looks ahead itself: without these each level of nesting
  // doubles the work.
  std::map<std::size_t, bool> casts_;  // what cast_ahead() has said
  std::set<std::size_t> comparisons_;  // where type_arguments_of_call() has found none
};

}  // namespace sidelatch::p4::ast
