// What a parameter may be. This is asked of every declaration, also of those that nothing uses. Source: the P4_16
// specification, "Calling convention" and "Restrictions on compile time and run time calls".
#include "lower.h"

#include <algorithm>

namespace sidelatch::p4 {

using ast::DeclarationKind;
using ast::Direction;

namespace {

// Whether a type depends on what these type parameters stand for.
bool depends_on(const ast::Type& type, const std::vector<std::string>& names) {
  return (type.kind == ast::TypeKind::name && std::ranges::find(names, type.name) != names.end()) ||
         std::ranges::any_of(type.arguments, [&](const ast::TypePtr& part) { return depends_on(*part, names); });
}

bool is_a(const Type* type, DeclarationKind kind) {
  return type->kind == Type::Kind::object && type->declaration->kind == kind;
}

}  // namespace

// Null: known where it is used only.
const Type* Lowering::type_in_signature(const ast::Type& type, const std::vector<std::string>& open) {
  if (depends_on(type, open)) {
    return nullptr;
  }
  Scope* const scope = scope_;
  try {
    return resolve(type);
  } catch (const Failure& failure) {
    if (!failure.message.starts_with("unsupported:")) {
      throw;
    }
    scope_ = scope;
    return nullptr;  // that nothing uses it may be
  }
}

void Lowering::check_parameter(const ast::Parameter& parameter, const Type* type, bool of_action) const {
  const std::string what = "the parameter '" + parameter.name + "'";
  const bool is_extern = is_a(type, DeclarationKind::extern_object);
  if (is_extern && of_action) {
    fail(parameter.at, what + " of an action cannot have the type " + text(type));
  }
  if (is_extern && parameter.direction != Direction::none) {
    fail(parameter.at, what + " has the type " + text(type) + ", so it has no direction: it stands for the argument");
  }
  if ((type->kind == Type::Kind::object && !is_extern) || type == types_.none) {
    fail(parameter.at, what + " cannot have the type " + text(type));
  }
  const bool is_known = type == types_.string || type == types_.any_integer;  // when the program is compiled
  if (is_known && parameter.direction != Direction::none) {
    fail(parameter.at, what + " has the type " + text(type) + ", so it has no direction");
  }
  if (is_known && of_action) {
    fail(parameter.at, what + " of an action cannot have the type " + text(type));
  }
}

void Lowering::check_default(const ast::Parameter& parameter, const Type* type) {
  if (parameter.otherwise == nullptr || type->kind == Type::Kind::object) {
    return;
  }
  static_cast<void>(collect([&] {
    const ast::Expr& value = *parameter.otherwise;
    if (has_effects(value) || !is_known(coerce(eval(value, type), type, value.at))) {
      fail(value.at, "the default value of a parameter must be known at compile time");
    }
  }));
}

void Lowering::check_parameters(const std::vector<ast::Parameter>& parameters, const std::vector<std::string>& open) {
  for (const ast::Parameter& parameter : parameters) {
    if (const Type* type = type_in_signature(*parameter.type, open)) {
      check_parameter(parameter, type, false);
      check_default(parameter, type);
    }
  }
}

// `own`: what the constructor makes. Parsers are for parsers, controls for controls, packages for packages.
void Lowering::check_constructor(const std::vector<ast::Parameter>& parameters, DeclarationKind own,
                                 const std::vector<std::string>& open) {
  for (const ast::Parameter& parameter : parameters) {
    const Type* type = type_in_signature(*parameter.type, open);
    if (type == nullptr) {
      continue;
    }
    const bool is_other = (is_a(type, DeclarationKind::parser) && own != DeclarationKind::parser) ||
                          (is_a(type, DeclarationKind::control) && own != DeclarationKind::control) ||
                          is_a(type, DeclarationKind::package);
    if ((is_other && own != DeclarationKind::package) || type == types_.none) {
      fail(parameter.at, "the parameter '" + parameter.name + "' cannot have the type " + text(type));
    }
    check_default(parameter, type);
  }
}

void Lowering::check_result(const ast::Declaration& function, const std::vector<std::string>& open) {
  const Type* result = type_in_signature(*function.type, open);
  if (result != nullptr && result->kind == Type::Kind::object) {
    fail(function.at, "'" + function.name + "' cannot give back a value of type " + text(result));
  }
}

void Lowering::check_signature(const ast::Declaration& declaration) {
  const std::vector<std::string>& open = declaration.type_parameters;
  switch (declaration.kind) {
    case DeclarationKind::function:
      check_result(declaration, open);
      check_parameters(declaration.parameters, open);
      break;
    case DeclarationKind::control:
    case DeclarationKind::parser:
      check_parameters(declaration.parameters, open);
      check_constructor(declaration.constructor_parameters, declaration.kind, open);
      break;
    case DeclarationKind::package:
      check_constructor(declaration.parameters, declaration.kind, open);
      break;
    case DeclarationKind::extern_object:
      for (const ast::DeclarationPtr& method : declaration.locals) {
        std::vector<std::string> all = open;
        all.insert(all.end(), method->type_parameters.begin(), method->type_parameters.end());
        if (method->type == nullptr) {
          check_constructor(method->parameters, declaration.kind, all);
        } else {
          check_result(*method, all);
          check_parameters(method->parameters, all);
        }
      }
      break;
    default:
      break;
  }
}

}  // namespace sidelatch::p4
