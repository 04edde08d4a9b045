#include "lower.h"
#include "parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sidelatch::p4 {

using ast::DeclarationKind;
using ast::ExprKind;

namespace {

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

constexpr int kLargestStack = 4096;
constexpr unsigned kLargestVarbit = 16'384;
constexpr std::size_t kMostInstances = 20'000;
constexpr std::size_t kMostRegisterBytes = std::size_t{1} << 30;

}  // namespace

Lowering::Lowering(const ast::Program& program) : program_(program) {
  scopes_.emplace_back();
  global_ = scope_ = &scopes_.back();
}

ir::Program Lowering::run() {
  ir::Block nothing;
  block_ = &nothing;
  for (const ast::DeclarationPtr& declaration : program_.declarations) {
    orders_.emplace(declaration.get(), orders_.size());
    declare(*declaration);
  }
  if (main_ == nullptr) {
    fail({}, "the program has no 'V1Switch(...) main;'");
  }
  in_scope_of(*main_, [&] { package(); });
  find_unassigned(out_, variables_, [this](const ir::Origin& at, const std::string& name) {
    warnings_.push_back({{at.file, at.line, at.column}, "'" + name + "' is read before it has a value"});
  });
  check_unused();
  out_.info.errors = types_.error->members;
  return std::move(out_);
}

const Symbol* Lowering::find(std::string_view name, bool global) const {
  std::size_t sees = std::numeric_limits<std::size_t>::max();
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    sees = std::min(sees, scope->sees);
    if (global && scope != global_) {
      continue;
    }
    const auto found = scope->names.find(name);
    if (found != scope->names.end() && (scope != global_ || found->second.order <= sees)) {
      return &found->second;
    }
  }
  return nullptr;
}

std::string Lowering::not_found(std::string_view name, std::string otherwise) const {
  return global_->names.contains(name) ? fmt::format("'{}' is declared below its use: move its declaration up", name)
                                       : otherwise;
}

void Lowering::define(const ast::Declaration& declaration, Symbol symbol) {
  if (scope_ == global_) {
    symbol.order = orders_.size() - 1;
  }
  const auto [known, is_new] = scope_->names.try_emplace(declaration.name, std::move(symbol));
  if (!is_new) {
    if (known->second.kind == Symbol::Kind::object && scope_ == global_ && known->second.object != nullptr &&
        known->second.object->kind == Object::Kind::extern_functions && declaration.kind != DeclarationKind::function) {
      // A control may have the name of an extern function: what is called is the function.
      shadowed_[declaration.name] = known->second.object;
      known->second = std::move(symbol);  // NOLINT(bugprone-use-after-move): try_emplace has not moved it
      return;
    }
    const ast::Declaration* other = known->second.declaration;
    if (declaration.kind == DeclarationKind::function && other != nullptr && other->kind == DeclarationKind::function) {
      std::vector<const ast::Declaration*>& all = overloads_[other];
      const auto same = [&](const ast::Declaration* one) {
        return one->parameters.size() == declaration.parameters.size();
      };
      if (same(other) || std::any_of(all.begin(), all.end(), same)) {
        unsupported(declaration.at, fmt::format("two functions with the name '{}' and {} parameters", declaration.name,
                                                declaration.parameters.size()));
      }
      all.push_back(&declaration);
      return;
    }
    fail(declaration.at, "'" + declaration.name + "' is declared twice");
  }
}

Object* Lowering::new_object(Object::Kind kind, const ast::Declaration* declaration) {
  objects_.emplace_back();
  objects_.back().kind = kind;
  objects_.back().declaration = declaration;
  return &objects_.back();
}

