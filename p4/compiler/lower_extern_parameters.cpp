// Parameters of extern types, a register, say: they stand for the argument. A control is lowered where it is applied, a
// function once for each set of them.
#include "lower.h"

#include <algorithm>

namespace sidelatch::p4 {

namespace {

bool is_extern(const Type* type) {
  return type->kind == Type::Kind::object && type->declaration->kind == ast::DeclarationKind::extern_object &&
         type->name != "packet_in" && type->name != "packet_out";
}

}  // namespace

bool Lowering::takes_externs(const ast::Declaration& declaration) {
  bool takes = false;
  in_scope(global_, [&] {
    for (const ast::Parameter& parameter : declaration.parameters) {
      takes = takes || is_extern(resolve(*parameter.type));
    }
  });
  return takes;
}

// The arguments for parameters of extern types, in order; `types`: those that the type parameters stand for.
std::vector<Object*> Lowering::externs_of(const ast::Declaration& declaration, const ast::Expr& expr,
                                          const std::vector<const Type*>& types) {
  const std::vector<ast::Parameter>& parameters = declaration.parameters;
  if (types.size() != declaration.type_parameters.size()) {
    return {};  // function() says what is wrong with them
  }
  std::vector<const Type*> wanted;
  wanted.reserve(parameters.size());
  in_scope(global_, [&] {
    bind_types(declaration, types);
    for (const ast::Parameter& parameter : parameters) {
      wanted.push_back(resolve(*parameter.type));
    }
  });
  if (std::none_of(wanted.begin(), wanted.end(), is_extern)) {
    return {};
  }
  const std::vector<const ast::Expr*> arguments = arguments_of(expr, parameters);
  std::vector<Object*> externs;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Type* type = wanted[i];
    if (!is_extern(type)) {
      continue;
    }
    const Value given = eval(*arguments[i]);
    const bool fits = given.kind == Value::Kind::object && given.object->kind == Object::Kind::extern_instance &&
                      given.object->type->declaration == type->declaration &&
                      given.object->type->arguments == type->arguments;
    if (!fits) {
      fail(arguments[i]->at, "this is not what the parameter '" + parameters[i].name + "' needs");
    }
    externs.push_back(given.object);
  }
  return externs;
}

void Lowering::lower_waiting(Object& control, const ast::Expr& expr) {
  std::vector<Object*> externs = externs_of(*control.declaration, expr, {});
  if (control.index < 0) {
    control.externs = std::move(externs);
    lower_control(control, control.arguments, nullptr);
  } else if (control.externs != externs) {
    unsupported(expr.at,
                "an instance of a control that is applied with several " + control.externs[0]->type->name + "s");
  }
}

}  // namespace sidelatch::p4
