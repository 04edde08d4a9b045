#include "token_reader.h"

#include "keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace sidelatch::p4::ast {

namespace {

constexpr std::array<std::string_view, 8> kBaseTypes{"bit",   "int",    "varbit", "bool",
                                                     "error", "string", "void",   "tuple"};

struct Level {
  std::string_view symbol;
  int level;
};
// The specification's grammar: & ^ | bind tighter than comparisons.
constexpr std::array<Level, 23> kLevels{{{"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 4},   {">", 4},
                                         {"<=", 4}, {">=", 4}, {"|", 5},  {"^", 6},  {"&", 7},   {"<<", 8},
                                         {">>", 8}, {"++", 9}, {"+", 9},  {"-", 9},  {"|+|", 9}, {"|-|", 9},
                                         {"*", 10}, {"/", 10}, {"%", 10}, {"?", -1}, {":", -1}}};

ExprPtr make(ExprKind kind, Location at) {
  auto made = std::make_shared<Expr>();
  made->kind = kind;
  made->at = at;
  return made;
}

}  // namespace

int operator_level(std::string_view symbol) {
  const auto found =
      std::find_if(kLevels.begin(), kLevels.end(), [&](const Level& one) { return one.symbol == symbol; });
  return found == kLevels.end() ? 0 : std::max(0, found->level);
}

ExpressionParser::ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  if (tokens_.empty() || tokens_.back().kind != TokenKind::end) {
    tokens_.emplace_back();
  }
}

const Token& ExpressionParser::peek(std::size_t ahead) const {
  const Token& token = position_ + ahead < tokens_.size() ? tokens_[position_ + ahead] : tokens_.back();
  if (token.kind == TokenKind::wrong && !takes_any_) {
    fail(token.at, wrong_token(token));
  }
  return token;
}

// Any tokens, in balanced brackets, up to the one that closes the first.
void ExpressionParser::skip_brackets(std::string_view opens, std::string_view closes, const Annotation& note) {
  takes_any_ = true;
  int depth = 0;
  do {
    depth += peek().is(opens) ? 1 : peek().is(closes) ? -1 : 0;
    if (peek().kind == TokenKind::end) {
      fail(note.at, fmt::format("'{}' is missing after this annotation", closes));
    }
    next();
  } while (depth > 0);
  takes_any_ = false;
}

const Token& ExpressionParser::next() {
  const Token& token = peek();
  if (position_ + 1 < tokens_.size()) {
    ++position_;
  }
  return token;
}

bool ExpressionParser::take(std::string_view symbol) {
  if (!peek().is(symbol)) {
    return false;
  }
  next();
  return true;
}

void ExpressionParser::expect(std::string_view symbol) {
  if (!take(symbol)) {
    const std::string found = peek().kind == TokenKind::end ? "the end of the file" : "'" + peek().text + "'";
    fail(peek().at, "expected '" + std::string(symbol) + "', found " + found);
  }
}

Token ExpressionParser::expect_name(std::string_view what) {
  if (peek().kind != TokenKind::name) {
    const std::string found = peek().kind == TokenKind::end ? "the end of the file" : "'" + peek().text + "'";
    fail(peek().at, "expected " + std::string(what) + ", found " + found);
  }
  return next();
}

Token ExpressionParser::declared_name(std::string_view what) {
  if (peek().kind == TokenKind::name && is_keyword(peek().text)) {
    fail(peek().at, "expected " + std::string(what) + ", found the keyword '" + peek().text + "'");
  }
  return expect_name(what);
}

bool ExpressionParser::is_type_name(const Token& token) const {
  if (token.kind != TokenKind::name) {
    return false;
  }
  for (const std::string_view base : kBaseTypes) {
    if (token.text == base) {
      return true;
    }
  }
  return is_declared_type(token.text);
}

// The program's own, which `.` names.
bool ExpressionParser::is_global_type(const std::string& name) const {
  const auto found = names_.front().find(name);
  return found != names_.front().end() && found->second;
}

bool ExpressionParser::is_declared_type(const std::string& name) const {
  for (std::size_t i = names_.size(); i-- > 0;) {
    if (const auto found = names_[i].find(name); found != names_[i].end()) {
      return found->second;
    }
  }
  return false;
}

// Else what looks like a list of type arguments is two comparisons: f(x < y, z > (w)).
bool ExpressionParser::names_types_only(const Type& type) const {
  return (type.kind != TypeKind::name || (type.global ? is_global_type(type.name) : is_declared_type(type.name))) &&
         std::all_of(type.arguments.begin(), type.arguments.end(),
                     [this](const TypePtr& argument) { return names_types_only(*argument); });
}

