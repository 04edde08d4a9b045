#include "lower.h"
#include "parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>

namespace sidelatch::p4 {

using ast::Direction;
using ast::ExprKind;

namespace {

constexpr std::size_t kMostKeys = 64;
// Entry::priority says why.
constexpr int kHighestPriority = 10'000;
constexpr unsigned kLowestPriority = 1'000'000'000;
constexpr std::uint64_t kLargestTable = std::uint64_t{1} << 32;
constexpr std::string_view kLargestWins = "largest_priority_wins";
constexpr std::string_view kDelta = "priority_delta";
constexpr std::string_view kImplementation = "implementation";

bool has_annotation(const ast::Annotations& annotations, std::string_view name) {
  return std::any_of(annotations.begin(), annotations.end(), [&](const auto& one) { return one.name == name; });
}

bool is_prefix(U128 mask, unsigned width) {
  const U128 rest = ~mask & ones(width);
  return (rest & (rest + 1)) == 0;
}

}  // namespace

bool Lowering::is_value_set(const ast::Expr& expr) const {
  const Symbol* symbol = expr.kind == ExprKind::name ? find(expr.text, expr.global) : nullptr;
  return symbol != nullptr && symbol->kind == Symbol::Kind::object && symbol->object->kind == Object::Kind::value_set;
}

Object* Lowering::begin_table(Object::Kind kind, const ast::Declaration& declaration, const std::string& prefix,
                              ir::Table& made, TableInfo& info) {
  Object* object = new_object(kind, &declaration);
  info.name = control_name(declaration, prefix);
  object->name = info.name;
  made.hit_slot = new_slots(types_.boolean);
  made.action_slot = new_slots(types_.bits(32, false));
  return object;
}

void Lowering::add_table(Object& object, ir::Table made, TableInfo info) {
  if (!table_names_.insert(info.name).second) {
    fail(object.declaration->at, "two tables or value sets have the name '" + info.name + "' for the control plane");
  }
  object.index = static_cast<int>(out_.tables.size());
  if (made.direct_counter >= 0) {
    out_.info.counters[static_cast<std::size_t>(made.direct_counter)].table = object.index;
  }
  out_.tables.push_back(std::move(made));
  out_.info.tables.push_back(std::move(info));
}

// A table that the parser applies: its keys are slots, which each use fills.
Object* Lowering::value_set(const ast::Declaration& declaration, const std::string& prefix) {
  ir::Table made;
  TableInfo info;
  Object* object = begin_table(Object::Kind::value_set, declaration, prefix, made, info);
  const Type* type = resolve(*declaration.type);
  // Source: the P4_16 specification, "Select expressions".
  const bool may_be = type->is_bits() || type->is_wide || type->is_new || type->is_serializable() ||
                      type->kind == Type::Kind::structure || type->kind == Type::Kind::tuple;
  if (!may_be) {
    fail(declaration.at,
         "the members of a value_set are numbers, serializable enums, structures or tuples, not " + text(type));
  }
  const auto add_key = [&](const Type* part, const std::string& key) {
    if (!part->is_scalar() || part->is_signed) {
      unsupported(declaration.at, "a value_set of " + text(type));
    }
    if (made.keys.size() == kMostKeys) {
      unsupported(declaration.at, fmt::format("a value_set of more than {} fields", kMostKeys));
    }
    object->parameters.push_back(new_place(part));
    made.keys.push_back(scalar(object->parameters.back(), declaration.at));
    info.keys.push_back({key, MatchKind::ternary, part->width});
  };
  // A structure in a structure is the keys that it has: INNER.FIELD.
  const std::function<void(const Type*, const std::string&)> add = [&](const Type* part, const std::string& name) {
    if (part->kind != Type::Kind::structure && part->kind != Type::Kind::tuple) {
      add_key(part, name.empty() ? "key" : name);
      return;
    }
    for (std::size_t i = 0; i < part->fields.size(); ++i) {
      const std::string own = part->kind == Type::Kind::tuple ? fmt::format("key{}", i) : part->fields[i].name;
      add(part->fields[i].type, name.empty() ? own : fmt::format("{}.{}", name, own));
    }
  };
  add(type, "");
  const Number size = constant_number(*declaration.arguments[0]);
  if (size.negative || size.magnitude > kLowestPriority) {
    fail(declaration.at, "the size of a value_set is a number of members");
  }
  info.size = static_cast<std::size_t>(size.magnitude.low());
  made.actions.emplace_back();
  info.actions.push_back({"NoAction", {}, false, false});
  add_table(*object, std::move(made), std::move(info));
  return object;
}

const Object* Lowering::value_set_of(const ast::Expr& expr) const {
  return is_value_set(expr) ? find(expr.text, expr.global)->object : nullptr;
}

ir::Set Lowering::set(const ast::Expr& expr, const Type* type) {
  ir::Set made;
  made.width = type->width;
  made.is_signed = type->is_signed;
  const Type* plain = type->is_serializable() ? type->element : type;
  const Type* number = type->element != nullptr ? type->element : type;
  if ((expr.kind == ExprKind::mask || expr.kind == ExprKind::range) && !number->is_bits()) {
    fail(expr.at, "a mask or a range is of numbers, not of " + text(type));
  }
  const auto value = [&](const ast::Expr& part) {
    Value evaluated = eval(part, type);
    const bool as_plain = type != plain && (evaluated.kind == Value::Kind::integer || evaluated.type != type);
    evaluated = coerce(evaluated, as_plain ? plain : type, part.at);
    if (!is_constant(evaluated)) {
      unsupported(part.at, "a set that is not constant");
    }
    return constant_value(evaluated.expr);
  };
  switch (expr.kind) {
    case ExprKind::any:
    case ExprKind::fallback:
      return made;
    case ExprKind::mask:
      made.kind = ir::Set::Kind::mask;
      made.b = value(*expr.operands[1]);
      made.a = value(*expr.operands[0]) & made.b;
      return made;
    case ExprKind::range:
      made.kind = ir::Set::Kind::range;
      made.a = value(*expr.operands[0]);
      made.b = value(*expr.operands[1]);
      return made;
    default:
      made.kind = ir::Set::Kind::mask;
      made.a = value(expr);
      made.b = ones(type->width);
      return made;
  }
}

Object* Lowering::table(const ast::Declaration& declaration, const std::string& prefix) {
  const ast::Table& source = *declaration.table;
  if (!source.has_actions) {
    fail(declaration.at, "the table '" + declaration.name + "' has no 'actions'");
  }
  ir::Table made;
  TableInfo info;
  Object* object = begin_table(Object::Kind::table, declaration, prefix, made, info);
  std::vector<const Type*> types;
  const Object* members = implementation(source, *object);
  const bool selects = members != nullptr && members->type->name == "action_selector";
  info.has_selector = selects;
  table_keys(source, made, info, types, selects ? members : nullptr);
  table_actions(source, *object, made, info, prefix);
  info.constant_entries = source.constant_entries;
  table_entries(source, *object, info, types);
  if (source.size != nullptr) {
    const Number size = constant_number(*source.size);
    if (size.negative) {
      fail(source.size->at, "the size of a table is a number of entries");
    }
    if (size.magnitude > kLargestTable) {
      unsupported(source.size->at, fmt::format("a table of more than {} entries", kLargestTable));
    }
    if (size.magnitude != 0) {  // 0, as for the reference compiler: none is given
      info.size = static_cast<std::size_t>(size.magnitude.low());
    }
  }
  table_properties(source, *object, made);
  add_table(*object, std::move(made), std::move(info));
  return object;
}

// The header of a key that is a field, or a field with a mask. As in the reference switch such a key is 0 if the header
// is not valid; any other expression, a slice of a field too, is computed before, from what the field holds.
std::optional<ir::Place> Lowering::header_of_key(const ast::Expr& expr, const Value& value) {
  const auto header_of = [](const Value& field) {
    return field.kind == Value::Kind::place && field.in_header && !field.sliced ? std::optional(field.header)
                                                                                : std::nullopt;
  };
  if (expr.kind != ExprKind::binary || expr.text != "&" || has_effects(expr)) {
    return header_of(value);
  }
  // What this computes stays, too: where a header of a stack is, the packet may say.
  const Value left = eval(*expr.operands[0], value.type);
  const Value right = eval(*expr.operands[1], value.type);
  return is_constant(right) ? header_of(left) : is_constant(left) ? header_of(right) : std::nullopt;
}

void Lowering::table_keys(const ast::Table& source, ir::Table& table, TableInfo& info, std::vector<const Type*>& types,
                          const Object* selector) {
  int prefixes = 0;
  if (source.keys.size() > kMostKeys) {
    unsupported(source.keys[kMostKeys].at, fmt::format("a table with more than {} keys", kMostKeys));
  }
  table.before = collect([&] {
    std::vector<const ast::Expr*> exprs;
    exprs.reserve(source.keys.size());
    for (const ast::KeyElement& key : source.keys) {
      exprs.push_back(key.value.get());
    }
    const std::vector<Value> values = eval_all(exprs, {});
    std::vector<Value> selecting;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const ast::KeyElement& key = source.keys[i];
      const Value& value = values[i];
      const std::string name = key_name(key);
      if (key.kind == "selector") {
        if (selector == nullptr) {
          fail(key.at, "a key of kind selector needs 'implementation = action_selector(...)'");
        }
        selecting.push_back(value);
        continue;
      }
      if (value.type != nullptr && value.type->is_wide) {
        unsupported(key.at, fmt::format("a key of {}; at most {} bits", text(value.type), kWidest));
      }
      if (value.type == nullptr || !value.type->is_scalar()) {
        fail(key.at, "a key is a scalar, not " + text(value.type));
      }
      KeyInfo one;
      one.name = name;
      one.width = value.type->width;
      if (!match_kinds_.contains(key.kind)) {
        fail(key.at, "there is no match kind '" + key.kind + "'");
      }
      if (key.kind == "exact") {
        one.kind = MatchKind::exact;
      } else if (key.kind == "ternary") {
        one.kind = MatchKind::ternary;
      } else if (key.kind == "lpm") {
        one.kind = MatchKind::lpm;
        if (++prefixes > 1) {
          unsupported(key.at, "two lpm keys in one table");
        }
      } else if (key.kind == "range") {
        one.kind = MatchKind::range;
      } else if (key.kind == "optional") {
        one.kind = MatchKind::optional;
      } else {
        unsupported(key.at, "the match kind " + key.kind);
      }
      if (value.type->is_signed && one.kind == MatchKind::range) {
        unsupported(key.at, "a signed key of kind range");
      }
      types.push_back(value.type);
      int read = scalar(value, key.at);
      if (const std::optional<ir::Place> header = header_of_key(*key.value, value)) {
        read = node(ir::Op::conditional, one.width, load(*header, 1), read, constant(0, one.width));
      }
      table.keys.push_back(read);
      info.keys.push_back(std::move(one));
    }
    if (selector != nullptr) {
      selector_hash(*selector, selecting, table);
    }
  });
}