void Lowering::declare(const ast::Declaration& declaration) {
  Symbol symbol;
  switch (declaration.kind) {
    case DeclarationKind::constant:
      declare_constant(declaration);
      return;
    case DeclarationKind::variable:
      fail(declaration.at, "a variable is declared within a control or a parser");
    case DeclarationKind::match_kind:
      for (const ast::Member& member : declaration.members) {
        match_kinds_[member.name] = true;
      }
      return;
    case DeclarationKind::function: {
      if (declaration.body != nullptr) {
        break;
      }
      const auto known = global_->names.find(declaration.name);
      if (known != global_->names.end() && known->second.kind == Symbol::Kind::object) {
        known->second.object->overloads.push_back(&declaration);
        return;
      }
      symbol.kind = Symbol::Kind::object;
      symbol.object = new_object(Object::Kind::extern_functions, &declaration);
      symbol.object->name = declaration.name;
      symbol.object->overloads.push_back(&declaration);
      define(declaration, symbol);
      return;
    }
    case DeclarationKind::instance:
      if (declaration.name == "main") {
        main_ = &declaration;
        return;
      }
      symbol.kind = Symbol::Kind::object;
      if (const Symbol* type = find(declaration.type->name);
          type != nullptr && type->kind == Symbol::Kind::declaration &&
          type->declaration->kind != DeclarationKind::extern_object) {
        if (type->declaration->kind == DeclarationKind::control || type->declaration->kind == DeclarationKind::parser) {
          fail(declaration.at, "a control or parser has no instances at the top level");
        }
        symbol.kind = Symbol::Kind::declaration;
        symbol.declaration = &declaration;
      } else {
        symbol.object = instantiate(declaration, "");
      }
      define(declaration, symbol);
      return;
    case DeclarationKind::alias:
    case DeclarationKind::new_type:
    case DeclarationKind::enumeration:
    case DeclarationKind::error:
    case DeclarationKind::structure:
    case DeclarationKind::header:
    case DeclarationKind::header_union:
      declare_type(declaration);
      return;
    case DeclarationKind::table:
      fail(declaration.at, "a table is declared within a control");
    default:
      break;
  }
  symbol.kind = Symbol::Kind::declaration;
  symbol.declaration = &declaration;
  define(declaration, symbol);
}

void Lowering::declare_type(const ast::Declaration& declaration) {
  Symbol symbol;
  symbol.kind = Symbol::Kind::type;
  switch (declaration.kind) {
    case DeclarationKind::alias:
      symbol.type = resolve(*declaration.type);
      break;
    case DeclarationKind::new_type:
      symbol.type = new_type(declaration);
      break;
    case DeclarationKind::enumeration:
      declare_enumeration(declaration);
      return;
    case DeclarationKind::error:
      for (const ast::Member& member : declaration.members) {
        if (std::find(types_.error->members.begin(), types_.error->members.end(), member.name) !=
            types_.error->members.end()) {
          fail(member.at, "the error '" + member.name + "' is declared twice");
        }
        types_.error->members.push_back(member.name);
      }
      return;
    default:
      if (!declaration.type_parameters.empty()) {
        symbol.kind = Symbol::Kind::declaration;
        symbol.declaration = &declaration;
      } else {
        symbol.type = declare_structure(declaration);
      }
      break;
  }
  define(declaration, symbol);
}

const Type* Lowering::new_type(const ast::Declaration& declaration) {
  const Type* below = resolve(*declaration.type);
  if (below->is_wide) {
    return below;  // keeps no name of its own
  }
  if (!below->is_bits() && below != types_.boolean && !below->is_new) {
    fail(declaration.at, "a new type is made of bit<N>, int<N> or bool, not of " + text(below));
  }
  Type* type = types_.make(Type::Kind::enumeration, declaration.name);
  type->declaration = &declaration;
  type->element = below;
  type->width = below->width;
  type->is_signed = below->is_signed;
  type->is_new = true;
  return type;
}

void Lowering::declare_constant(const ast::Declaration& declaration) {
  const Type* type = resolve(*declaration.type);
  Symbol symbol;
  symbol.value = coerce(eval(*declaration.value, type), type, declaration.value->at);
  if (!is_constant(symbol.value)) {
    fail(declaration.value->at, "the value of a constant must be known at compile time");
  }
  define(declaration, symbol);
}

