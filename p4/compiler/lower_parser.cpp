// Parsers, and the packets that they and deparsers work on.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::p4 {

using ast::ExprKind;

Object* Lowering::parser_instance(const ast::Declaration& declaration, const std::vector<Value>& arguments,
                                  std::string name, const std::vector<Value>* places) {
  if (declaration.states.empty()) {
    fail(declaration.at, "this parser has no states");
  }
  if (!active_.insert(&declaration).second) {
    fail(declaration.at, "a parser cannot contain itself");
  }
  lowered_.insert(&declaration);
  count_instance(declaration.at);
  Object* object = new_object(Object::Kind::parser, &declaration);
  object->name = name;
  ir::Parser made;
  made.name = name;
  const Where outer_where = std::exchange(where_, Where::parser);
  const std::string outer_prefix = std::exchange(prefix_, name);
  const Object* outer_instance = std::exchange(instance_, object);
  in_scope_of(declaration, [&] {
    bind_constructor(declaration, arguments, declaration.at);
    bind_parameters(*object, declaration.parameters, places);
    // State 0 sets up the local variables.
    std::map<std::string, int> numbers{{"accept", ir::kAccept}, {"reject", ir::kReject}};
    for (std::size_t i = 0; i < declaration.states.size(); ++i) {
      numbers.emplace(declaration.states[i].name, static_cast<int>(i) + 1);
    }
    made.states.resize(declaration.states.size() + 1);
    made.states[0].name = "(locals)";
    made.states[0].body = collect([&] { declare_locals(declaration, name); });
    made.states[0].next = numbers["start"];
    for (std::size_t i = 0; i < declaration.states.size(); ++i) {
      parser_state(declaration.states[i], made.states[i + 1], numbers);
    }
  });
  where_ = outer_where;
  prefix_ = outer_prefix;
  instance_ = outer_instance;
  active_.erase(&declaration);
  object->index = static_cast<int>(out_.parsers.size());
  out_.parsers.push_back(std::move(made));
  return object;
}

void Lowering::parser_state(const ast::State& state, ir::ParserState& out, const std::map<std::string, int>& numbers) {
  const auto number = [&](const std::string& name, Location at) {
    const auto found = numbers.find(name);
    if (found == numbers.end()) {
      fail(at, "there is no state '" + name + "'");
    }
    return found->second;
  };
  out.name = state.name;
  out.body = collect([&] {
    in_scope(scope_, [&] {
      for (const ast::StatementPtr& one : state.body) {
        statement(*one);
      }
      std::vector<const ast::Expr*> exprs;
      exprs.reserve(state.select.size());
      for (const ast::ExprPtr& key : state.select) {
        exprs.push_back(key.get());
      }
      const std::vector<Value> values = eval_all(exprs, {});
      std::vector<Value> keys;
      std::vector<KeyTree> trees;
      for (std::size_t i = 0; i < values.size(); ++i) {
        trees.push_back(select_keys(values[i], keys, exprs[i]->at));
      }
      for (const Value& key : keys) {
        if (key.type->is_wide) {
          const std::vector<int> words = wide_parts(key, state.next_at);
          out.keys.insert(out.keys.end(), words.begin(), words.end());
        } else {
          out.keys.push_back(scalar(key, state.next_at));
        }
      }
      select_cases(state, keys, trees, out);
    });
  });
  if (state.select.empty() && state.cases.empty()) {
    out.next = state.next.empty() ? ir::kReject : number(state.next, state.next_at);
    return;
  }
  for (std::size_t i = 0; i < state.cases.size(); ++i) {
    out.cases[i].next = number(state.cases[i].next, state.cases[i].at);
  }
  if (state.select.empty()) {  // select() { default: NEXT; }
    out.next = out.cases[0].next;
    out.cases.clear();
  }
}

