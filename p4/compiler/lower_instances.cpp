// Instances of controls, parsers and externs, and the bodies of controls, actions and functions.
#include "lower.h"
#include "parser.h"

#include <sidelatch/p4/state.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sidelatch::p4 {

using ast::DeclarationKind;
using ast::ExprKind;

namespace {

constexpr std::size_t kMostInstances = 20'000;
constexpr std::size_t kMostStateBytes = std::size_t{1} << 30;

bool always_returns(const ast::Statement& statement) {
  switch (statement.kind) {
    case ast::StatementKind::give_back:
      return true;
    case ast::StatementKind::block:
      return std::any_of(statement.body.begin(), statement.body.end(),
                         [](const ast::StatementPtr& one) { return always_returns(*one); });
    case ast::StatementKind::conditional:
      return statement.body.size() == 2 && always_returns(*statement.body[0]) && always_returns(*statement.body[1]);
    case ast::StatementKind::choose:
      return std::any_of(statement.cases.begin(), statement.cases.end(),
                         [](const ast::SwitchCase& one) { return one.label == nullptr; }) &&
             std::all_of(statement.cases.begin(), statement.cases.end(),
                         [](const ast::SwitchCase& one) { return one.body == nullptr || always_returns(*one.body); });
    default:
      return false;
  }
}

}  // namespace

std::string Lowering::control_name(const ast::Declaration& declaration, const std::string& prefix) {
  if (const std::string* given = ast::name_annotation(declaration.annotations)) {
    return given->starts_with(".") ? given->substr(1) : prefix.empty() ? *given : fmt::format("{}.{}", prefix, *given);
  }
  return prefix.empty() ? declaration.name : prefix + "." + declaration.name;
}

Object* Lowering::instantiate(const ast::Declaration& instance, const std::string& prefix) {
  const Type* type = resolve(*instance.type);
  if (type->kind != Type::Kind::object) {
    fail(instance.at, "a value of type " + text(type) + " has no constructor");
  }
  if (type->declaration->kind == DeclarationKind::extern_object) {
    return extern_instance(type, instance, prefix);
  }
  if (type->declaration->kind != DeclarationKind::control && type->declaration->kind != DeclarationKind::parser) {
    fail(instance.at, text(type) + " cannot have instances here");
  }
  const bool is_control = type->declaration->kind == DeclarationKind::control;
  if ((where_ == Where::parser && is_control) || (where_ == Where::control && !is_control)) {
    fail(instance.at, is_control ? "a parser contains no controls" : "a control contains no parsers");
  }
  const std::string name = control_name(instance, prefix);
  const std::vector<Value> arguments =
      constructor_arguments(*type->declaration, instance.arguments, instance.argument_names, instance.at, name);
  return is_control ? control_instance(*type->declaration, arguments, name, nullptr)
                    : parser_instance(*type->declaration, arguments, name, nullptr);
}

