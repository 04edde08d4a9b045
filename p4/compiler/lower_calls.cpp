#include "lower.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::p4 {

using ast::Direction;
using ast::ExprKind;

Value Lowering::call(const ast::Expr& expr, const Type* expected) {
  const ast::Expr& callee = *expr.operands[0];
  if (callee.kind == ExprKind::member) {
    return call_method(expr, expected);
  }
  if (callee.kind == ExprKind::type) {
    unsupported(callee.at, "a constructor among expressions");
  }
  if (callee.kind == ExprKind::name && is_old_extern(callee.text) && find(callee.text, callee.global) == nullptr) {
    std::vector<const ast::Expr*> arguments;
    for (std::size_t i = 1; i < expr.operands.size(); ++i) {
      arguments.push_back(expr.operands[i].get());
    }
    old_extern(callee.text, arguments, expr.at);
    return {};
  }
  const Value target = eval(callee);
  if (target.kind == Value::Kind::type) {
    unsupported(callee.at, "a constructor among expressions");
  }
  if (target.kind != Value::Kind::object || !target.text.empty()) {
    fail(callee.at, "this cannot be called");
  }
  if (const auto shadowed = shadowed_.find(callee.text);
      callee.kind == ExprKind::name && shadowed != shadowed_.end() && target.object->declaration != nullptr &&
      target.object->kind == Object::Kind::function &&
      target.object->declaration->kind != ast::DeclarationKind::function) {
    return extern_call(*shadowed->second, expr);
  }
  Object& object = *target.object;
  switch (object.kind) {
    case Object::Kind::action:
      return call_action(object, expr);
    case Object::Kind::extern_functions:
      return extern_call(object, expr);
    case Object::Kind::function: {
      if (object.declaration == nullptr || object.declaration->kind != ast::DeclarationKind::function) {
        if (object.declaration != nullptr && (object.declaration->kind == ast::DeclarationKind::control ||
                                              object.declaration->kind == ast::DeclarationKind::parser)) {
          unsupported(callee.at, "a constructor among expressions");
        }
        fail(callee.at, "this cannot be called");
      }
      const ast::Declaration& chosen = overload(*object.declaration, expr);
      std::vector<const Type*> types;
      types.reserve(expr.type_arguments.size());
      for (const ast::TypePtr& type : expr.type_arguments) {
        types.push_back(resolve(*type));
      }
      if (types.empty() && !chosen.type_parameters.empty()) {
        types = inferred(chosen, expr, expected);
      }
      return call_object(*function(chosen, types, externs_of(chosen, expr, types)), expr, expr.at);
    }
    default:
      fail(callee.at, "this cannot be called; do you mean .apply()?");
  }
}

// Of the functions with this name the one whose parameters fit the number of arguments, or their names.
const ast::Declaration& Lowering::overload(const ast::Declaration& first, const ast::Expr& expr) {
  const auto found = overloads_.find(&first);
  if (found == overloads_.end()) {
    return first;
  }
  std::vector<const ast::Declaration*> all{&first};
  all.insert(all.end(), found->second.begin(), found->second.end());
  std::vector<const ast::Declaration*> fitting;
  for (const ast::Declaration* one : all) {
    const std::vector<ast::Parameter>& parameters = one->parameters;
    const std::size_t given = expr.operands.size() - 1;
    bool fits = given <= parameters.size();
    for (const std::string& name : expr.names) {
      fits = fits && std::any_of(parameters.begin(), parameters.end(),
                                 [&](const ast::Parameter& parameter) { return parameter.name == name; });
    }
    for (std::size_t i = 0; i < parameters.size() && fits; ++i) {
      const bool is_given =
          expr.names.empty() ? i < given
                             : std::find(expr.names.begin(), expr.names.end(), parameters[i].name) != expr.names.end();
      fits = is_given || parameters[i].otherwise != nullptr;
    }
    if (fits) {
      fitting.push_back(one);
    }
  }
  if (fitting.size() != 1) {
    fail(expr.at, fmt::format("{} of the functions with the name '{}' take{} these arguments",
                              fitting.empty() ? "none" : "several", first.name, fitting.empty() ? "s" : ""));
  }
  return *fitting[0];
}