// Hashes the keys that select. They say nothing about which entry matches. As in the reference switch, the number of an
// action in its group is the hash modulo the size of the group, however wide the selector's output is.
void Lowering::selector_hash(const Object& selector, const std::vector<Value>& keys, ir::Table& table) {
  constexpr unsigned kHashBits = 64;
  const Location at = selector.declaration->at;
  if (keys.empty()) {
    fail(at, "a table with an action_selector needs a key of kind selector");
  }
  Flat flat;
  flat.exprs = {constant(0, kHashBits), constant(U128{1} << kHashBits, kWidest)};
  for (const Value& key : keys) {
    flatten(key, flat, at);
  }
  table.selector_slot = new_slots(types_.bits(kHashBits, false));
  ir::Statement& made = add(ir::Do::hash, at);
  made.to.slot = table.selector_slot;
  made.count = kHashBits;
  made.which = selector.index;
  made.exprs = std::move(flat.exprs);
  made.valid = std::move(flat.valid);
  made.sizes = std::move(flat.sizes);
}

void Lowering::table_actions(const ast::Table& source, Object& object, ir::Table& table, TableInfo& info,
                             const std::string& prefix) {
  static_cast<void>(prefix);
  for (const ast::ActionReference& reference : source.actions) {
    const bool is_call = reference.call->kind == ExprKind::call;
    const ast::Expr& callee = is_call ? *reference.call->operands[0] : *reference.call;
    if (callee.kind != ExprKind::name) {
      fail(reference.at, "expected the name of an action");
    }
    const Value value = eval(callee);
    if (value.kind != Value::Kind::object || value.object->kind != Object::Kind::action) {
      fail(reference.at, "'" + callee.text + "' is no action");
    }
    Object& action = *value.object;
    ir::TableAction made;
    made.routine = action.index;
    ActionInfo one;
    one.name = action.name;
    one.only_default = has_annotation(reference.annotations, "defaultonly");
    one.only_entries = has_annotation(reference.annotations, "tableonly");
    std::vector<ast::Parameter> bound;
    std::vector<Value> slots;
    for (std::size_t i = 0; i < action.parameters.size(); ++i) {
      const ast::Parameter& parameter = action.declaration->parameters[i];
      if (parameter.direction != Direction::none) {
        bound.push_back(parameter);
        slots.push_back(action.parameters[i]);
      } else {
        const Type* type = action.parameters[i].type;
        if (!type->is_scalar()) {
          unsupported(parameter.at, "an action whose entries would give a value of type " + text(type));
        }
        made.parameters.push_back(action.parameters[i].place.slot);
        const std::string* given = ast::name_annotation(parameter.annotations);
        one.parameters.push_back({given != nullptr ? *given : parameter.name, type->width});
      }
    }
    if (!bound.empty() || (is_call && reference.call->operands.size() > 1)) {
      if (!is_call) {
        fail(reference.at, "the arguments for the parameters with a direction are missing");
      }
      made.before = collect([&] { pass(*reference.call, bound, slots, made.after); });
    }
    if (std::find(object.action_names.begin(), object.action_names.end(), callee.text) != object.action_names.end()) {
      fail(reference.at, "'" + callee.text + "' is there twice");
    }
    object.actions.push_back(&action);
    object.action_names.push_back(callee.text);
    object.action_calls.push_back(reference.call.get());
    table.actions.push_back(std::move(made));
    info.actions.push_back(std::move(one));
  }
  info.constant_default = source.constant_default;
  if (source.default_action != nullptr) {
    info.default_action = action_call(*source.default_action, object, info, info.default_arguments);
    if (info.actions[info.default_action].only_entries) {
      fail(source.default_action->at, "this action is marked @tableonly");
    }
    return;
  }
  const auto nothing = std::find(object.action_names.begin(), object.action_names.end(), "NoAction");
  info.default_action = static_cast<std::size_t>(nothing - object.action_names.begin());
  if (nothing == object.action_names.end()) {
    object.actions.push_back(nullptr);
    object.action_names.emplace_back("NoAction");
    object.action_calls.push_back(nullptr);
    table.actions.emplace_back();
    info.actions.push_back({"NoAction", {}, true, false});
  }
}

