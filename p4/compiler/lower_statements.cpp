#include "lower.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::p4 {

using ast::ExprKind;
using ast::StatementKind;

void Lowering::statements(const std::vector<ast::StatementPtr>& list) {
  in_scope(scope_, [&] {
    for (const ast::StatementPtr& one : list) {
      statement(*one);
    }
  });
}

void Lowering::statement(const ast::Statement& statement) {
  switch (statement.kind) {
    case StatementKind::block:
      statements(statement.body);
      break;
    case StatementKind::assign:
      assign(statement);
      break;
    case StatementKind::call:
      call_statement(*statement.left);
      break;
    case StatementKind::conditional:
      conditional(statement);
      break;
    case StatementKind::choose:
      choose(statement);
      break;
    case StatementKind::loop:
      loop(statement);
      break;
    case StatementKind::stop:
      add(ir::Do::stop, statement.at);
      break;
    case StatementKind::again:
      add(ir::Do::again, statement.at);
      break;
    case StatementKind::give_back:
      give_back(statement);
      break;
    case StatementKind::leave:
      if (where_ == Where::parser || where_ == Where::function) {
        fail(statement.at, "exit is for controls and actions");
      }
      add(ir::Do::leave, statement.at);
      break;
    case StatementKind::empty:
      break;
    case StatementKind::declare: {
      const ast::Declaration& declaration = *statement.declaration;
      if (declaration.kind == ast::DeclarationKind::constant) {
        declare_constant(declaration);
      } else if (declaration.kind == ast::DeclarationKind::variable) {
        local_variable(declaration);
      } else {
        unsupported(declaration.at, "an instance among statements");
      }
      break;
    }
  }
}

void Lowering::local_variable(const ast::Declaration& declaration) {
  const Type* type = resolve(*declaration.type);
  if (!type->is_data()) {
    fail(declaration.at, "a variable cannot have the type " + text(type));
  }
  const Value place = new_place(type);
  if (declaration.value != nullptr) {
    initialise(place, coerce(eval(*declaration.value, type), type, declaration.value->at), declaration.at);
  } else {
    declare_unassigned(place, declaration.name, declaration.at);
  }
  Symbol symbol;
  symbol.value = place;
  define(declaration, symbol);
}

void Lowering::zero(const Value& place, Location at) {
  ir::Statement& made = add(ir::Do::zero, at);
  made.to = place.place;
  made.count = place.type->slots;
}

// A variable without a value yet. Headers have one: they are not valid.
void Lowering::declare_unassigned(const Value& place, const std::string& name, Location at) {
  zero(place, at);
  const std::function<bool(const Type*)> has_headers = [&](const Type* type) {
    return type->kind == Type::Kind::header || type->kind == Type::Kind::stack ||
           std::any_of(type->fields.begin(), type->fields.end(),
                       [&](const FieldType& field) { return has_headers(field.type); });
  };
  if (!has_headers(place.type)) {
    block_->back().which = 1;
    variables_.push_back({place.place.slot, place.type->slots, name});
  }
}

// The first value of a variable. A list makes a header valid, which counts in packet_length unless it was valid: what a
// packet before has left in these slots must not matter.
void Lowering::initialise(const Value& target, const Value& value, Location at) {
  if (!target.type->is_scalar() && value.kind != Value::Kind::place) {
    zero(target, at);
  }
  store(target, value, at);
}

// Validity alone: packet_length and the fields stay.
void Lowering::mark(const ir::Place& header, bool valid, Location at) {
  ir::Statement& made = add(ir::Do::assign, at);
  made.to = header;
  made.expr = constant(static_cast<unsigned>(valid), 1);
}

void Lowering::call_statement(const ast::Expr& expr) { static_cast<void>(call(expr, nullptr)); }

Value Lowering::place_of(const ast::Expr& expr) {
  Value place = eval(expr);
  const bool has_parts =
      !place.items.empty() && place.type != nullptr &&
      (place.kind == Value::Kind::scalar || (place.kind == Value::Kind::list && place.type->is_wide));
  if (place.kind != Value::Kind::place && place.moving == nullptr && !has_parts) {
    fail(expr.at, "this cannot be assigned to");
  }
  if (!place.writable) {
    fail(expr.at, "this is read-only here and cannot be assigned to");
  }
  return place;
}