// The parts of a list or a tuple are keys of their own. Source: the P4_16 specification, "Select expressions". That a
// key is of a `type` is more than it has.
Lowering::KeyTree Lowering::select_keys(const Value& value, std::vector<Value>& keys, Location at) {
  const bool is_tuple = value.type != nullptr && value.type->kind == Type::Kind::tuple;
  KeyTree tree;
  if (is_tuple && value.kind == Value::Kind::place) {
    for (std::size_t i = 0; i < value.type->fields.size(); ++i) {
      tree.parts.push_back(select_keys(field_of(value, i), keys, at));
    }
  } else if (value.kind == Value::Kind::list && (is_tuple || value.type == nullptr)) {
    for (const Value& item : value.items) {
      tree.parts.push_back(select_keys(item, keys, at));
    }
  } else if (value.type != nullptr && (value.type->is_scalar() || value.type->is_wide) && value.type != types_.error) {
    keys.push_back(value);
    tree.is_key = true;
  } else {
    fail(at, "a select is of numbers with a width, bool, enums and tuples of these, not of " + text(value.type));
  }
  for (const KeyTree& part : tree.parts) {
    tree.size += part.size;
  }
  tree.size += tree.is_key ? 1 : 0;
  return tree;
}

// Whether the value_set has these keys: an expression that the select can look at.
int Lowering::look_up(const Object& value_set, std::span<const Value> keys, Location at) {
  if (keys.size() != value_set.parameters.size()) {
    fail(at, fmt::format("'{}' has {} values for {} keys", value_set.declaration->name, value_set.parameters.size(),
                         keys.size()));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].type != value_set.parameters[i].type) {
      fail(at, fmt::format("'{}' has values of type {}, and the key is of type {}", value_set.declaration->name,
                           text(value_set.parameters[i].type), text(keys[i].type)));
    }
    store(value_set.parameters[i], keys[i], at);
  }
  add(ir::Do::apply, at).which = value_set.index;
  ir::Place hit;
  hit.slot = out_.tables[static_cast<std::size_t>(value_set.index)].hit_slot;
  // The next look-up of the same select changes that.
  const Value kept = new_place(types_.boolean);
  store(kept, scalar_value(load(hit, 1), types_.boolean), at);
  return scalar(kept, at);
}

namespace {

bool takes_any(const ast::Expr& set) { return set.kind == ExprKind::any || set.kind == ExprKind::fallback; }

void add_sets(const ast::Expr& set, const Lowering::KeyTree& tree, std::vector<const ast::Expr*>& sets) {
  if (set.kind == ExprKind::list && !tree.is_key) {
    if (set.operands.size() != tree.parts.size()) {
      fail(set.at, fmt::format("{} sets for {} keys", set.operands.size(), tree.parts.size()));
    }
    for (std::size_t i = 0; i < tree.parts.size(); ++i) {
      add_sets(*set.operands[i], tree.parts[i], sets);
    }
  } else {
    sets.insert(sets.end(), takes_any(set) ? tree.size : 1, &set);
  }
}

// The sets of a case, one for each key; `trees`: of each expression of the select.
std::vector<const ast::Expr*> sets_of(const ast::SelectCase& one, std::span<const Lowering::KeyTree> trees) {
  // A tuple may be all that is selected on: (SET, SET) are sets of its parts.
  const bool within = trees.size() == 1 && !trees[0].is_key && one.keys.size() > 1;
  const std::span<const Lowering::KeyTree> shapes = within ? trees[0].parts : trees;
  std::vector<const ast::Expr*> sets;
  for (std::size_t i = 0; i < one.keys.size(); ++i) {
    if (i < shapes.size()) {
      add_sets(*one.keys[i], shapes[i], sets);
    } else {
      sets.push_back(one.keys[i].get());
    }
  }
  if (one.keys.size() > 1 && one.keys.size() != shapes.size()) {
    fail(one.at, fmt::format("{} sets for {} keys", one.keys.size(), shapes.size()));
  }
  return sets;
}

}  // namespace