Object* Lowering::extern_instance(const Type* type, const ast::Declaration& instance, const std::string& prefix) {
  Object* object = new_object(Object::Kind::extern_instance, &instance);
  object->type = type;
  object->name = control_name(instance, prefix);
  const std::string& kind = type->name;
  const auto& methods = type->declaration->locals;
  const auto constructor =
      std::find_if(methods.begin(), methods.end(), [&](const auto& method) { return method->name == kind; });
  if (constructor == methods.end()) {
    unsupported(instance.at, "an extern without a constructor");
  }
  const std::vector<const ast::Expr*> arguments =
      in_order(instance.arguments, instance.argument_names, (*constructor)->parameters, instance.at);
  const auto argument = [&](std::size_t which) -> const ast::Expr& {
    if (which >= arguments.size()) {
      unsupported(instance.at, fmt::format("a constructor of {} with {} parameters", kind, arguments.size()));
    }
    return *arguments[which];
  };
  const auto size = [&]() {
    const Number number = constant_number(argument(0));
    const Type* const given = eval(argument(0)).type;
    if (given != nullptr && given != types_.any_integer && given != types_.bits(32, false)) {
      fail(argument(0).at, "the size of a " + kind + " has the type bit<32>, not " + text(given));
    }
    if (number.negative || number.magnitude > (U128{1} << 28)) {
      unsupported(argument(0).at, "an array of " + text(number) + " elements");
    }
    return static_cast<std::size_t>(number.magnitude.low());
  };
  if (kind == "register") {
    const Type* element = type->arguments.empty() ? nullptr : type->arguments[0];
    if (element == nullptr || !has_bits(element)) {
      unsupported(instance.at,
                  "a register of " + (type->arguments.empty() ? "an unknown type" : text(type->arguments[0])));
    }
    object->index = static_cast<int>(out_.info.registers.size());
    out_.info.registers.push_back({object->name, type->arguments[0]->width, size()});
    const RegisterInfo& made = out_.info.registers.back();
    count_state(made.size, made.width > 64 ? 16 : 8, instance.at);
  } else if (kind == "counter" || kind == "direct_counter") {
    const bool direct = kind == "direct_counter";
    const Value given = eval(argument(direct ? 0 : 1));
    if (given.type == nullptr || given.type->name != "CounterType" || !is_constant(given)) {
      fail(instance.at, "expected a member of CounterType");
    }
    object->index = static_cast<int>(out_.info.counters.size());
    out_.info.counters.push_back(
        {object->name, static_cast<CounterKind>(constant_value(given.expr)), direct ? 0 : size(), -1});
    count_state(out_.info.counters.back().size, sizeof(Count), instance.at);
  } else if (kind == "action_selector") {
    object->index = algorithm(argument(0));
    for (const std::size_t number : {std::size_t{1}, std::size_t{2}}) {
      static_cast<void>(constant_number(argument(number)));
    }
  } else if (kind == "meter" || kind == "direct_meter" || kind == "action_profile" || kind == "Checksum16") {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const ast::Expr& given = *arguments[i];
      const Type* wanted = resolve(*(*constructor)->parameters[i].type);
      if (!is_constant(coerce(eval(given, wanted), wanted, given.at))) {
        fail(given.at, "the arguments of a constructor are constants");
      }
    }
  } else {
    unsupported(instance.at, "the extern " + kind);
  }
  return object;
}

namespace {

bool is_same(const Type* one, const Type* other) {
  return one == other || (one->kind == Type::Kind::object && other->kind == Type::Kind::object &&
                          one->declaration == other->declaration && one->arguments == other->arguments);
}

bool is_prototype(const ast::Declaration& declaration) {
  return declaration.body == nullptr && declaration.states.empty();
}

}  // namespace

// A declaration without a body is a type: every control (or parser) with these parameters has it (P4-16, control type
// declarations).
bool Lowering::has_type(const ast::Declaration& declaration, const Type* wanted) {
  const ast::Declaration& type = *wanted->declaration;
  if (&declaration == &type) {
    return true;
  }
  if (declaration.kind != type.kind || !is_prototype(type) || declaration.parameters.size() != type.parameters.size()) {
    return false;
  }
  std::vector<const Type*> parameters;
  in_scope_of(type, [&] {
    bind_types(type, wanted->arguments);
    for (const ast::Parameter& parameter : type.parameters) {
      parameters.push_back(resolve(*parameter.type));
    }
  });
  bool result = true;
  in_scope_of(declaration, [&] {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ast::Parameter& parameter = declaration.parameters[i];
      result = result && parameter.direction == type.parameters[i].direction &&
               is_same(resolve(*parameter.type), parameters[i]);
    }
  });
  return result;
}

bool Lowering::is_instance_of(const Value& value, const Type* type) {
  if (value.kind != Value::Kind::object || type->declaration == nullptr) {
    return false;
  }
  const Object& object = *value.object;
  if (object.kind == Object::Kind::extern_instance) {
    return is_same(object.type, type);
  }
  return (object.kind == Object::Kind::control || object.kind == Object::Kind::parser) &&
         has_type(*object.declaration, type);
}

void Lowering::bind_constructor(const ast::Declaration& declaration, const std::vector<Value>& arguments, Location at) {
  if (arguments.size() != declaration.constructor_parameters.size()) {
    fail(at, fmt::format("'{}' needs {} arguments of its constructor, not {}", declaration.name,
                         declaration.constructor_parameters.size(), arguments.size()));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ast::Parameter& parameter = declaration.constructor_parameters[i];
    const Type* type = resolve(*parameter.type);
    Symbol symbol;
    if (type->kind == Type::Kind::object) {
      if (!is_instance_of(arguments[i], type)) {
        fail(at, "the argument for '" + parameter.name + "' is no " + text(type));
      }
      symbol.kind = Symbol::Kind::object;
      symbol.object = arguments[i].object;
    } else {
      symbol.value = coerce(arguments[i], type, parameter.at);
      if (!is_constant(symbol.value)) {
        fail(at, "the arguments of a constructor are constants");
      }
    }
    scope_->names[parameter.name] = symbol;
  }
}