void Lowering::assign(const ast::Statement& statement) {
  const Value target = place_of(*statement.left);
  if (statement.text.empty()) {
    store(target, coerce(eval(*statement.right, target.type), target.type, statement.right->at), statement.at);
    return;
  }
  ast::Expr combined;
  combined.kind = ExprKind::binary;
  combined.at = statement.at;
  combined.text = statement.text;
  Value left = target;
  if (has_effects(*statement.right)) {
    left = keep(left, statement.at);
  }
  Value right = eval(*statement.right, target.type);
  const Value result = statement.text == "<<" || statement.text == ">>" ? shift(combined, left, right)
                                                                        : arithmetic(combined, left, right);
  store(target, coerce(result, target.type, statement.at), statement.at);
}

void Lowering::store_scalar(const Value& target, int expr, Location at) {
  if (target.moving != nullptr) {
    store_moving(target, scalar_value(expr, target.type), at);
    return;
  }
  if (target.kind == Value::Kind::scalar) {
    store_in_parts(target, scalar_value(expr, target.type), at);
    return;
  }
  if (target.sliced) {
    const unsigned whole = target.whole;
    const U128 mask = ones(target.type->width) << target.low;
    const int old = node(ir::Op::bit_and, whole, load(target.place, whole), constant(~mask, whole));
    const int wide = extend(expr, target.type->width, whole, false);
    const int moved_up = node(ir::Op::shift_left, whole, wide, constant(target.low, 32));
    expr = node(ir::Op::bit_or, whole, old, moved_up);
  }
  ir::Statement& assign = add(ir::Do::assign, at);
  assign.to = target.place;
  assign.expr = expr;
  assign.which = target.sliced ? 1 : -1;
}

void Lowering::set_validity(const Value& header, bool valid, Location at) {
  const int type = header_type(header.type, at);
  if (is_quiet_) {
    mark(header.place, valid, at);
    return;
  }
  if (valid && header.union_type != nullptr) {
    for (std::size_t i = 0; i < header.union_type->fields.size(); ++i) {
      const ir::Place other = moved(header.union_place, field_offset(header.union_type, i));
      if (other.slot != header.place.slot) {
        mark(other, false, at);  // as the reference switch: it does not count in packet_length
      }
    }
  }
  ir::Statement& made = add(ir::Do::set_validity, at);
  made.to = header.place;
  made.which = type;
  made.count = static_cast<int>(valid);
}

// `value` has the type of `target`.
void Lowering::store(const Value& target, const Value& value, Location at) {
  const Type* type = target.type;
  if (type->is_scalar()) {
    store_scalar(target, scalar(value, at), at);
    return;
  }
  if (target.moving != nullptr) {
    store_moving(target, value, at);
    return;
  }
  if (target.kind == Value::Kind::list) {
    store_in_parts(target, value, at);
    return;
  }
  if (value.kind == Value::Kind::invalid) {
    if (type->kind == Type::Kind::header) {
      set_validity(target, false, at);
    } else {
      zero(target, at);
    }
    return;
  }
  if (value.kind == Value::Kind::place) {
    ir::Statement& copy = add(ir::Do::copy, at);
    copy.to = target.place;
    copy.from = value.place;
    copy.count = type->slots;
    if (target.union_type != nullptr) {  // a valid member makes the others invalid
      ir::Block clear = collect([&] {
        for (std::size_t i = 0; i < target.union_type->fields.size(); ++i) {
          const ir::Place other = moved(target.union_place, field_offset(target.union_type, i));
          if (other.slot != target.place.slot) {
            mark(other, false, at);
          }
        }
      });
      ir::Statement& branch = add(ir::Do::branch, at);
      branch.expr = load(target.place, 1);
      branch.yes = std::move(clear);
    }
    return;
  }
  if (value.kind != Value::Kind::list) {
    fail(at, "this cannot be assigned to a variable of type " + text(type));
  }
  // The values may be what is overwritten first.
  const Value kept = is_constant(value) ? value : keep(value, at);
  if (type->kind == Type::Kind::header) {
    set_validity(target, true, at);
  } else if (type->kind == Type::Kind::stack) {
    zero(target, at);
  }
  for (std::size_t i = 0; i < kept.items.size(); ++i) {
    Value part;
    part.kind = Value::Kind::place;
    part.type = type->kind == Type::Kind::stack ? type->element : type->fields[i].type;
    part.place = moved(target.place, type->kind == Type::Kind::stack ? 1 + static_cast<int>(i) * type->element->slots
                                                                     : field_offset(type, i));
    store(part, kept.items[i], at);
  }
}