// Each value_set of a case is one key more, and the other cases take any value of it.
void Lowering::select_cases(const ast::State& state, std::span<const Value> keys, std::span<const KeyTree> trees,
                            ir::ParserState& out) {
  for (const ast::SelectCase& one : state.cases) {
    ir::SelectCase& made = out.cases.emplace_back();
    const bool any = one.keys.size() == 1 && takes_any(*one.keys[0]);
    const bool is_whole = one.keys.size() == 1 && is_value_set(*one.keys[0]);  // a set of all keys together
    const std::vector<const ast::Expr*> sets = sets_of(one, trees);
    if (!any && !is_whole && sets.size() != keys.size()) {
      fail(one.at, fmt::format("{} sets for {} keys", sets.size(), keys.size()));
    }
    std::vector<int> wanted;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Object* const members = any || is_whole ? nullptr : value_set_of(*sets[i]);
      if (members != nullptr) {
        wanted.push_back(look_up(*members, keys.subspan(i, 1), one.at));
      }
      const Type* type = keys[i].type;
      if (any || is_whole || members != nullptr) {
        made.sets.resize(made.sets.size() + (type->is_wide ? type->fields.size() : 1));
      } else if (type->is_wide) {
        const std::vector<ir::Set> words = wide_set(*sets[i], type);
        made.sets.insert(made.sets.end(), words.begin(), words.end());
      } else {
        made.sets.push_back(set(*sets[i], type));
      }
    }
    if (is_whole) {
      wanted.push_back(look_up(*value_set_of(*one.keys[0]), keys, one.at));
    }
    for (const int hit : wanted) {
      const std::size_t place = out.keys.size();
      out.keys.push_back(hit);
      made.sets.resize(place);
      made.sets.push_back({.kind = ir::Set::Kind::mask, .a = 1, .b = 1, .width = 1});
    }
  }
  for (ir::SelectCase& one : out.cases) {
    one.sets.resize(out.keys.size());
  }
}

Value Lowering::packet_in_method(const ast::Expr& expr, const std::string& method, const Type* expected) {
  static_cast<void>(expected);
  if (where_ != Where::parser) {
    unsupported(expr.at, "a packet_in outside of parser states");
  }
  if (method == "extract") {
    extract(expr);
    return {};
  }
  if (method == "lookahead") {
    return lookahead(expr);
  }
  if (!expr.type_arguments.empty()) {
    fail(expr.at, "'" + method + "' has no type parameters");
  }
  if (method == "advance" && expr.operands.size() == 2) {
    const Type* type = types_.bits(32, false);
    const int bits = scalar(coerce(eval(*expr.operands[1], type), type, expr.at), expr.at);
    add(ir::Do::advance, expr.at).expr = bits;
    return {};
  }
  unsupported(expr.at, "packet_in." + method);
}

// Of extract<T>(HEADER) and emit<T>(DATA).
void Lowering::check_type_argument(const ast::Expr& expr, const Value& argument) {
  if (expr.type_arguments.empty()) {
    return;
  }
  if (expr.type_arguments.size() > 1) {
    fail(expr.at, "this has one type parameter");
  }
  if (expr.type_arguments[0]->kind != ast::TypeKind::any) {
    static_cast<void>(coerce(argument, resolve(*expr.type_arguments[0]), expr.operands[1]->at));
  }
}

void Lowering::extract(const ast::Expr& expr) {
  if (expr.operands.size() != 2 && expr.operands.size() != 3) {
    fail(expr.at, "extract needs a header, and the bits of its varbit if it has one");
  }
  Value target;
  if (expr.operands[1]->kind == ExprKind::any) {
    if (expr.type_arguments.size() != 1) {
      fail(expr.at, "extract(_) needs the type of the header: extract<T>(_)");
    }
    target = new_place(resolve(*expr.type_arguments[0]));
  } else {
    target = place_of(*expr.operands[1]);
    check_type_argument(expr, target);
  }
  if (target.type->kind != Type::Kind::header) {
    fail(expr.operands[1]->at, "extract needs a header, not " + text(target.type));
  }
  const int type = header_type(target.type, expr.operands[1]->at);
  const bool has_varbit = out_.headers[static_cast<std::size_t>(type)].used >= 0;
  if (has_varbit != (expr.operands.size() == 3)) {
    fail(expr.at, has_varbit ? text(target.type) + " has a varbit: extract(HEADER, BITS)"
                             : text(target.type) + " has no varbit, whose bits could be given");
  }
  int bits = -1;
  if (has_varbit) {
    const Type* number = types_.bits(32, false);
    bits = scalar(coerce(eval(*expr.operands[2], number), number, expr.operands[2]->at), expr.operands[2]->at);
  }
  ir::Statement& made = add(ir::Do::extract, expr.at);
  made.to = target.place;
  made.which = type;
  made.expr = bits;
  if (target.is_next) {
    const int next = node(ir::Op::add, 32, load(target.stack, 32), constant(1, 32));
    ir::Statement& step = add(ir::Do::assign, expr.at);
    step.to = target.stack;
    step.expr = next;
  }
  if (target.union_type != nullptr) {
    for (std::size_t i = 0; i < target.union_type->fields.size(); ++i) {
      const ir::Place other = moved(target.union_place, field_offset(target.union_type, i));
      if (other.slot != target.place.slot) {
        mark(other, false, expr.at);
      }
    }
  }
}