void Lowering::declare_enumeration(const ast::Declaration& declaration) {
  Type* type = types_.make(Type::Kind::enumeration, declaration.name);
  type->declaration = &declaration;
  Symbol symbol;
  symbol.kind = Symbol::Kind::type;
  symbol.type = type;
  define(declaration, symbol);
  if (declaration.type != nullptr) {
    type->element = resolve(*declaration.type);
    if (!type->element->is_bits()) {
      fail(declaration.at, "an enumeration is based on a bit<N> or int<N>");
    }
    type->width = type->element->width;
    type->is_signed = type->element->is_signed;
  }
  in_scope(scope_, [&] { enumeration_members(declaration, *type); });
}

// A member's value may name those before it.
void Lowering::enumeration_members(const ast::Declaration& declaration, Type& made) {
  Type* type = &made;
  for (const ast::Member& member : declaration.members) {
    if (std::find(type->members.begin(), type->members.end(), member.name) != type->members.end()) {
      fail(member.at, "'" + member.name + "' is there twice");
    }
    if ((member.value != nullptr) != (declaration.type != nullptr)) {
      fail(member.at, declaration.type != nullptr ? "this member needs a value" : "this enumeration has no values");
    }
    U128 value = 0;
    if (member.value != nullptr) {
      Value given = eval(*member.value, type->element);
      if (given.type == type) {
        given.type = type->element;  // a member before
      }
      if (given.kind == Value::Kind::integer && !given.number.fits(type->width, type->is_signed)) {
        fail(member.at, text(given.number) + " does not fit " + text(type->element));
      }
      given = coerce(given, type->element, member.at);
      if (!is_constant(given)) {
        fail(member.at, "the value must be known at compile time");
      }
      value = constant_value(given.expr);
    }
    type->members.push_back(member.name);
    type->values.push_back(value);
    if (type->element != nullptr) {
      scope_->names[member.name].value = scalar_value(constant(value, type->width), type);
    }
  }
}

namespace {

// A structure in a header has numbers only. Source: the P4_16 specification, "Type nesting rules".
bool fits_header(const Type* type) {
  return has_bits(type) || (type->kind == Type::Kind::structure &&
                            std::all_of(type->fields.begin(), type->fields.end(),
                                        [](const FieldType& field) { return fits_header(field.type); }));
}

}  // namespace

Type* Lowering::declare_structure(const ast::Declaration& declaration) {
  const Type::Kind kind = declaration.kind == DeclarationKind::structure ? Type::Kind::structure
                          : declaration.kind == DeclarationKind::header  ? Type::Kind::header
                                                                         : Type::Kind::header_union;
  Type* type = types_.make(kind, declaration.name);
  type->declaration = &declaration;
  type->slots = kind == Type::Kind::header ? 1 : 0;
  for (const ast::Field& field : declaration.fields) {
    const Type* of = resolve(*field.type);
    for (const FieldType& other : type->fields) {
      if (other.name == field.name) {
        fail(field.at, "the field '" + field.name + "' is there twice");
      }
    }
    const bool fits = kind == Type::Kind::header_union ? of->kind == Type::Kind::header
                      : kind == Type::Kind::header     ? fits_header(of) || of->kind == Type::Kind::varbit
                                                       : of->is_data();
    if (!fits) {
      fail(field.at, "this cannot have a field of type " + text(of));
    }
    if (of->slots > 100'000 || type->slots > 100'000) {
      unsupported(field.at, "a structure this large");
    }
    type->fields.push_back({field.name, of, field.at, &field.annotations});
    type->slots += of->slots;
  }
  return type;
}

// One type for each list of arguments.
const Type* Lowering::generic_structure(const ast::Declaration& declaration, const ast::Type& use) {
  if (use.arguments.size() != declaration.type_parameters.size()) {
    fail(use.at, fmt::format("'{}' has {} type parameters", use.name, declaration.type_parameters.size()));
  }
  std::vector<const Type*> arguments;
  std::string name;
  for (const ast::TypePtr& argument : use.arguments) {
    arguments.push_back(resolve(*argument));
    name += (name.empty() ? "" : ", ") + text(arguments.back());
  }
  const std::pair key{&declaration, arguments};
  if (const auto known = structures_.find(key); known != structures_.end()) {
    return known->second;
  }
  in_scope(global_, [&] {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      Symbol symbol;
      symbol.kind = Symbol::Kind::type;
      symbol.type = arguments[i];
      scope_->names[declaration.type_parameters[i]] = symbol;
    }
    Type* made = declare_structure(declaration);
    made->name = fmt::format("{}<{}>", declaration.name, name);
    structures_[key] = made;
  });
  return structures_.at(key);
}