// A chain of `else if`, from its end: each one and what its condition needs is what the one before does otherwise.
void Lowering::conditional(const ast::Statement& statement) {
  struct Link {
    ir::Block before;  // of the condition
    int condition = -1;
    ir::Block yes;
    Location at;
  };
  const auto body = [&](const ast::Statement& one) {
    return collect([&] { in_scope(scope_, [&] { this->statement(one); }); });
  };
  std::vector<Link> links;
  ir::Block rest;
  for (const ast::Statement* one = &statement; one != nullptr;) {
    Link& link = links.emplace_back();
    link.at = one->at;
    link.before = collect([&] { link.condition = boolean(*one->left); });
    link.yes = body(*one->body[0]);
    const ast::Statement* otherwise = one->body.size() > 1 ? one->body[1].get() : nullptr;
    const bool goes_on = otherwise != nullptr && otherwise->kind == StatementKind::conditional;
    if (otherwise != nullptr && !goes_on) {
      rest = body(*otherwise);
    }
    one = goes_on ? otherwise : nullptr;
  }
  for (std::size_t i = links.size(); i-- > 0;) {
    ir::Block made = std::move(links[i].before);
    ir::Statement& branch = made.emplace_back();
    branch.kind = ir::Do::branch;
    branch.at = origin(links[i].at);
    branch.expr = links[i].condition;
    branch.yes = std::move(links[i].yes);
    branch.no = std::move(rest);
    rest = std::move(made);
  }
  std::move(rest.begin(), rest.end(), std::back_inserter(*block_));
}

// A chain of branches; the conditions exclude each other.
void Lowering::run_cases(const std::vector<int>& conditions, const std::vector<const ast::Statement*>& bodies,
                         const ast::Statement* fallback, Location at) {
  ir::Block rest;
  if (fallback != nullptr) {
    rest = collect([&] { statement(*fallback); });
  }
  for (std::size_t i = conditions.size(); i-- > 0;) {
    ir::Block body = collect([&] { statement(*bodies[i]); });
    ir::Block outer;
    outer.emplace_back();
    outer.back().kind = ir::Do::branch;
    outer.back().at = origin(at);
    outer.back().expr = conditions[i];
    outer.back().yes = std::move(body);
    outer.back().no = std::move(rest);
    rest = std::move(outer);
  }
  std::move(rest.begin(), rest.end(), std::back_inserter(*block_));
}

void Lowering::choose(const ast::Statement& statement) {
  constexpr std::size_t kMostCases = 2048;
  if (where_ == Where::parser) {
    fail(statement.at, "switch is not for parsers");
  }
  if (statement.cases.size() > kMostCases) {
    unsupported(statement.at, fmt::format("a switch with more than {} labels", kMostCases));
  }
  for (std::size_t i = 0; i + 1 < statement.cases.size(); ++i) {
    if (statement.cases[i].label == nullptr) {
      fail(statement.cases[i].at, "default is the last label");
    }
  }
  if (!statement.cases.empty() && statement.cases.back().body == nullptr) {
    warnings_.push_back({statement.cases.back().at, "the last label has no block: nothing is done for it"});
  }
  if (statement.left->kind == ExprKind::member && statement.left->text == "action_run") {
    choose_action(statement, *statement.left->operands[0]);
    return;
  }
  const Value value = keep(eval(*statement.left), statement.left->at);
  if (value.type == nullptr || !(value.type->is_scalar() || value.type->is_wide)) {
    fail(statement.left->at, "switch needs an action_run or a scalar value, not " + text(value.type));
  }
  std::vector<int> conditions;
  std::vector<const ast::Statement*> bodies;
  const ast::Statement* fallback = nullptr;
  std::set<std::vector<U128>> seen;
  int pending = -1;
  // Of a value of more than kWidest bits there are several.
  const auto words_of = [this](const Value& word, Location at) {
    return word.type->is_wide ? wide_parts(word, at) : std::vector<int>{scalar(word, at)};
  };
  const std::vector<int> words = words_of(value, statement.left->at);
  for (const ast::SwitchCase& one : statement.cases) {
    if (one.label == nullptr) {
      fallback = one.body.get();
      pending = -1;  // the labels before it say nothing that default does not
      continue;
    }
    const Value given = eval(*one.label, value.type);
    // As the reference compiler, a number may stand for a member of a serializable enumeration.
    const Value label = given.kind == Value::Kind::integer && value.type->is_serializable()
                            ? cast(given, value.type, one.label->at)
                            : coerce(given, value.type, one.label->at);
    if (!is_constant(label)) {
      fail(one.at, "a label of switch is a constant");
    }
    const std::vector<int> wanted = words_of(label, one.label->at);
    std::vector<U128> numbers;
    std::vector<int> equal_words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      numbers.push_back(constant_value(wanted[i]));
      equal_words.push_back(node(ir::Op::equal, 1, words[i], wanted[i]));
    }
    if (!seen.insert(numbers).second) {
      fail(one.at, "this label is there twice");
    }
    const int same = all_of(std::move(equal_words));
    pending = pending < 0 ? same : node(ir::Op::logical_or, 1, pending, same);
    if (one.body != nullptr) {
      conditions.push_back(pending);
      bodies.push_back(one.body.get());
      pending = -1;
    }
  }
  run_cases(conditions, bodies, fallback, statement.at);
}