// 1 is the highest, as the reference compiler counts: @priority(N), or the place among the entries. With `priority =`
// or a property that says how priorities are counted, those are the table's: see own_priorities().
int Lowering::entry_priority(const ast::TableEntry& entry, std::size_t position) {
  for (const ast::Annotation& one : entry.annotations) {
    if (one.name == "priority") {
      if (one.arguments.size() != 1) {
        fail(entry.at, "@priority needs one number");
      }
      const Number number = constant_number(*one.arguments[0]);
      if (number.negative || number.magnitude > kLowestPriority) {
        fail(entry.at, fmt::format("@priority is from 0 to {}", kLowestPriority));
      }
      return static_cast<int>(number.magnitude.low());
    }
  }
  return static_cast<int>(position);
}

// The action's number, and the values that the control plane would give.
namespace {

// Whether two expressions are written in the same way.
bool same(const ast::Expr& one, const ast::Expr& other) {
  return one.kind == other.kind && one.text == other.text && one.global == other.global && one.names == other.names &&
         std::equal(one.operands.begin(), one.operands.end(), other.operands.begin(), other.operands.end(),
                    [](const ast::ExprPtr& a, const ast::ExprPtr& b) { return same(*a, *b); });
}

}  // namespace

std::size_t Lowering::action_call(const ast::Expr& call, const Object& object, const TableInfo& info,
                                  std::vector<U128>& arguments) {
  const bool is_call = call.kind == ExprKind::call;
  const ast::Expr& callee = is_call ? *call.operands[0] : call;
  const auto found = std::find(object.action_names.begin(), object.action_names.end(), callee.text);
  if (callee.kind != ExprKind::name || found == object.action_names.end()) {
    fail(call.at, "this is no action of the table");
  }
  const auto which = static_cast<std::size_t>(found - object.action_names.begin());
  const Object* action = object.actions[which];
  const std::span<const ast::ExprPtr> given =
      is_call ? std::span<const ast::ExprPtr>(call.operands).subspan(1) : std::span<const ast::ExprPtr>();
  const std::size_t needed = info.actions[which].parameters.size();
  const std::size_t all = action != nullptr ? action->parameters.size() : 0;
  if (given.size() > all) {
    fail(call.at, fmt::format("'{}' needs {} arguments, not {}", callee.text, all, given.size()));
  }
  if (action == nullptr) {
    return which;
  }
  const Value named = eval(callee);
  if (named.kind != Value::Kind::object || named.object != action) {
    fail(call.at, "this is another action than the '" + callee.text + "' in the table's list");
  }
  // Those with a direction are given once more.
  const std::span<const ast::Parameter> parameters = action->declaration->parameters;
  const std::vector<const ast::Expr*> all_given =
      in_order(given, is_call ? call.names : std::vector<std::string>(), parameters, call.at);
  if (all > needed) {
    const std::vector<const ast::Expr*> listed =
        arguments_of(*object.action_calls[which], parameters.first(all - needed));
    for (std::size_t i = 0; i < listed.size(); ++i) {
      if (!same(*listed[i], *all_given[i])) {
        fail(all_given[i]->at, "this argument is not the one in the table's list of actions");
      }
    }
  }
  for (std::size_t i = 0; i < needed; ++i) {
    const ast::Expr& argument = *all_given[all - needed + i];
    const Type* type = action->parameters[all - needed + i].type;
    if (parameters[all - needed + i].direction != Direction::none) {
      fail(action->declaration->at, "parameters without a direction come last");
    }
    const Value value = coerce(eval(argument, type), type, argument.at);
    if (!is_constant(value)) {
      fail(argument.at, "the arguments of an entry are constants");
    }
    arguments.push_back(constant_value(value.expr));
  }
  return which;
}