Value Lowering::lookahead(const ast::Expr& expr) {
  if (expr.type_arguments.size() != 1 || expr.operands.size() != 1) {
    fail(expr.at, "lookahead needs a type: lookahead<T>()");
  }
  const Type* type = resolve(*expr.type_arguments[0]);
  if (type->kind == Type::Kind::header) {
    // As the reference switch: a header that was looked at counts in packet_length as one that was made valid.
    const Value seen = new_place(type);
    Value place = new_place(type);
    const int which = header_type(type, expr.at);
    if (out_.headers[static_cast<std::size_t>(which)].used >= 0) {
      fail(expr.at, "lookahead of a header with a varbit");
    }
    ir::Statement& made = add(ir::Do::lookahead_header, expr.at);
    made.to = seen.place;
    made.which = which;
    zero(place, expr.at);
    set_validity(place, true, expr.at);
    store(place, seen, expr.at);
    return place;
  }
  unsigned bits = 0;
  return lookahead_at(type, bits, expr.at);
}

Value Lowering::lookahead_at(const Type* type, unsigned& bit, Location at) {
  if (has_bits(type)) {
    const Value place = new_place(type);
    ir::Statement& made = add(ir::Do::lookahead, at);
    made.to = place.place;
    made.count = static_cast<int>(type->width);
    made.which = static_cast<int>(std::exchange(bit, bit + type->width));
    return scalar_value(load(place.place, type->width), type);
  }
  if (type->kind == Type::Kind::header || type->kind == Type::Kind::stack || type->kind == Type::Kind::header_union) {
    unsupported(at, "lookahead of a stack or a header union, or of a structure that has a header");
  }
  if (type->kind != Type::Kind::structure && type->kind != Type::Kind::tuple) {
    fail(at, "lookahead cannot read a value of type " + text(type));
  }
  if (type->fields.empty()) {
    unsupported(at, "lookahead of 0 bits");
  }
  Value result;
  result.kind = Value::Kind::list;
  result.type = type;
  for (const FieldType& field : type->fields) {
    result.items.push_back(lookahead_at(field.type, bit, at));
  }
  return data_of(result, at);
}

Value Lowering::packet_out_method(const ast::Expr& expr, const std::string& method) {
  if (method != "emit" || expr.operands.size() != 2) {
    fail(expr.at, "a packet_out has the method emit(HEADER) only");
  }
  if (stage_ != Stage::deparser && stage_ != Stage::unknown) {
    unsupported(expr.at, "emit outside of the deparser");
  }
  const Value emitted = eval(*expr.operands[1]);
  check_type_argument(expr, emitted);
  emit(emitted, expr.operands[1]->at);
  return {};
}

void Lowering::emit(const Value& value, Location at) {
  const bool is_written = value.kind == Value::Kind::list || value.kind == Value::Kind::invalid;
  if (is_written && value.type != nullptr && value.type->is_data()) {  // a constant, or (HEADER){...}
    emit(data_of(value, at), at);
    return;
  }
  if (value.kind == Value::Kind::list) {
    for (const Value& item : value.items) {
      emit(item, at);
    }
    return;
  }
  if (value.kind != Value::Kind::place) {
    fail(at, "only headers can be emitted");
  }
  const Type* type = value.type;
  if (type->kind == Type::Kind::header) {
    const int which = header_type(type, at);
    ir::Statement& made = add(ir::Do::emit, at);
    made.to = value.place;
    made.which = which;
    return;
  }
  Value part = value;
  if (type->kind == Type::Kind::stack) {
    for (int i = 0; i < type->count; ++i) {
      part.type = type->element;
      part.place = moved(value.place, 1 + i * type->element->slots);
      emit(part, at);
    }
    return;
  }
  if (type->kind != Type::Kind::structure && type->kind != Type::Kind::header_union &&
      type->kind != Type::Kind::tuple) {
    fail(at, "only headers can be emitted, not " + text(type));
  }
  for (std::size_t i = 0; i < type->fields.size(); ++i) {
    part.type = type->fields[i].type;
    part.place = moved(value.place, field_offset(type, i));
    emit(part, at);
  }
}

}  // namespace sidelatch::p4