// @NOTE[A, B] or @NOTE[a = A, b = B]. Source: the P4_16 specification, "Bodies of Structured Annotations".
void ExpressionParser::structured_body() {
  const Location at = next().at;
  std::set<std::string> keys;
  bool has_values = false;
  while (!take("]")) {
    if (peek().kind == TokenKind::name && peek(1).is("=")) {
      const Token key = next();
      next();
      if (!keys.insert(key.text).second) {
        fail(key.at, "'" + key.text + "' is there twice");
      }
    } else {
      has_values = true;
    }
    if (has_values && !keys.empty()) {
      fail(at, "either all parts of an annotation in brackets have names or none");
    }
    static_cast<void>(expression());
    if (!peek().is("]")) {
      expect(",");
    }
  }
}

namespace {

void check_new_annotation(const Annotation& note, const Annotations& others) {
  const bool is_single = note.is_structured || note.name == "name" || note.name == "hidden";
  for (const Annotation& other : others) {
    if (other.name == note.name && (is_single || other.is_structured)) {
      fail(note.at, "@" + note.name + " is there twice");
    }
  }
}

}  // namespace

Annotations ExpressionParser::annotations() {
  Annotations list;
  while (peek().is("@")) {
    next();
    Annotation note;
    const Token name = expect_name("the name of an annotation");
    note.name = name.text;
    note.at = name.at;
    if (note.name == "pragma") {  // @pragma NAME and any tokens, up to the end of the line
      takes_any_ = true;
      while (peek().kind != TokenKind::end && !peek().starts_line) {
        next();
      }
      takes_any_ = false;
    } else if (peek().is("(")) {
      if (note.name == "name" || note.name == "field_list" || note.name == "priority") {
        std::vector<std::string> names;
        argument_list(note.arguments, names);
        if (note.name == "name" && (note.arguments.size() != 1 || note.arguments[0]->kind != ExprKind::string)) {
          fail(note.at, "@name needs one string");
        }
      } else {
        skip_brackets("(", ")", note);
      }
    } else if (peek().is("[")) {
      structured_body();
      note.is_structured = true;
    } else if (note.name == "name") {
      fail(note.at, "@name needs one string");
    }
    check_new_annotation(note, list);
    list.push_back(std::move(note));
  }
  return list;
}

TypePtr ExpressionParser::type() {
  const Deeper deeper(*this);
  TypePtr made = type_without_stack();
  while (peek().is("[")) {
    auto stack = std::make_shared<Type>();
    stack->kind = TypeKind::stack;
    stack->at = next().at;
    stack->arguments.push_back(std::move(made));
    stack->width = expression();
    expect("]");
    made = std::move(stack);
  }
  return made;
}

TypePtr ExpressionParser::type_without_stack() {
  auto made = std::make_shared<Type>();
  made->global = take(".");
  const Token token = expect_name("a type");
  made->at = token.at;
  if (!made->global && (token.text == "bit" || token.text == "int" || token.text == "varbit")) {
    const bool sized = take("<");
    made->kind = token.text == "bit"   ? TypeKind::bits
                 : token.text == "int" ? (sized ? TypeKind::integer : TypeKind::any_integer)
                                       : TypeKind::varbit;
    if (sized) {
      if (peek().kind != TokenKind::number && !peek().is("(")) {
        fail(peek().at, "a width is a number, or an expression in parentheses: bit<(N)>");
      }
      made->width = primary();
      expect(">");
    }
    return made;
  }
  made->kind = made->global             ? TypeKind::name
               : token.text == "bool"   ? TypeKind::boolean
               : token.text == "error"  ? TypeKind::error
               : token.text == "string" ? TypeKind::string
               : token.text == "void"   ? TypeKind::none
               : token.text == "_"      ? TypeKind::any
               : token.text == "tuple"  ? TypeKind::tuple
                                        : TypeKind::name;
  made->name = token.text;
  if (made->kind == TypeKind::tuple || (made->kind == TypeKind::name && peek().is("<"))) {
    expect("<");
    while (!take(">")) {
      made->arguments.push_back(type());
      if (!peek().is(">")) {
        expect(",");
      }
    }
  }
  return made;
}

ExprPtr ExpressionParser::expression() {
  const Deeper deeper(*this);
  return conditional();
}

ExprPtr ExpressionParser::set_element() {
  if (peek().is_name("default")) {
    return make(ExprKind::fallback, next().at);
  }
  if (peek().is_name("_")) {
    return make(ExprKind::any, next().at);
  }
  ExprPtr left = expression();
  if (peek().is("&&&") || peek().is("..")) {
    const Token op = next();
    auto made = make(op.is("&&&") ? ExprKind::mask : ExprKind::range, op.at);
    made->operands = {std::move(left), expression()};
    return made;
  }
  return left;
}

ExprPtr ExpressionParser::conditional() {
  ExprPtr condition = binary(0);
  if (!peek().is("?")) {
    return condition;
  }
  auto made = make(ExprKind::conditional, next().at);
  ExprPtr yes = expression();
  expect(":");
  ExprPtr no = expression();
  made->operands = {std::move(condition), std::move(yes), std::move(no)};
  return made;
}