const Type* Lowering::varbit(const ast::Type& type) {
  if (type.width == nullptr) {
    fail(type.at, "varbit needs its largest width: varbit<N>");
  }
  const Number width = constant_number(*type.width);
  if (width.negative || width.magnitude == 0 || width.magnitude > kLargestVarbit) {
    unsupported(type.at, fmt::format("a varbit of {} bits; from 1 to {}", text(width), kLargestVarbit));
  }
  return types_.varbit(static_cast<unsigned>(width.magnitude));
}

const Type* Lowering::resolve(const ast::Type& type) {
  switch (type.kind) {
    case ast::TypeKind::bits:
    case ast::TypeKind::integer: {
      const bool is_signed = type.kind == ast::TypeKind::integer;
      if (type.width == nullptr) {
        return types_.bits(1, false);
      }
      const Number width = constant_number(*type.width);
      if (width.negative || width.magnitude == 0) {
        width.negative ? fail(type.at, "a width cannot be negative") : unsupported(type.at, "a width of 0");
      }
      const unsigned widest = is_signed ? kWidest : kLargestVarbit;
      if (width.magnitude > widest) {
        unsupported(type.at, fmt::format("a width of {} bits; at most {}", text(width), widest));
      }
      if (width.magnitude > kWidest) {
        return types_.wide(static_cast<unsigned>(width.magnitude));
      }
      return types_.bits(static_cast<unsigned>(width.magnitude), is_signed);
    }
    case ast::TypeKind::varbit:
      return varbit(type);
    case ast::TypeKind::boolean:
      return types_.boolean;
    case ast::TypeKind::error:
      return types_.error;
    case ast::TypeKind::string:
      return types_.string;
    case ast::TypeKind::any_integer:
      return types_.any_integer;
    case ast::TypeKind::none:
      return types_.none;
    case ast::TypeKind::any:
      unsupported(type.at, "the type _");
    case ast::TypeKind::tuple: {
      std::vector<const Type*> elements;
      for (const ast::TypePtr& element : type.arguments) {
        elements.push_back(resolve(*element));
        if (!elements.back()->is_data()) {
          fail(element->at, "a tuple cannot have an element of type " + text(elements.back()));
        }
      }
      return types_.tuple(elements);
    }
    case ast::TypeKind::stack: {
      const Type* element = resolve(*type.arguments[0]);
      if (element->kind != Type::Kind::header && element->kind != Type::Kind::header_union) {
        unsupported(type.at, "an array of " + text(element));
      }
      const Number count = constant_number(*type.width);
      if (count.negative || count.magnitude == 0) {
        fail(type.at, "a stack has at least one element");
      }
      if (count.magnitude > kLargestStack) {
        unsupported(type.at, fmt::format("a stack of more than {} elements", kLargestStack));
      }
      return types_.stack(element, static_cast<int>(count.magnitude));
    }
    case ast::TypeKind::name:
      break;
  }
  const Symbol* symbol = find(type.name, type.global);
  if (symbol == nullptr || (symbol->kind != Symbol::Kind::type && symbol->kind != Symbol::Kind::declaration)) {
    if (symbol == nullptr && type.name == "list") {
      unsupported(type.at, "the type list<T>");
    }
    fail(type.at, symbol == nullptr ? not_found(type.name, "there is no type '" + type.name + "'")
                                    : "'" + type.name + "' is no type");
  }
  if (symbol->kind == Symbol::Kind::type) {
    if (!type.arguments.empty()) {
      fail(type.at, "'" + type.name + "' has no type parameters");
    }
    return symbol->type;
  }
  const ast::Declaration& declaration = *symbol->declaration;
  if (declaration.kind == DeclarationKind::structure || declaration.kind == DeclarationKind::header ||
      declaration.kind == DeclarationKind::header_union) {
    return generic_structure(declaration, type);
  }
  Type* made = types_.make(Type::Kind::object, declaration.name);
  made->declaration = &declaration;
  if (type.arguments.size() > declaration.type_parameters.size()) {
    fail(type.at, fmt::format("'{}' has {} type parameters", type.name, declaration.type_parameters.size()));
  }
  for (const ast::TypePtr& argument : type.arguments) {
    made->arguments.push_back(resolve(*argument));
  }
  return made;
}

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
  const auto argument = [&](std::size_t which) -> const ast::Expr& { return *arguments[which]; };
  const auto size = [&]() {
    const Number number = constant_number(argument(0));
    if (number.negative || number.magnitude > (U128{1} << 28)) {
      unsupported(argument(0).at, "an array of " + text(number) + " elements");
    }
    return static_cast<std::size_t>(number.magnitude);
  };
  if (kind == "register") {
    const Type* element = type->arguments.empty() ? nullptr : type->arguments[0];
    const bool has_bits =
        element != nullptr &&
        (element->is_bits() || (element->kind == Type::Kind::enumeration && element->element != nullptr));
    if (!has_bits) {
      unsupported(instance.at,
                  "a register of " + (type->arguments.empty() ? "an unknown type" : text(type->arguments[0])));
    }
    object->index = static_cast<int>(out_.info.registers.size());
    out_.info.registers.push_back({object->name, type->arguments[0]->width, size()});
    std::size_t bytes = 0;
    for (const RegisterInfo& one : out_.info.registers) {
      bytes += one.size * (one.width > 64 ? 16 : 8);
    }
    if (bytes > kMostRegisterBytes) {
      unsupported(instance.at, "registers of more than 1 GiB in all (an element takes 8 bytes, above 64 bits 16)");
    }
  } else if (kind == "counter" || kind == "direct_counter") {
    const bool direct = kind == "direct_counter";
    const Value given = eval(argument(direct ? 0 : 1));
    if (given.type == nullptr || given.type->name != "CounterType" || !is_constant(given)) {
      fail(instance.at, "expected a member of CounterType");
    }
    object->index = static_cast<int>(out_.info.counters.size());
    out_.info.counters.push_back(
        {object->name, static_cast<CounterKind>(constant_value(given.expr)), direct ? 0 : size(), -1});
  } else if (kind == "action_selector") {
    object->index = algorithm(argument(0));
    for (const std::size_t number : {std::size_t{1}, std::size_t{2}}) {
      static_cast<void>(constant_number(argument(number)));
    }
  } else if (kind != "meter" && kind != "direct_meter" && kind != "action_profile" && kind != "Checksum16") {
    unsupported(instance.at, "the extern " + kind);
  }
  return object;
}