// What `given` says about the type parameters in the type of a parameter.
void Lowering::match_type(const ast::Declaration& generic, const ast::Type& written, const Type* given,
                          std::vector<const Type*>& types) const {
  if (given == nullptr || given == types_.any_integer) {
    return;
  }
  const auto match_all = [&](const auto& type_of) {
    for (std::size_t i = 0; i < written.arguments.size(); ++i) {
      match_type(generic, *written.arguments[i], type_of(i), types);
    }
  };
  if (written.kind == ast::TypeKind::stack && given->kind == Type::Kind::stack) {
    match_type(generic, *written.arguments[0], given->element, types);
  } else if (written.kind == ast::TypeKind::tuple && given->kind == Type::Kind::tuple &&
             written.arguments.size() == given->fields.size()) {
    match_all([&](std::size_t i) { return given->fields[i].type; });
  } else if (written.kind == ast::TypeKind::name && written.arguments.empty()) {
    const auto found = std::find(generic.type_parameters.begin(), generic.type_parameters.end(), written.name);
    if (found != generic.type_parameters.end()) {
      const Type*& type = types[static_cast<std::size_t>(found - generic.type_parameters.begin())];
      type = type == nullptr ? given : type;
    }
  } else if (written.kind == ast::TypeKind::name && written.arguments.size() == given->arguments.size()) {
    const Symbol* symbol = find(written.name, true);
    if (symbol != nullptr && symbol->declaration != nullptr && symbol->declaration == given->declaration) {
      match_all([&](std::size_t i) { return given->arguments[i]; });
    }
  }
}

// What the arguments, or else what is expected of the call, say about the type parameters.
std::vector<const Type*> Lowering::infer(const ast::Declaration& generic, const ast::Expr& expr, const Type* expected) {
  std::vector<const Type*> types(generic.type_parameters.size());
  // For their types alone: what they do comes with the call.
  static_cast<void>(collect([&] {
    const std::vector<const ast::Expr*> arguments = arguments_of(expr, generic.parameters);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i]->kind != ExprKind::any) {
        const Value given = eval(*arguments[i]);
        const bool is_extern = given.kind == Value::Kind::object && given.object->kind == Object::Kind::extern_instance;
        match_type(generic, *generic.parameters[i].type, is_extern ? given.object->type : given.type, types);
      }
    }
  }));
  match_type(generic, *generic.type, expected, types);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == nullptr) {
      fail(expr.at, fmt::format("the arguments do not say what the type {} is; write {}<...>(...)",
                                generic.type_parameters[i], generic.name));
    }
  }
  return types;
}

const std::vector<const Type*>& Lowering::inferred(const ast::Declaration& generic, const ast::Expr& expr,
                                                   const Type* expected) {
  const std::tuple key{&expr, function_, instance_, expected};
  const auto known = inferred_.find(key);
  return known != inferred_.end() ? known->second
                                  : inferred_.emplace(key, infer(generic, expr, expected)).first->second;
}

