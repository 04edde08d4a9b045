// Statements.
#include "token_reader.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace sidelatch::p4::ast {

StatementPtr ExpressionParser::block() {
  auto made = std::make_shared<Statement>();
  made->kind = StatementKind::block;
  static_cast<void>(annotations());
  made->at = peek().at;
  const NameScope inner(*this);
  expect("{");
  while (!take("}")) {
    made->body.push_back(statement());
  }
  return made;
}

StatementPtr ExpressionParser::statement() {
  const Deeper deeper(*this);
  auto made = std::make_shared<Statement>();
  made->annotations = annotations();
  made->at = peek().at;
  const Token& first = peek();
  if (first.is("{")) {
    StatementPtr inner = block();
    inner->annotations = std::move(made->annotations);
    return inner;
  }
  if (take(";")) {
    return made;
  }
  if (first.is_name("if")) {
    conditional_statement(*made);
    return made;
  }
  if (first.is_name("switch")) {
    return switch_statement();
  }
  if (first.is_name("for") && peek(1).is("(")) {
    StatementPtr made_loop = loop();
    made_loop->annotations = std::move(made->annotations);
    return made_loop;
  }
  if ((first.is_name("break") || first.is_name("continue")) && peek(1).is(";")) {
    if (loops_ == 0) {
      fail(first.at, first.text + " is for loops");
    }
    made->kind = first.is_name("break") ? StatementKind::stop : StatementKind::again;
    next();
    next();
    return made;
  }
  if (first.is_name("exit") && peek(1).is(";")) {
    next();
    next();
    made->kind = StatementKind::leave;
    return made;
  }
  if (first.is_name("return")) {
    next();
    made->kind = StatementKind::give_back;
    if (!peek().is(";")) {
      made->left = expression();
    }
    expect(";");
    return made;
  }
  if (declaration_ahead()) {
    made->kind = StatementKind::declare;
    made->declaration = statement_declaration();
    made->declaration->annotations = made->annotations;
    if (made->declaration->kind == DeclarationKind::function) {
      fail(made->declaration->at, "a function is declared outside of controls and parsers");
    }
    return made;
  }
  assignment_or_call(*made);
  expect(";");
  return made;
}

// Of an `if` or a loop. Only a block has declarations.
StatementPtr ExpressionParser::branch() {
  StatementPtr made = statement();
  if (made->kind == StatementKind::declare) {
    fail(made->at, "a declaration here needs a block: { ... }");
  }
  return made;
}

// A chain of `else if` is read in one go: it is long more often than nesting is deep.
void ExpressionParser::conditional_statement(Statement& first) {
  constexpr unsigned kLongestChain = 1000;
  unsigned length = 0;
  for (Statement* one = &first; one != nullptr;) {
    if (++length > kLongestChain) {
      unsupported(peek().at, fmt::format("a chain of more than {} 'if'", kLongestChain));
    }
    next();
    one->kind = StatementKind::conditional;
    expect("(");
    one->left = expression();
    expect(")");
    one->body.push_back(branch());
    Statement* following = nullptr;
    if (peek().is_name("else")) {
      next();
      if (peek().is_name("if")) {
        one->body.push_back(std::make_shared<Statement>());
        following = one->body.back().get();
        following->at = peek().at;
      } else {
        one->body.push_back(branch());
      }
    }
    one = following;
  }
}

void ExpressionParser::assignment_or_call(Statement& made) {
  // A target may not be read as a comparison, so no more than a postfix expression.
  made.left = postfix(primary());
  if (made.left->kind == ExprKind::call && (peek().is(";") || peek().is(",") || peek().is(")"))) {
    made.kind = StatementKind::call;
    return;
  }
  static constexpr std::array<std::string_view, 11> kOperators{
      "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "|+|=", "|-|=", "<<="};
  made.kind = StatementKind::assign;
  made.at = peek().at;
  for (const std::string_view op : kOperators) {
    if (take(op)) {
      made.text = op.substr(0, op.size() - 1);
    }
  }
  if (made.text.empty()) {
    if (peek().is(">") && peek(1).is(">=")) {
      next();
      next();
      made.text = ">>";
    } else {
      expect("=");
    }
  }
  made.right = expression();
}

DeclarationPtr ExpressionParser::variable_without_semicolon() {
  auto made = std::make_shared<Declaration>();
  made->kind = DeclarationKind::variable;
  made->type = type();
  const Token name = declared_name("the name of a variable");
  made->name = name.text;
  made->at = name.at;
  if (take("=")) {
    made->value = expression();
  }
  declare_value(made->name);
  return made;
}

// What the head of a loop has: a variable, an assignment or a call.
StatementPtr ExpressionParser::without_semicolon() {
  auto made = std::make_shared<Statement>();
  made->annotations = annotations();
  made->at = peek().at;
  if (declaration_ahead()) {
    made->kind = StatementKind::declare;
    made->declaration = variable_without_semicolon();
    made->declaration->annotations = made->annotations;
  } else {
    assignment_or_call(*made);
  }
  return made;
}

StatementPtr ExpressionParser::loop() {
  auto made = std::make_shared<Statement>();
  made->kind = StatementKind::loop;
  made->at = next().at;
  const NameScope inner(*this);
  expect("(");
  if (!peek().is(";")) {
    do {
      made->first.push_back(without_semicolon());
    } while (take(","));
  }
  if (peek().is_name("in") && made->first.size() == 1 && made->first[0]->kind == StatementKind::declare &&
      made->first[0]->declaration->value == nullptr) {
    made->declaration = made->first[0]->declaration;
    made->first.clear();
    next();
    made->right = expression();
    if (peek().is("..")) {
      auto range = std::make_shared<Expr>();
      range->kind = ExprKind::range;
      range->at = next().at;
      range->operands = {std::move(made->right), expression()};
      made->right = std::move(range);
    }
  } else {
    expect(";");
    made->left = expression();
    expect(";");
    if (!peek().is(")")) {
      do {
        made->steps.push_back(without_semicolon());
        if (made->steps.back()->kind == StatementKind::declare) {
          fail(made->steps.back()->at, "a variable is declared where the loop begins");
        }
      } while (take(","));
    }
  }
  expect(")");
  ++loops_;
  made->body.push_back(branch());
  --loops_;
  return made;
}

StatementPtr ExpressionParser::switch_statement() {
  auto made = std::make_shared<Statement>();
  made->kind = StatementKind::choose;
  made->at = next().at;
  expect("(");
  made->left = expression();
  expect(")");
  expect("{");
  while (!take("}")) {
    SwitchCase one;
    one.at = peek().at;
    if (peek().is_name("default")) {
      next();
    } else {
      one.label = expression();
    }
    expect(":");
    if (peek().is("{") || peek().is("@")) {
      one.body = block();
    }
    made->cases.push_back(std::move(one));
  }
  return made;
}

}  // namespace sidelatch::p4::ast