std::string_view ExpressionParser::binary_operator() const {
  const Token& token = peek();
  if (token.kind != TokenKind::symbol) {
    return {};
  }
  if (token.is(">") && peek(1).is(">") && peek(1).adjacent) {
    return ">>";
  }
  for (const Level& one : kLevels) {
    if (one.symbol == token.text && one.level > 0) {
      return one.symbol;
    }
  }
  return {};
}

ExprPtr ExpressionParser::binary(int level) {
  ExprPtr left = unary();
  unsigned length = 0;
  while (true) {
    const std::string_view symbol = binary_operator();
    const int found = operator_level(symbol);
    if (found <= level) {
      return left;
    }
    if (symbol == "+" && peek(1).is(":") && peek(1).adjacent) {
      return left;  // a slice [LOW +: WIDTH]
    }
    if (++length > kDeepest) {  // each operator puts what is left of it one level deeper
      unsupported(peek().at, "nesting this deep");
    }
    auto made = make(ExprKind::binary, next().at);
    if (symbol == ">>") {
      next();
    }
    made->text = symbol;
    const Deeper deeper(*this);
    ExprPtr right = binary(found);
    if (symbol == "++" && left->kind == ExprKind::string && right->kind == ExprKind::string) {
      left->text += right->text;  // also where no value is computed, as in @name
      continue;
    }
    made->operands = {std::move(left), std::move(right)};
    left = std::move(made);
  }
}

bool ExpressionParser::cast_ahead() {
  const std::size_t at = position_;
  if (const auto known = casts_.find(at); known != casts_.end()) {
    return known->second;
  }
  const bool result = is_cast();
  casts_[at] = result;
  return result;
}

// '(' TYPE ')' EXPRESSION
bool ExpressionParser::is_cast() {
  const Token& first = peek(1);
  // No declaration says that `list` is a type.
  const bool is_list = first.is_name("list") && peek(2).is("<");
  const bool is_global = first.is(".");
  if (is_global ? !is_global_type(peek(2).text) : !is_type_name(first) && !is_list) {
    return false;
  }
  const std::size_t start = position_;
  next();
  bool result = false;
  try {
    static_cast<void>(type());
    result = take(")");
  } catch (const Failure&) {
    result = false;
  }
  if (result && (is_global || is_declared_type(first.text))) {
    // (name) followed by what cannot begin an operand is the value of a variable.
    const Token& after = peek();
    result = after.kind == TokenKind::name || after.kind == TokenKind::number || after.is("(") || after.is("~") ||
             after.is("!") || after.is("-") || after.is("+") || after.is("{") || after.is("{#") || after.is(".");
  }
  position_ = start;
  return result;
}

ExprPtr ExpressionParser::unary() {
  const Deeper deeper(*this);
  const Token& token = peek();
  if (token.is("!") || token.is("~") || token.is("-") || token.is("+")) {
    auto made = make(ExprKind::unary, token.at);
    made->text = next().text;
    made->operands.push_back(unary());
    return made;
  }
  if (token.is("(") && cast_ahead()) {
    auto made = make(ExprKind::cast, token.at);
    next();
    made->type = type();
    expect(")");
    made->operands.push_back(unary());
    return made;
  }
  return postfix(primary());
}

ExprPtr ExpressionParser::braces() {
  auto made = make(ExprKind::list, peek().at);
  expect("{");
  const bool named = peek().kind == TokenKind::name && peek(1).is("=");
  if (named) {
    made->kind = ExprKind::fields;
  }
  while (!take("}")) {
    if (take("...")) {  // what is left out has the default value of its type
      made->text = ", ...";
      take(",");
      expect("}");
      break;
    }
    if (named) {
      made->names.push_back(expect_name("the name of a field").text);
      expect("=");
    }
    made->operands.push_back(expression());
    if (!peek().is("}")) {
      expect(",");
    }
  }
  return made;
}