const ast::Expr* Lowering::property_of(const ast::Table& source, std::string_view name) {
  const auto found = std::find_if(source.properties.begin(), source.properties.end(),
                                  [&](const auto& property) { return property.first == name; });
  return found != source.properties.end() ? found->second.get() : nullptr;
}

// The priorities of a table that gives some with `priority =`, by the rules of the language: an entry without one has
// that of the entry before, less priority_delta, or more if not the largest one wins. None: it gives none.
std::vector<int> Lowering::own_priorities(const ast::Table& source) {
  const ast::Expr* largest = property_of(source, kLargestWins);
  const ast::Expr* step = property_of(source, kDelta);
  const bool has_any = std::any_of(source.entries.begin(), source.entries.end(),
                                   [](const ast::TableEntry& entry) { return entry.priority != nullptr; });
  bool largest_wins = true;
  if (largest != nullptr) {
    const Value value = eval(*largest);
    if (value.type != types_.boolean || !is_constant(value)) {
      fail(largest->at, "largest_priority_wins is true or false");
    }
    largest_wins = constant_value(value.expr) != 0;
  }
  const auto number = [this](const ast::Expr& expr, const char* what) {
    const Number given = constant_number(expr);
    if (given.negative || given.magnitude > kLowestPriority) {
      fail(expr.at, fmt::format("{} is from 0 to {}", what, kLowestPriority));
    }
    return static_cast<std::int64_t>(given.magnitude.low());
  };
  const std::int64_t delta = step != nullptr ? number(*step, "priority_delta") : 1;
  if (delta == 0) {
    fail(step->at, "priority_delta is at least 1");
  }
  if (!has_any && largest == nullptr && step == nullptr) {
    return {};
  }
  // Source: the P4_16 specification, "Entries" and "Entry priorities".
  if (has_any && source.constant_entries) {
    fail(source.entries[0].at, "const entries count in their order, and have no 'priority ='");
  }
  if (has_any && source.entries[0].priority == nullptr) {
    fail(source.entries[0].at, "the first entry needs 'priority =', because another one has it");
  }
  std::vector<int> made;
  std::int64_t next = largest_wins ? (static_cast<std::int64_t>(source.entries.size()) - 1) * delta + 1 : 1;
  for (const ast::TableEntry& entry : source.entries) {
    next = entry.priority != nullptr ? number(*entry.priority, "a priority") : next;
    if (next < 0 || next > kLowestPriority) {
      fail(entry.at, fmt::format("this entry would have the priority {}; it is from 0 to {}", next, kLowestPriority));
    }
    if (std::any_of(entry.annotations.begin(), entry.annotations.end(),
                    [](const ast::Annotation& one) { return one.name == "priority"; })) {
      fail(entry.at, "'priority =' and @priority in one table");
    }
    made.push_back(static_cast<int>(largest_wins ? next : kHighestPriority - next));
    next += largest_wins ? -delta : delta;
  }
  return made;
}