Value Lowering::call_method(const ast::Expr& expr, const Type* expected) {
  const ast::Expr& callee = *expr.operands[0];
  Value base = eval(*callee.operands[0]);
  const bool is_written = base.kind == Value::Kind::list || base.kind == Value::Kind::invalid;
  if (is_written && base.type != nullptr && base.type->kind == Type::Kind::header) {  // ((HEADER){...}).isValid()
    const Value place = new_place(base.type);
    initialise(place, base, callee.at);
    base = place;
    base.writable = false;
  }
  const bool is_size = callee.text.starts_with("minSizeIn") || callee.text.starts_with("maxSizeIn");
  if (is_size && base.type != nullptr && base.kind != Value::Kind::object) {
    return size_of(base.type, expr);
  }
  if (base.kind == Value::Kind::place) {
    return data_method(base, expr);
  }
  if (base.kind != Value::Kind::object) {
    fail(callee.at, "this has no method '" + callee.text + "'");
  }
  if (!base.text.empty()) {
    fail(callee.operands[0]->at, "this has no member '" + base.text + "'");
  }
  Object* object = base.object;
  if (object->kind == Object::Kind::function && object->declaration != nullptr &&
      (object->declaration->kind == ast::DeclarationKind::control ||
       object->declaration->kind == ast::DeclarationKind::parser) &&
      callee.text == "apply") {
    // TYPE.apply(): an instance of its own for this place.
    std::string instance = prefix_.empty() ? object->declaration->name : prefix_ + "." + object->declaration->name;
    if (const unsigned earlier = direct_[instance]++; earlier > 0) {
      instance += fmt::format("_{}", earlier);
    }
    object = object->declaration->kind == ast::DeclarationKind::control
                 ? control_instance(*object->declaration, {}, instance, nullptr)
                 : parser_instance(*object->declaration, {}, instance, nullptr);
  }
  switch (object->kind) {
    case Object::Kind::packet_in:
      return packet_in_method(expr, callee.text, expected);
    case Object::Kind::packet_out:
      return packet_out_method(expr, callee.text);
    case Object::Kind::extern_instance:
      return extern_method(*object, callee.text, expr);
    case Object::Kind::table:
      if (callee.text != "apply" || expr.operands.size() != 1 || !expr.type_arguments.empty()) {
        fail(callee.at, "a table has the method apply() only");
      }
      return apply_table(*object, expr.at);
    case Object::Kind::control:
    case Object::Kind::parser:
      if (callee.text != "apply") {
        fail(callee.at, "this has no method '" + callee.text + "'");
      }
      if (!expr.type_arguments.empty()) {
        fail(expr.at, "'apply' has no type parameters");
      }
      if ((object->kind == Object::Kind::parser) != (where_ == Where::parser) ||
          (object->kind == Object::Kind::control && where_ != Where::control)) {
        fail(callee.at, "a parser is applied in parsers, a control in the apply block of controls");
      }
      if (object->waits) {
        lower_waiting(*object, expr);
      }
      check_kept(*object, expr);
      return call_object(*object, expr, expr.at);
    default:
      fail(callee.at, "this has no method '" + callee.text + "'");
  }
}

// minSizeInBits and its kin. Source: the P4_16 specification, "Compile-time size determination".
Value Lowering::size_of(const Type* type, const ast::Expr& expr) {
  const ast::Expr& callee = *expr.operands[0];
  const std::string_view unit = std::string_view(callee.text).substr(std::string_view("minSize").size());
  if ((unit != "InBits" && unit != "InBytes") || expr.operands.size() != 1) {
    fail(callee.at, "a value of type " + text(type) + " has no method '" + callee.text + "' with these arguments");
  }
  const bool most = callee.text.starts_with("max");
  const std::function<std::uint64_t(const Type*)> bits_of_type = [&](const Type* inner) -> std::uint64_t {
    std::uint64_t sum = 0;
    switch (inner->kind) {
      case Type::Kind::varbit:
        return most ? inner->width : 0;
      case Type::Kind::stack:
        return static_cast<std::uint64_t>(inner->count) * bits_of_type(inner->element);
      case Type::Kind::header_union:
        for (const FieldType& field : inner->fields) {
          sum = std::max(sum, bits_of_type(field.type));
        }
        return sum;
      case Type::Kind::header:
      case Type::Kind::structure:
      case Type::Kind::tuple:
        for (const FieldType& field : inner->fields) {
          sum += bits_of_type(field.type);
        }
        return sum;
      default:
        if (!has_bits(inner)) {
          fail(callee.at, "a value of type " + text(inner) + " has no size");
        }
        return inner->width;
    }
  };
  const std::uint64_t bits = bits_of_type(type);
  return integer_value(Number::of(unit == "InBits" ? bits : (bits + 7) / 8));
}