// Gives each parameter its place: one of `places`, or slots of its own.
void Lowering::bind_parameters(Object& object, const std::vector<ast::Parameter>& parameters,
                               const std::vector<Value>* places) {
  if (places != nullptr && places->size() != parameters.size()) {
    fail(object.declaration->at, fmt::format("'{}' has {} parameters; v1model needs {}", object.declaration->name,
                                             parameters.size(), places->size()));
  }
  std::size_t next_extern = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ast::Parameter& parameter = parameters[i];
    const Type* type = resolve(*parameter.type);
    if (parameter.otherwise != nullptr) {
      defaults_[parameter.otherwise.get()] = scope_->parent;
    }
    check_parameter(parameter, type, object.kind == Object::Kind::action);
    Value value;
    if (type->kind == Type::Kind::object && next_extern < object.externs.size()) {
      value.kind = Value::Kind::object;
      value.object = object.externs[next_extern++];
    } else if (type->kind == Type::Kind::object) {
      if (type->name != "packet_in" && type->name != "packet_out") {
        unsupported(parameter.at, "a parameter of type " + text(type));
      }
      value.kind = Value::Kind::object;
      value.object =
          new_object(type->name == "packet_in" ? Object::Kind::packet_in : Object::Kind::packet_out, nullptr);
    } else if (!type->is_data()) {
      unsupported(parameter.at, "a parameter of type " + text(type));
    } else {
      value = places != nullptr ? (*places)[i] : new_place(type);
      if (places != nullptr && value.type != type) {
        fail(parameter.at, "v1model needs a parameter of type " + text(value.type) + " here, not " + text(type));
      }
    }
    if (places != nullptr && (value.kind == Value::Kind::object) != ((*places)[i].kind == Value::Kind::object)) {
      fail(parameter.at, "v1model needs another type of parameter here");
    }
    object.parameters.push_back(value);
    Symbol symbol;
    symbol.value = value;
    // A parameter without a direction is read-only, too.
    symbol.value.writable = parameter.direction == ast::Direction::out || parameter.direction == ast::Direction::inout;
    if (places == nullptr && symbol.value.writable && value.type == standard_.type) {
      copies_[stage_].places.push_back(value);
    }
    symbol.value.is_known = parameter.direction == ast::Direction::none && object.kind != Object::Kind::action;
    if (!scope_->names.emplace(parameter.name, symbol).second) {
      fail(parameter.at, "'" + parameter.name + "' is declared twice");
    }
  }
}

void Lowering::declare_locals(const ast::Declaration& declaration, const std::string& prefix) {
  for (const ast::DeclarationPtr& local : declaration.locals) {
    Symbol symbol;
    symbol.kind = Symbol::Kind::object;
    switch (local->kind) {
      case DeclarationKind::constant:
        declare_constant(*local);
        break;
      case DeclarationKind::variable:
        no_table_ = "a table is not applied in the first value of a variable of the control: assign it in 'apply'";
        local_variable(*local);
        no_table_ = nullptr;
        break;
      case DeclarationKind::instance:
        symbol.object = instantiate(*local, prefix);
        define(*local, symbol);
        break;
      case DeclarationKind::value_set:
        symbol.object = value_set(*local, prefix);
        define(*local, symbol);
        break;
      case DeclarationKind::action:
        symbol.object = action(*local, prefix);
        define(*local, symbol);
        break;
      case DeclarationKind::table:
        symbol.object = table(*local, prefix);
        define(*local, symbol);
        break;
      default:
        unsupported(local->at, "this declaration here");
    }
  }
}

// Of registers and counters, which the switch allocates before the first packet.
void Lowering::count_state(std::size_t elements, std::size_t bytes, Location at) {
  state_bytes_ += elements * bytes;
  if (state_bytes_ > kMostStateBytes) {
    unsupported(at,
                "registers of more than 1 GiB in all, with the counters (an element takes 8 bytes, one above 64 "
                "bits and one of a counter 16)");
  }
}

// Two instances in each of thirty controls are a thousand million.
void Lowering::count_instance(Location at) const {
  if (out_.routines.size() + out_.parsers.size() >= kMostInstances) {
    unsupported(at, fmt::format("more than {} instances of controls, parsers, actions and functions", kMostInstances));
  }
}

Object* Lowering::control_instance(const ast::Declaration& declaration, const std::vector<Value>& arguments,
                                   std::string name, const std::vector<Value>* places) {
  if (declaration.body == nullptr) {
    fail(declaration.at, "this control has no body");
  }
  Object* object = new_object(Object::Kind::control, &declaration);
  object->name = std::move(name);
  object->waits = places == nullptr && takes_externs(declaration);
  if (object->waits) {
    object->arguments = arguments;
  } else {
    lower_control(*object, arguments, places);
  }
  return object;
}