void Lowering::table_entries(const ast::Table& source, const Object& object, TableInfo& info,
                             const std::vector<const Type*>& types) {
  if (source.has_entries && source.keys.empty()) {
    fail(object.declaration->at, "a table without a key has no entries");
  }
  const std::vector<int> priorities = own_priorities(source);
  const bool ordered = std::any_of(info.keys.begin(), info.keys.end(), [](const KeyInfo& key) {
    return key.kind != MatchKind::exact && key.kind != MatchKind::lpm;
  });
  for (const ast::TableEntry& entry : source.entries) {
    const bool all_any =
        entry.keys.size() == 1 && (entry.keys[0]->kind == ExprKind::any || entry.keys[0]->kind == ExprKind::fallback);
    std::vector<const ast::Expr*> keys;
    keys.reserve(entry.keys.size());
    for (const ast::ExprPtr& key : entry.keys) {
      keys.push_back(key.get());
    }
    if (all_any) {
      keys.assign(types.size(), entry.keys[0].get());
    } else if (keys.size() == 1 && entry.keys[0]->kind == ExprKind::list) {
      keys.clear();
      for (const ast::ExprPtr& key : entry.keys[0]->operands) {
        keys.push_back(key.get());
      }
    }
    if (keys.size() != types.size()) {
      fail(entry.at, fmt::format("{} sets for {} keys", keys.size(), types.size()));
    }
    Entry made;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const ir::Set one = set(*keys[i], types[i]);
      const Location at = keys[i]->at;
      const MatchKind kind = info.keys[i].kind;
      const U128 all = ones(types[i]->width);
      const bool is_value = one.kind == ir::Set::Kind::mask && keys[i]->kind != ExprKind::mask;
      if (kind == MatchKind::exact ? !is_value
                                   : kind == MatchKind::optional && one.kind != ir::Set::Kind::any && !is_value) {
        fail(at, "a key that matches exactly needs a value");
      }
      if ((one.kind == ir::Set::Kind::range) != (kind == MatchKind::range) && !is_value &&
          one.kind != ir::Set::Kind::any) {
        fail(at, "this set does not fit a key of kind " + std::string(p4::name(kind)));
      }
      Match match;
      if (kind == MatchKind::range) {
        match = one.kind == ir::Set::Kind::any ? Match{0, all} : is_value ? Match{one.a, one.a} : Match{one.a, one.b};
        if (match.value > match.mask) {
          fail(at, "the range is empty");
        }
      } else {
        match = one.kind == ir::Set::Kind::any ? Match{0, 0} : Match{one.a, one.b};
        if (kind == MatchKind::lpm && !is_prefix(match.mask, types[i]->width)) {
          fail(at, "the mask of an lpm key begins with ones and has no other");
        }
      }
      made.keys.push_back(match);
    }
    made.action = action_call(*entry.action, object, info, made.arguments);
    if (info.actions[made.action].only_default) {
      fail(entry.action->at, "this action is for the default only");
    }
    made.priority = priorities.empty() ? kHighestPriority - entry_priority(entry, info.entries.size() + 1)
                                       : priorities[info.entries.size()];
    const auto same = [&](const Entry& other) {
      return (!ordered || other.priority == made.priority) &&
             std::equal(other.keys.begin(), other.keys.end(), made.keys.begin(),
                        [](const Match& a, const Match& b) { return a.value == b.value && a.mask == b.mask; });
    };
    if (std::any_of(info.entries.begin(), info.entries.end(), same)) {
      fail(entry.at, ordered ? "another entry has the same key and priority" : "another entry has the same key");
    }
    info.entries.push_back(std::move(made));
  }
}