void Lowering::choose_action(const ast::Statement& statement, const ast::Expr& table_call) {
  if (table_call.kind != ExprKind::call || table_call.operands[0]->kind != ExprKind::member ||
      table_call.operands[0]->text != "apply") {
    fail(table_call.at, "action_run belongs to TABLE.apply()");
  }
  const Value base = eval(*table_call.operands[0]->operands[0]);
  if (base.kind != Value::Kind::object || base.object->kind != Object::Kind::table) {
    fail(table_call.at, "action_run belongs to a table");
  }
  Object& table = *base.object;
  static_cast<void>(call(table_call, nullptr));
  const ir::Table& made = out_.tables[static_cast<std::size_t>(table.index)];
  // What runs may itself apply the table's slots again only in another packet, so the slot need not be kept.
  ir::Place slot;
  slot.slot = made.action_slot;
  std::vector<int> conditions;
  std::vector<const ast::Statement*> bodies;
  const ast::Statement* fallback = nullptr;
  std::set<std::size_t> seen;
  int pending = -1;
  for (const ast::SwitchCase& one : statement.cases) {
    if (one.label == nullptr) {
      fallback = one.body.get();
      pending = -1;  // the labels before it say nothing that default does not
      continue;
    }
    std::size_t which = 0;
    while (which < table.actions.size() &&
           !(one.label->kind == ExprKind::name && table.action_names[which] == one.label->text)) {
      ++which;
    }
    if (which == table.actions.size()) {
      fail(one.at, "'" + one.label->text + "' is no action of this table");
    }
    const Symbol* const global = one.label->global ? find(one.label->text, true) : nullptr;
    if (global != nullptr && table.actions[which] != nullptr &&
        table.actions[which]->declaration != global->declaration) {
      fail(one.at, "'" + one.label->text + "' is another action of this table");
    }
    if (!seen.insert(which).second) {
      fail(one.at, "this label is there twice");
    }
    const int same = node(ir::Op::equal, 1, load(slot, 32), constant(which, 32));
    pending = pending < 0 ? same : node(ir::Op::logical_or, 1, pending, same);
    if (one.body != nullptr) {
      conditions.push_back(pending);
      bodies.push_back(one.body.get());
      pending = -1;
    }
  }
  run_cases(conditions, bodies, fallback, statement.at);
}

void Lowering::give_back(const ast::Statement& statement) {
  if (where_ == Where::parser) {
    fail(statement.at, "return is not for parsers");
  }
  if (statement.left != nullptr) {
    if (where_ != Where::function || function_ == nullptr || function_->result.kind != Value::Kind::place) {
      fail(statement.at, "only a function gives back a value");
    }
    const Type* type = function_->result.type;
    store(function_->result, coerce(eval(*statement.left, type), type, statement.left->at), statement.at);
  } else if (where_ == Where::function && function_ != nullptr && function_->result.kind == Value::Kind::place) {
    fail(statement.at, "this function gives back a value");
  }
  add(ir::Do::give_back, statement.at);
}

}  // namespace sidelatch::p4
