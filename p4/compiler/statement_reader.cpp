// Statements.
#include "token_reader.h"

#include <array>
#include <string_view>
#include <utility>

namespace sidelatch::p4::ast {

StatementPtr ExpressionParser::block() {
  auto made = std::make_shared<Statement>();
  made->kind = StatementKind::block;
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
    next();
    made->kind = StatementKind::conditional;
    expect("(");
    made->left = expression();
    expect(")");
    made->body.push_back(statement());
    if (peek().is_name("else")) {
      next();
      made->body.push_back(statement());
    }
    return made;
  }
  if (first.is_name("switch")) {
    return switch_statement();
  }
  if (first.is_name("for")) {
    unsupported(first.at, "for");
  }
  if (first.is_name("break") || first.is_name("continue")) {
    unsupported(first.at, first.text);
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
  // A target may not be read as a comparison, so no more than a postfix expression.
  made->left = postfix(primary());
  if (made->left->kind == ExprKind::call && peek().is(";")) {
    next();
    made->kind = StatementKind::call;
    return made;
  }
  static constexpr std::array<std::string_view, 11> kOperators{
      "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "|+|=", "|-|=", "<<="};
  made->kind = StatementKind::assign;
  made->at = peek().at;
  for (const std::string_view op : kOperators) {
    if (take(op)) {
      made->text = op.substr(0, op.size() - 1);
    }
  }
  if (made->text.empty()) {
    if (peek().is(">") && peek(1).is(">=")) {
      next();
      next();
      made->text = ">>";
    } else {
      expect("=");
    }
  }
  made->right = expression();
  expect(";");
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
    if (peek().is("{")) {
      one.body = block();
    }
    made->cases.push_back(std::move(one));
  }
  return made;
}

}  // namespace sidelatch::p4::ast