namespace {

bool is_instance_of(const Value& value, const Type* type) {
  if (value.kind != Value::Kind::object || type->declaration == nullptr) {
    return false;
  }
  const Object& object = *value.object;
  if (object.kind == Object::Kind::extern_instance) {
    return object.type->declaration == type->declaration && object.type->arguments == type->arguments;
  }
  return (object.kind == Object::Kind::control || object.kind == Object::Kind::parser) &&
         object.declaration == type->declaration;
}

}  // namespace

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
        local_variable(*local);
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

// Two instances in each of thirty controls are a thousand million.
void Lowering::count_instance(Location at) const {
  if (out_.routines.size() + out_.parsers.size() >= kMostInstances) {
    unsupported(at, fmt::format("more than {} instances of controls, parsers, actions and functions", kMostInstances));
  }
}

Object* Lowering::control_instance(const ast::Declaration& declaration, const std::vector<Value>& arguments,
                                   std::string name, const std::vector<Value>* places) {
  if (!declaration.type_parameters.empty()) {
    unsupported(declaration.at, "a generic control");
  }
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
  Object*& known = functions_[{&declaration, types, externs}];
  if (known != nullptr) {
    return known;
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
    for (std::size_t i = 0; i < types.size(); ++i) {
      Symbol symbol;
      symbol.kind = Symbol::Kind::type;
      symbol.type = types[i];
      scope_->names[declaration.type_parameters[i]] = symbol;
    }
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
  functions_[{&declaration, types, externs}] = object;
  return object;
}

}  // namespace sidelatch::p4