Value Lowering::data_method(const Value& base, const ast::Expr& expr) {
  const ast::Expr& callee = *expr.operands[0];
  const std::string& method = callee.text;
  const Type* type = base.type;
  if (base.kind != Value::Kind::place) {
    fail(callee.at, "this has no method '" + method + "'");
  }
  if (!expr.type_arguments.empty()) {
    fail(expr.at, "'" + method + "' has no type parameters");
  }
  if (type->kind == Type::Kind::header) {
    if (method == "isValid" && expr.operands.size() == 1) {
      return scalar_value(load(base.place, 1), types_.boolean);
    }
    if ((method == "setValid" || method == "setInvalid") && expr.operands.size() == 1) {
      if (!base.writable) {
        fail(callee.at, "this header is read-only here");
      }
      set_validity(base, method == "setValid", callee.at);
      return {};
    }
  }
  if (type->kind == Type::Kind::header_union && method == "isValid" && expr.operands.size() == 1) {
    return scalar_value(any_valid(base), types_.boolean);
  }
  if (type->kind == Type::Kind::stack && (method == "push_front" || method == "pop_front") &&
      expr.operands.size() == 2) {
    if (!base.writable) {
      fail(callee.at, "this stack is read-only here");
    }
    const Number count = constant_number(*expr.operands[1]);
    if (count.negative || count.magnitude == 0) {
      fail(expr.at, "the count must be positive");
    }
    const int which = stack_type(type);
    ir::Statement& made = add(method == "push_front" ? ir::Do::push : ir::Do::pop, callee.at);
    made.to = base.place;
    made.which = which;
    made.count =
        count.magnitude > static_cast<unsigned>(type->count) ? type->count : static_cast<int>(count.magnitude.low());
    return {};
  }
  fail(callee.at, "a value of type " + text(type) + " has no method '" + method + "'");
}

// The arguments by position of the parameter; null: left out.
std::vector<const ast::Expr*> Lowering::arguments_of(const ast::Expr& expr,
                                                     std::span<const ast::Parameter> parameters) {
  return in_order(std::span(expr.operands).subspan(1), expr.names, parameters, expr.at);
}

// Numbers of parameters: those whose arguments are given, in the order in which the call has them, then the others.
std::vector<std::size_t> Lowering::as_written(const ast::Expr& expr, std::span<const ast::Parameter> parameters) {
  std::vector<std::size_t> order;
  for (const std::string& name : expr.names) {
    const auto found = std::ranges::find(parameters, name, &ast::Parameter::name);
    order.push_back(static_cast<std::size_t>(found - parameters.begin()));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (std::ranges::find(order, i) == order.end()) {
      order.push_back(i);
    }
  }
  return order;
}

// One argument for each parameter, in the order of the parameters; what is left out has its default.
std::vector<const ast::Expr*> Lowering::in_order(std::span<const ast::ExprPtr> given,
                                                 const std::vector<std::string>& names,
                                                 std::span<const ast::Parameter> parameters, Location at) {
  std::vector<const ast::Expr*> arguments(parameters.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    std::size_t which = i;
    if (!names.empty()) {
      for (which = 0; which < parameters.size() && parameters[which].name != names[i]; ++which) {
      }
    }
    if (which >= parameters.size()) {
      fail(given[i]->at, names.empty() ? fmt::format("too many arguments; there are {} parameters", parameters.size())
                                       : "there is no parameter '" + names[i] + "'");
    }
    if (arguments[which] != nullptr) {
      fail(given[i]->at, "this argument is given twice");
    }
    arguments[which] = given[i].get();
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (arguments[i] == nullptr) {
      arguments[i] = parameters[i].otherwise.get();
    }
    if (arguments[i] == nullptr) {
      const ast::Annotations& notes = parameters[i].annotations;
      if (std::any_of(notes.begin(), notes.end(), [](const auto& note) { return note.name == "optional"; })) {
        unsupported(at, "an @optional parameter without its argument");
      }
      fail(at, "the argument for '" + parameters[i].name + "' is missing");
    }
  }
  return arguments;
}

