// Parameters and type parameters.
#include "token_reader.h"

#include <algorithm>
#include <utility>

namespace sidelatch::p4::ast {

namespace {

void check_new(const Parameter& parameter, const std::vector<Parameter>& others) {
  if (std::any_of(others.begin(), others.end(), [&](const Parameter& one) { return one.name == parameter.name; })) {
    fail(parameter.at, "'" + parameter.name + "' is declared twice");
  }
}

bool is_optional(const Parameter& parameter) {
  return std::any_of(parameter.annotations.begin(), parameter.annotations.end(),
                     [](const Annotation& one) { return one.name == "optional"; });
}

}  // namespace

void ExpressionParser::check_none_optional(const std::vector<Parameter>& list) {
  const auto found = std::find_if(list.begin(), list.end(), is_optional);
  if (found != list.end()) {
    fail(found->at, "@optional is for parameters of packages, externs, and prototypes of controls and parsers");
  }
}

std::vector<std::string> ExpressionParser::type_parameters() {
  std::vector<std::string> names;
  if (!take("<")) {
    return names;
  }
  do {
    const Token name = declared_name("the name of a type parameter");
    if (std::find(names.begin(), names.end(), name.text) != names.end()) {
      fail(name.at, "'" + name.text + "' is declared twice");
    }
    names.push_back(name.text);
    declare_type(name.text);
  } while (take(","));
  expect(">");
  return names;
}

std::vector<Parameter> ExpressionParser::constructor_parameters(const std::vector<Parameter>& others) {
  std::vector<Parameter> list = parameters();
  for (const Parameter& parameter : list) {
    check_new(parameter, others);
    if (parameter.direction != Direction::none) {
      fail(parameter.at, "the parameter '" + parameter.name + "' of a constructor has no direction");
    }
  }
  return list;
}

std::vector<Parameter> ExpressionParser::parameters() {
  std::vector<Parameter> list;
  expect("(");
  while (!take(")")) {
    Parameter parameter;
    parameter.annotations = annotations();
    parameter.at = peek().at;
    if (peek().is_name("in") || peek().is_name("out") || peek().is_name("inout")) {
      const std::string direction = next().text;
      parameter.direction = direction == "in" ? Direction::in : direction == "out" ? Direction::out : Direction::inout;
    }
    parameter.type = type();
    const Token name = declared_name("the name of a parameter");
    parameter.name = name.text;
    parameter.at = name.at;
    check_new(parameter, list);
    declare_value(parameter.name);
    if (take("=")) {
      if (parameter.direction == Direction::out || parameter.direction == Direction::inout) {
        fail(parameter.at, "a parameter with 'out' or 'inout' has no default value");
      }
      if (is_optional(parameter)) {
        fail(parameter.at, "an @optional parameter has no default value");
      }
      parameter.otherwise = expression();
    }
    list.push_back(std::move(parameter));
    if (!peek().is(")")) {
      expect(",");
    }
  }
  return list;
}

}  // namespace sidelatch::p4::ast