ExprPtr ExpressionParser::primary() {
  const Token& token = peek();
  if (token.kind == TokenKind::number) {
    auto made = make(ExprKind::number, token.at);
    made->text = token.text;
    made->literal = parse_literal(token.text, token.at);
    next();
    return made;
  }
  if (token.kind == TokenKind::string) {
    auto made = make(ExprKind::string, token.at);
    made->text = next().text;
    return made;
  }
  if (token.is("(")) {
    next();
    ExprPtr inside = expression();
    expect(")");
    return inside;
  }
  if (token.is("{")) {
    return braces();
  }
  if (token.is("{#")) {
    auto made = make(ExprKind::invalid, next().at);
    expect("}");
    return made;
  }
  if (token.is("...")) {
    auto made = make(ExprKind::list, next().at);
    made->text = "...";
    return made;
  }
  if (token.is_name("true") || token.is_name("false")) {
    auto made = make(ExprKind::boolean, token.at);
    made->text = next().text;
    return made;
  }
  if (token.is_name("this")) {
    unsupported(token.at, "this");
  }
  if (token.is_name("_")) {
    return make(ExprKind::any, next().at);
  }
  if (token.is_name("default")) {
    return make(ExprKind::fallback, next().at);
  }
  const bool global = token.is(".");
  if (!global && token.kind == TokenKind::name && token.text != "error" && is_type_name(token) &&
      !is_declared_type(token.text)) {
    auto made = make(ExprKind::type, token.at);
    made->type = type();
    return made;
  }
  if (global) {
    next();
  }
  auto made = make(ExprKind::name, peek().at);
  const Token name = expect_name("an expression");
  if (is_keyword(name.text) && name.text != "error") {
    fail(name.at, "expected an expression, found '" + name.text + "'");
  }
  made->text = name.text;
  made->global = global;
  return made;
}

// NAME<TYPES>( : the types, or nothing read.
bool ExpressionParser::type_arguments_of_call(std::vector<TypePtr>& arguments) {
  const std::size_t start = position_;
  if (comparisons_.contains(start) || !take("<")) {
    return false;
  }
  try {
    while (true) {
      arguments.push_back(type());
      if (!names_types_only(*arguments.back())) {
        break;
      }
      if (take(">")) {
        if (peek().is("(")) {
          return true;
        }
        break;
      }
      expect(",");
    }
  } catch (const Failure&) {
    // No list of types, so '<' compares.
  }
  arguments.clear();
  position_ = start;
  comparisons_.insert(start);
  return false;
}

void ExpressionParser::argument_list(std::vector<ExprPtr>& arguments, std::vector<std::string>& names) {
  expect("(");
  while (!take(")")) {
    std::string name;
    if (peek().kind == TokenKind::name && peek(1).is("=")) {
      name = next().text;
      next();
    }
    if (!arguments.empty() && name.empty() != names.empty()) {
      fail(peek().at, "either all arguments have names or none");
    }
    if (!name.empty()) {
      names.push_back(name);
    }
    arguments.push_back(peek().is_name("_") ? make(ExprKind::any, next().at) : expression());
    if (!peek().is(")")) {
      expect(",");
    }
  }
}

ExprPtr ExpressionParser::postfix(ExprPtr base) {
  unsigned length = 0;
  while (true) {
    if (++length > kDeepest) {
      unsupported(peek().at, "nesting this deep");
    }
    const Location at = peek().at;
    if (take(".")) {
      auto made = make(ExprKind::member, peek().at);
      made->text = expect_name("the name of a member").text;
      made->operands.push_back(std::move(base));
      base = std::move(made);
    } else if (take("[")) {
      ExprPtr first = expression();
      auto made = make(ExprKind::index, at);
      if (take(":")) {
        made->kind = ExprKind::slice;
        made->operands = {std::move(base), std::move(first), expression()};
      } else if (peek().is("+") && peek(1).is(":")) {
        next();
        next();
        made->kind = ExprKind::slice;
        made->text = "+";
        made->operands = {std::move(base), std::move(first), expression()};
      } else {
        made->operands = {std::move(base), std::move(first)};
      }
      expect("]");
      base = std::move(made);
    } else if (peek().is("(") || peek().is("<")) {
      std::vector<TypePtr> types;
      const bool callable = base->kind == ExprKind::name || base->kind == ExprKind::member;
      if (peek().is("<") && !(callable && type_arguments_of_call(types))) {
        return base;
      }
      auto made = make(ExprKind::call, base->at);
      made->type_arguments = std::move(types);
      made->operands.push_back(std::move(base));
      std::vector<ExprPtr> arguments;
      argument_list(arguments, made->names);
      made->operands.insert(made->operands.end(), arguments.begin(), arguments.end());
      base = std::move(made);
    } else {
      return base;
    }
  }
}

// TYPE NAME, or TYPE(ARGUMENTS) NAME
bool ExpressionParser::declaration_ahead() {
  const Token& first = peek();
  if (first.is_name("const")) {
    return true;
  }
  if (!is_type_name(first) && !first.is(".") && first.kind != TokenKind::name) {
    return false;
  }
  const std::size_t start = position_;
  bool result = false;
  try {
    static_cast<void>(type());
    result = peek().kind == TokenKind::name;
    if (!result && peek().is("(") && is_type_name(first)) {  // an instance?
      std::vector<ExprPtr> arguments;
      std::vector<std::string> names;
      argument_list(arguments, names);
      result = peek().kind == TokenKind::name;
    }
  } catch (const Failure&) {
    result = false;
  }
  position_ = start;
  return result;
}

}  // namespace sidelatch::p4::ast