std::vector<Value> Lowering::constructor_arguments(const ast::Declaration& declaration,
                                                   std::span<const ast::ExprPtr> given,
                                                   const std::vector<std::string>& names, Location at,
                                                   const std::string& name) {
  std::vector<Value> values;
  const std::vector<const ast::Expr*> arguments = in_order(given, names, declaration.constructor_parameters, at);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ast::Parameter& parameter = declaration.constructor_parameters[i];
    in_scope(arguments[i] == parameter.otherwise.get() ? global_ : scope_, [&] {
      Value value;
      value.object = nameless(*arguments[i], parameter.name, name);
      value.kind = Value::Kind::object;
      values.push_back(value.object != nullptr ? value : eval(*arguments[i]));
    });
  }
  return values;
}

// TYPE(...) as an argument of a constructor: an instance that has the name of the parameter. Null: another expression.
Object* Lowering::nameless(const ast::Expr& expr, const std::string& name, const std::string& prefix) {
  if (expr.kind != ExprKind::call) {
    return nullptr;
  }
  const ast::Expr& callee = *expr.operands[0];
  ast::TypePtr type = callee.kind == ExprKind::type ? callee.type : nullptr;
  if (callee.kind == ExprKind::name) {
    const Symbol* symbol = find(callee.text, callee.global);
    const bool is_constructor = symbol != nullptr && symbol->declaration != nullptr &&
                                (symbol->declaration->kind == ast::DeclarationKind::control ||
                                 symbol->declaration->kind == ast::DeclarationKind::parser ||
                                 symbol->declaration->kind == ast::DeclarationKind::extern_object);
    if (!is_constructor) {
      return nullptr;
    }
    type = std::make_shared<ast::Type>();
    type->at = callee.at;
    type->kind = ast::TypeKind::name;
    type->name = callee.text;
    type->arguments = expr.type_arguments;
    type->global = callee.global;
  }
  if (type == nullptr) {
    return nullptr;
  }
  ast::Declaration& instance = made_here_.emplace_back();
  instance.at = expr.at;
  instance.kind = ast::DeclarationKind::instance;
  instance.name = name;
  instance.type = std::move(type);
  instance.arguments.assign(expr.operands.begin() + 1, expr.operands.end());
  instance.argument_names = expr.names;
  return instantiate(instance, prefix);
}

bool Lowering::is_known(const Value& value) const {
  return value.is_known || value.kind == Value::Kind::invalid || is_constant(value) ||
         (value.kind == Value::Kind::list &&
          std::all_of(value.items.begin(), value.items.end(), [this](const Value& item) { return is_known(item); }));
}