// counters = direct_counter(...): the instance has the table's name.
Value Lowering::direct_extern(const Object& table, const ast::Expr& constructor) {
  const ast::Expr& callee = *constructor.operands[0];
  ast::Declaration& instance = made_here_.emplace_back();
  instance.kind = ast::DeclarationKind::instance;
  instance.at = constructor.at;
  instance.name = table.name;
  instance.type = std::make_shared<ast::Type>();
  instance.type->kind = ast::TypeKind::name;
  instance.type->name = callee.text;
  instance.type->at = callee.at;
  instance.type->arguments = constructor.type_arguments;
  instance.arguments.assign(constructor.operands.begin() + 1, constructor.operands.end());
  instance.argument_names = constructor.names;
  Value value;
  value.kind = Value::Kind::object;
  value.object = extern_instance(resolve(*instance.type), instance, "");
  return value;
}

// The instance that a property names or makes, of one of these externs.
Object* Lowering::property_object(const Object& table, std::string_view property, const ast::Expr& value,
                                  const std::vector<std::string_view>& kinds) {
  const auto is_one = [&](std::string_view name) { return std::find(kinds.begin(), kinds.end(), name) != kinds.end(); };
  const bool is_made_here =
      value.kind == ExprKind::call && value.operands[0]->kind == ExprKind::name && is_one(value.operands[0]->text);
  const Value given = is_made_here ? direct_extern(table, value) : eval(value);
  if (given.kind != Value::Kind::object || given.object->kind != Object::Kind::extern_instance ||
      !is_one(given.object->type->name)) {
    fail(value.at, fmt::format("{} needs {}", property, fmt::join(kinds, " or ")));
  }
  return given.object;
}