void Lowering::lower_control(Object& object, const std::vector<Value>& arguments, const std::vector<Value>* places) {
  const ast::Declaration& declaration = *object.declaration;
  if (!active_.insert(&declaration).second) {
    fail(declaration.at, "a control cannot contain itself");
  }
  lowered_.insert(&declaration);
  count_instance(declaration.at);
  ir::Routine made;
  made.name = object.name;
  const Where outer_where = std::exchange(where_, Where::control);
  const std::string outer_prefix = std::exchange(prefix_, object.name);
  const Object* outer_instance = std::exchange(instance_, &object);
  in_scope_of(declaration, [&] {
    bind_constructor(declaration, arguments, declaration.at);
    bind_parameters(object, declaration.parameters, places);
    in_scope(scope_, [&] {
      made.body = collect([&] {
        declare_locals(declaration, object.name);
        statement(*declaration.body);
      });
    });
  });
  where_ = outer_where;
  prefix_ = outer_prefix;
  instance_ = outer_instance;
  active_.erase(&declaration);
  object.index = static_cast<int>(out_.routines.size());
  out_.routines.push_back(std::move(made));
}

Object* Lowering::action(const ast::Declaration& declaration, const std::string& prefix) {
  lowered_.insert(&declaration);
  for (std::size_t i = 1; i < declaration.parameters.size(); ++i) {
    if (declaration.parameters[i].direction != ast::Direction::none &&
        declaration.parameters[i - 1].direction == ast::Direction::none) {
      fail(declaration.parameters[i].at, "parameters of an action without a direction come last");
    }
  }
  count_instance(declaration.at);
  Object* object = new_object(Object::Kind::action, &declaration);
  object->name = control_name(declaration, prefix);
  ir::Routine made;
  made.name = object->name;
  const Where outer_where = std::exchange(where_, Where::action);
  in_scope(scope_, [&] {
    for (const ast::Parameter& parameter : declaration.parameters) {
      check_default(parameter, resolve(*parameter.type));
    }
    bind_parameters(*object, declaration.parameters, nullptr);
    made.body = collect([&] { statement(*declaration.body); });
  });
  where_ = outer_where;
  object->index = static_cast<int>(out_.routines.size());
  out_.routines.push_back(std::move(made));
  return object;
}

Object* Lowering::function(const ast::Declaration& declaration, const std::vector<const Type*>& types,
                           const std::vector<Object*>& externs) {
  if (types.size() != declaration.type_parameters.size()) {
    if (types.empty()) {
      unsupported(declaration.at, "a call of a generic function without its type arguments");
    }
    fail(declaration.at,
         fmt::format("'{}' has {} type parameters", declaration.name, declaration.type_parameters.size()));
  }
  const FunctionKey key{&declaration, types, externs, stage_};
  if (const auto known = functions_.find(key); known != functions_.end()) {
    return known->second;
  }
  if (!active_.insert(&declaration).second) {
    fail(declaration.at, "a function cannot call itself");
  }
  lowered_.insert(&declaration);
  Object* object = new_object(Object::Kind::function, &declaration);
  object->name = declaration.name;
  object->externs = externs;
  ir::Routine made;
  made.name = declaration.name;
  const Where outer_where = std::exchange(where_, Where::function);
  const Object* outer_function = std::exchange(function_, object);
  in_scope_of(declaration, [&] {
    bind_types(declaration, types);
    const Type* result = resolve(*declaration.type);
    if (result->is_data()) {
      object->result = new_place(result);
    } else if (result != types_.none) {
      unsupported(declaration.at, "a function that gives back a value of type " + text(result));
    }
    bind_parameters(*object, declaration.parameters, nullptr);
    made.body = collect([&] {
      if (object->result.kind == Value::Kind::place) {
        zero(object->result, declaration.at);
      }
      statement(*declaration.body);
    });
    if (object->result.kind == Value::Kind::place && !always_returns(*declaration.body)) {
      fail(declaration.at, "'" + declaration.name + "' does not return a value on every path");
    }
  });
  function_ = outer_function;
  where_ = outer_where;
  active_.erase(&declaration);
  object->index = static_cast<int>(out_.routines.size());
  out_.routines.push_back(std::move(made));
  functions_[key] = object;
  return object;
}

}  // namespace sidelatch::p4