// Copies arguments in; what is to be copied out goes to `after`. `known`: parameters without a direction have values
// that are known when the program is compiled, as those of all but actions (P4-16, 6.8). All in the order in which the
// call has its arguments.
void Lowering::pass(const ast::Expr& call, const std::vector<ast::Parameter>& parameters,
                    const std::vector<Value>& slots, ir::Block& after, bool known) {
  const std::vector<const ast::Expr*> arguments = arguments_of(call, parameters);
  const std::vector<std::size_t> order = as_written(call, parameters);
  std::vector<const ast::Expr*> in_turn;
  in_turn.reserve(order.size());
  for (const std::size_t i : order) {
    in_turn.push_back(arguments[i]);
  }
  const std::vector<bool> changed = changed_later(in_turn);
  // All but those of actions are `known`; what is called in an argument of an action is within it, too.
  const char* const outer = no_table_;
  no_table_ = known ? no_table_ : "a table is not applied in an argument of an action";
  std::vector<Value> values(arguments.size());
  for (std::size_t turn = 0; turn < order.size(); ++turn) {
    const std::size_t i = order[turn];
    const ast::Expr& argument = *arguments[i];
    const Value& slot = slots[i];
    if (slot.kind == Value::Kind::object) {
      const Value given = eval(argument);
      if (given.kind != Value::Kind::object || given.object->kind != slot.object->kind) {
        fail(argument.at, "this is not what the parameter '" + parameters[i].name + "' needs");
      }
      continue;
    }
    const bool changes = changed[turn];
    const Direction direction = parameters[i].direction;
    if (direction == Direction::in || direction == Direction::none) {
      values[i] = coerce(eval(argument, slot.type), slot.type, argument.at);
      if (known && direction == Direction::none && !is_known(values[i])) {
        fail(argument.at, "the parameter '" + parameters[i].name +
                              "' has no direction, so its argument must be known when the program is compiled; a value "
                              "of the packet needs a parameter with 'in'");
      }
      values[i] = changes ? keep(values[i], argument.at) : values[i];
      continue;
    }
    if (argument.kind == ExprKind::any && direction == Direction::out) {
      continue;
    }
    const Value place = place_of(argument);
    if (place.type != slot.type) {
      fail(argument.at,
           "the parameter '" + parameters[i].name + "' has the type " + text(slot.type) + ", not " + text(place.type));
    }
    if (direction == Direction::inout) {
      values[i] = changes ? keep(place, argument.at) : place;
    }
    ir::Block out = collect([&] { store(place, slot, argument.at); });
    std::move(out.begin(), out.end(), std::back_inserter(after));
  }
  no_table_ = outer;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Value& slot = slots[i];
    if (slot.kind == Value::Kind::object) {
      continue;
    }
    if (parameters[i].direction == Direction::out) {
      declare_unassigned(slot, parameters[i].name, arguments[i]->at);
    } else {
      initialise(slot, values[i], arguments[i]->at);
    }
  }
}

Value Lowering::call_object(Object& object, const ast::Expr& expr, Location at) {
  const std::vector<ast::Parameter>& parameters = object.declaration->parameters;
  ir::Block after;
  pass(expr, parameters, object.parameters, after, object.kind != Object::Kind::action);
  const bool is_parser = object.kind == Object::Kind::parser;
  ir::Statement& made = add(is_parser ? ir::Do::run_parser : ir::Do::call, at);
  made.which = object.index;
  made.yes = std::move(after);
  if (object.result.kind != Value::Kind::place) {
    return {};
  }
  return keep(object.result, at);
}

Value Lowering::call_action(Object& action, const ast::Expr& expr) {
  if (where_ == Where::parser || where_ == Where::function) {
    fail(expr.at, "an action is called from controls and actions");
  }
  if (!expr.type_arguments.empty()) {
    fail(expr.at, "an action has no type parameters");
  }
  return call_object(action, expr, expr.at);
}

Value Lowering::apply_table(Object& table, Location at) {
  if (where_ != Where::control) {
    fail(at, "a table is applied in the apply block of a control");
  }
  if (no_table_ != nullptr) {
    fail(at, no_table_);
  }
  ++table.uses;
  add(ir::Do::apply, at).which = table.index;
  // A structure with hit, miss and action_run.
  const ir::Table& made = out_.tables[static_cast<std::size_t>(table.index)];
  ir::Place hit;
  hit.slot = made.hit_slot;
  Value result;
  result.kind = Value::Kind::list;
  result.names = {"hit", "miss"};
  const int is_hit = load(hit, 1);
  result.items = {scalar_value(is_hit, types_.boolean), scalar_value(logical_not(is_hit), types_.boolean)};
  return result;
}

}  // namespace sidelatch::p4