// The members of an action_profile are the entries' own actions. Those of a selector are too, or they form groups.
const Object* Lowering::implementation(const ast::Table& source, const Object& object) {
  const ast::Expr* value = property_of(source, kImplementation);
  return value != nullptr ? property_object(object, kImplementation, *value, {"action_profile", "action_selector"})
                          : nullptr;
}

void Lowering::table_properties(const ast::Table& source, Object& object, ir::Table& table) {
  for (std::size_t i = 0; i < source.properties.size(); ++i) {
    const auto& [name, value] = source.properties[i];
    const Location at = source.property_places[i];
    if (name == kLargestWins || name == kDelta || name == kImplementation) {
      continue;  // own_priorities() and implementation() have read them
    }
    if (name == "support_timeout") {  // nobody is told of entries that are not used
      const Value given = eval(*value);
      if (given.type != types_.boolean || !is_constant(given)) {
        fail(at, "support_timeout is true or false");
      }
      continue;
    }
    if (name != "counters" && name != "meters") {
      warnings_.push_back({at, "the table property '" + name + "' is not known, and is ignored"});
      continue;
    }
    const std::string_view expected = name == "counters" ? "direct_counter" : "direct_meter";
    Object* given = property_object(object, name, *value, {expected});
    if (name == "counters") {
      if (given->uses++ > 0) {
        fail(at, "a direct_counter belongs to one table");
      }
      table.direct_counter = given->index;
    }
  }
}

}  // namespace sidelatch::p4
