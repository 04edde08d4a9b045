// Operators, conditions and lists.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sidelatch::p4 {

// The bits of a serializable enumeration; any other value as it is.
Value Lowering::bits_of(const Value& value, Location at) {
  const bool is_serializable = value.type != nullptr && value.type->is_serializable();
  return is_serializable ? cast(value, value.type->element, at) : value;
}

Value Lowering::unary(const ast::Expr& expr, const Type* expected) {
  const Value operand = bits_of(eval(*expr.operands[0], expected), expr.at);
  if (expr.text == "!") {
    if (operand.type != types_.boolean) {
      fail(expr.at, "'!' needs a bool, not " + text(operand.type));
    }
    return scalar_value(logical_not(scalar(operand, expr.at)), types_.boolean);
  }
  if (operand.kind == Value::Kind::integer) {
    if (expr.text == "~") {
      fail(expr.at, "'~' needs a value of known width");
    }
    return expr.text == "-" ? integer_value(negate(operand.number)) : operand;
  }
  if (operand.type != nullptr && operand.type->is_wide && expr.text != "!") {
    return wide_unary(expr.text, operand, expr.at);
  }
  if (operand.type == nullptr || !operand.type->is_bits()) {
    fail(expr.at, "'" + expr.text + "' needs a bit<N> or int<N>, not " + text(operand.type));
  }
  const int value = scalar(operand, expr.at);
  if (expr.text == "+") {
    return scalar_value(value, operand.type);
  }
  return scalar_value(node(expr.text == "-" ? ir::Op::negate : ir::Op::bit_not, operand.type->width, value),
                      operand.type);
}

Value Lowering::binary(const ast::Expr& expr, const Type* expected) {
  if (expr.text == "&&" || expr.text == "||") {
    return lazy(expr);
  }
  const bool compares = expr.text == "==" || expr.text == "!=" || expr.text == "<" || expr.text == ">" ||
                        expr.text == "<=" || expr.text == ">=";
  std::vector<const Type*> types(2, compares || expr.text == "++" ? nullptr : expected);
  std::vector<Value> sides = eval_all({expr.operands[0].get(), expr.operands[1].get()}, types);
  if (compares) {
    return compare(expr, sides[0], sides[1]);
  }
  if (expr.text == "<<" || expr.text == ">>") {
    return shift(expr, sides[0], sides[1]);
  }
  return arithmetic(expr, sides[0], sides[1]);
}

// Gives a number the type of the other side, and a serializable enumeration its bits if they differ.
void Lowering::unify(Value& left, Value& right, Location at) {
  if (left.kind == Value::Kind::integer && right.kind == Value::Kind::integer) {
    return;
  }
  const auto below = [&](Value& value, const Value& other) {
    if (value.type != nullptr && value.type->is_serializable() && value.type != other.type) {
      value = cast(value, value.type->element, at);
    }
  };
  below(left, right);
  below(right, left);
  if (left.kind == Value::Kind::integer) {
    left = coerce(left, right.type, at);
  } else if (right.kind == Value::Kind::integer) {
    right = coerce(right, left.type, at);
  }
}

Value Lowering::arithmetic(const ast::Expr& expr, Value left, Value right) {
  const std::string& op = expr.text;
  if (op == "++") {
    if (left.kind == Value::Kind::string && right.kind == Value::Kind::string) {
      left.text += right.text;
      return left;
    }
    for (Value* side : {&left, &right}) {
      *side = bits_of(*side, expr.at);
      if (side->kind == Value::Kind::string) {
        fail(expr.at, "'++' joins two strings, or two values of known width");
      }
      if (side->type == nullptr || !(side->type->is_bits() || side->type->is_wide)) {
        fail(expr.at, "'++' needs values of known width, not " + text(side->type));
      }
    }
    const unsigned width = left.type->width + right.type->width;
    if (width > kWidest) {
      return wide_concatenation(left, right, expr.at);
    }
    const int made =
        node(ir::Op::concatenate, width, scalar(left, expr.at), scalar(right, expr.at), -1, false, right.type->width);
    return scalar_value(made, types_.bits(width, left.type->is_signed));
  }
  left = bits_of(left, expr.at);
  right = bits_of(right, expr.at);
  unify(left, right, expr.at);
  const bool saturates = op == "|+|" || op == "|-|";
  if (left.kind == Value::Kind::integer && right.kind == Value::Kind::integer) {
    if (saturates) {
      fail(expr.at, "'" + op + "' needs a value of known width");
    }
    return integer_value(combine(op, left.number, right.number, expr.at));
  }
  if (left.type != nullptr && left.type == right.type && left.type->is_wide) {
    if (const std::optional<Value> made = wide_arithmetic(op, left, right, expr.at)) {
      return *made;
    }
    no_wide(left, expr);
  }
  if (left.type != right.type || left.type == nullptr || !left.type->is_bits()) {
    fail(expr.at, "'" + op + "' cannot join " + text(left.type) + " and " + text(right.type));
  }
  const Type* type = left.type;
  const int a = scalar(left, expr.at);
  const int b = scalar(right, expr.at);
  if (op == "/" || op == "%") {
    if (type->is_signed) {
      fail(expr.at, "'" + op + "' is not defined for int<N>");
    }
    if (is_constant(b) && constant_value(b) == 0) {
      fail(expr.at, "division by zero");
    }
    return scalar_value(node(op == "/" ? ir::Op::divide : ir::Op::modulo, type->width, a, b), type);
  }
  const ir::Op made = op == "+"     ? ir::Op::add
                      : op == "-"   ? ir::Op::subtract
                      : op == "*"   ? ir::Op::multiply
                      : op == "|+|" ? ir::Op::add_saturating
                      : op == "|-|" ? ir::Op::subtract_saturating
                      : op == "&"   ? ir::Op::bit_and
                      : op == "|"   ? ir::Op::bit_or
                                    : ir::Op::bit_xor;
  return scalar_value(node(made, type->width, a, b, -1, type->is_signed), type);
}

Value Lowering::shift(const ast::Expr& expr, Value left, Value right) {
  for (Value* side : {&left, &right}) {
    *side = bits_of(*side, expr.at);
  }
  if (left.kind == Value::Kind::integer) {
    if (!is_constant(right)) {
      fail(expr.at, "a shift of a number of unknown width needs a constant");
    }
    return integer_value(combine(expr.text, left.number, number_of(right, expr.at), expr.at));
  }
  if (left.type == nullptr || !(left.type->is_bits() || left.type->is_wide)) {
    fail(expr.at, "a shift is of a bit<N> or int<N>, not of " + text(left.type));
  }
  if (right.type != nullptr && right.type->is_wide) {
    right = wide_amount(right, expr.at);
  }
  const bool is_signed = right.type != nullptr && right.type->is_bits() && right.type->is_signed;
  if (right.kind == Value::Kind::integer || (is_signed && is_constant(right))) {
    const Number by = number_of(right, expr.at);
    if (by.negative) {
      fail(expr.at, "a shift by a negative number");
    }
    right = scalar_value(constant(shift_amount(by), kWidest), types_.bits(kWidest, false));
  }
  if (right.type == nullptr || !right.type->is_bits() || right.type->is_signed) {
    fail(expr.at, "a shift is by a bit<N>, not by " + text(right.type));
  }
  if (left.type->is_wide) {
    return wide_shift(left, right, expr.text == "<<", expr.at);
  }
  const ir::Op op = expr.text == "<<" ? ir::Op::shift_left : ir::Op::shift_right;
  return scalar_value(
      node(op, left.type->width, scalar(left, expr.at), scalar(right, expr.at), -1, left.type->is_signed), left.type);
}

Value Lowering::compare(const ast::Expr& expr, Value left, Value right) {
  // It has action_run, which only a switch looks at.
  for (const ast::ExprPtr& side : expr.operands) {
    if (side->kind == ast::ExprKind::call && side->operands[0]->kind == ast::ExprKind::member &&
        side->operands[0]->text == "apply") {
      fail(side->at, "what a table gives back cannot be compared; its 'hit' and 'miss' can");
    }
  }
  unify(left, right, expr.at);
  const std::string& op = expr.text;
  const auto truth = [this](bool value) {
    return scalar_value(constant(static_cast<unsigned>(value), 1), types_.boolean);
  };
  if (left.kind == Value::Kind::integer && right.kind == Value::Kind::integer) {
    const bool is_less = less(left.number, right.number);
    const bool same = left.number == right.number;
    return truth(op == "=="   ? same
                 : op == "!=" ? !same
                 : op == "<"  ? is_less
                 : op == "<=" ? is_less || same
                 : op == ">"  ? !is_less && !same
                              : !is_less);
  }
  for (const Value* side : {&left, &right}) {
    if (side->type != nullptr && side->type->kind == Type::Kind::list) {
      fail(expr.at, "cannot compare " + text(left.type) + " and " + text(right.type));
    }
  }
  if (op == "==" || op == "!=") {
    const int same = equal(left, right, expr.at);
    return scalar_value(op == "==" ? same : logical_not(same), types_.boolean);
  }
  if (left.type != nullptr && left.type == right.type && left.type->is_wide) {
    const bool swaps = op == ">" || op == "<=";  // a <= b: not b < a
    const int is_less = swaps ? wide_less(right, left, expr.at) : wide_less(left, right, expr.at);
    return scalar_value(op == "<" || op == ">" ? is_less : logical_not(is_less), types_.boolean);
  }
  left = bits_of(left, expr.at);
  right = bits_of(right, expr.at);
  if (left.type != right.type || left.type == nullptr || !left.type->is_bits()) {
    fail(expr.at, "'" + op + "' cannot compare " + text(left.type) + " and " + text(right.type));
  }
  if (op == ">" || op == ">=") {
    std::swap(left, right);
  }
  const ir::Op made = op == "<" || op == ">" ? ir::Op::less : ir::Op::less_equal;
  return scalar_value(
      node(made, 1, scalar(left, expr.at), scalar(right, expr.at), -1, left.type->is_signed, left.type->width),
      types_.boolean);
}

// Whether a member of a header union is valid.
int Lowering::any_valid(const Value& header_union) {
  int any = constant(0, 1);
  for (std::size_t i = 0; i < header_union.type->fields.size(); ++i) {
    const ir::Place member = moved(header_union.place, field_offset(header_union.type, i));
    any = node(ir::Op::logical_or, 1, any, load(member, 1));
  }
  return any;
}

// Of {#} and a header, a header union or another {#}. Nothing: a varbit without bits, which is kept as {#} is.
std::optional<int> Lowering::equal_to_invalid(const Value& left, const Value& right, Location at) {
  if (left.type != nullptr && right.type != nullptr && left.type != right.type) {
    fail(at, "cannot compare " + text(left.type) + " and " + text(right.type));
  }
  const Value& other = left.kind == Value::Kind::invalid ? right : left;
  const Type::Kind kind = other.type != nullptr ? other.type->kind : Type::Kind::none;
  if (other.kind == Value::Kind::invalid && kind != Type::Kind::varbit) {
    return constant(1, 1);
  }
  if (other.kind == Value::Kind::list && kind == Type::Kind::header) {  // (HEADER){...} is valid
    return constant(0, 1);
  }
  if (other.kind == Value::Kind::place && kind == Type::Kind::header) {
    return logical_not(load(other.place, 1));
  }
  if (other.kind == Value::Kind::place && kind == Type::Kind::header_union) {
    return logical_not(any_valid(other));
  }
  if (kind != Type::Kind::varbit) {
    fail(at, "{#} can be compared to headers and header unions only");
  }
  return std::nullopt;
}

int Lowering::equal(const Value& left, const Value& right, Location at) {
  const auto is_list = [](const Value& value) { return value.kind == Value::Kind::list; };
  if (left.kind == Value::Kind::invalid || right.kind == Value::Kind::invalid) {
    if (const std::optional<int> same = equal_to_invalid(left, right, at)) {
      return *same;
    }
  } else if (is_list(left) != is_list(right) && (left.type == nullptr || right.type == nullptr)) {
    const Type* type = left.type != nullptr ? left.type : right.type;
    if (type == nullptr) {  // a table or a call without a result, say, which says nothing about the list
      fail(at, "a list cannot be compared to something without a value");
    }
    return equal(coerce(left, type, at), coerce(right, type, at), at);
  } else if (is_list(left) && is_list(right) && (left.type == nullptr) != (right.type == nullptr)) {
    // The fields of the one without a type may have any order.
    const Type* type = left.type != nullptr ? left.type : right.type;
    return equal(coerce(left, type, at), coerce(right, type, at), at);
  }
  if (is_list(left) && is_list(right) && left.items.size() == right.items.size() && left.type == right.type) {
    const bool has_type = left.type != nullptr;
    if (!has_type && (left.has_rest || right.has_rest)) {
      fail(at, "no type says what '...' stands for");
    }
    const bool in_order = has_type || left.names == right.names;
    if (!in_order && !std::ranges::is_permutation(left.names, right.names)) {
      fail(at, "the two lists do not have fields of the same names");
    }
    std::vector<int> same;
    for (std::size_t i = 0; i < left.items.size(); ++i) {
      const auto named = in_order ? right.names.begin() : std::ranges::find(right.names, left.names[i]);
      const std::size_t other = in_order ? i : static_cast<std::size_t>(named - right.names.begin());
      Value a = left.items[i];
      Value b = right.items[other];
      unify(a, b, at);
      same.push_back(a.kind == Value::Kind::integer && b.kind == Value::Kind::integer
                         ? constant(static_cast<unsigned>(a.number == b.number), 1)
                         : equal(a, b, at));
    }
    return all_of(std::move(same));
  }
  if (left.type != right.type || left.type == nullptr || !left.type->is_data()) {
    fail(at, "cannot compare " + text(left.type) + " and " + text(right.type));
  }
  const Type* type = left.type;
  if (type->is_scalar()) {
    return node(ir::Op::equal, 1, scalar(left, at), scalar(right, at));
  }
  const Value a = data_of(left, at);
  const Value b = data_of(right, at);
  std::vector<int> same;
  const auto part = [&](const Type* of, int offset) {
    Value x;
    x.kind = Value::Kind::place;
    x.type = of;
    Value y = x;
    x.place = moved(a.place, offset);
    y.place = moved(b.place, offset);
    same.push_back(equal(x, y, at));
  };
  if (type->kind == Type::Kind::varbit) {  // what is not in use is 0
    for (int i = 0; i < type->slots; ++i) {
      const unsigned width = i == 0 ? 32 : part_width(type, i);
      same.push_back(node(ir::Op::equal, 1, load(moved(a.place, i), width), load(moved(b.place, i), width)));
    }
    return all_of(std::move(same));
  }
  if (type->kind == Type::Kind::stack) {
    for (int i = 0; i < type->count; ++i) {
      part(type->element, 1 + i * type->element->slots);
    }
    return all_of(std::move(same));
  }
  int offset = field_offset(type, 0);
  for (const FieldType& field : type->fields) {
    part(field.type, offset);
    offset += field.type->slots;
  }
  if (type->kind == Type::Kind::header) {  // both invalid, or both valid with the same fields
    const int va = load(a.place, 1);
    const int vb = load(b.place, 1);
    const int both = conjunction(conjunction(va, vb), all_of(std::move(same)));
    return node(ir::Op::logical_or, 1, conjunction(logical_not(va), logical_not(vb)), both);
  }
  return all_of(std::move(same));
}

Value Lowering::lazy(const ast::Expr& expr) {
  const bool is_and = expr.text == "&&";
  const int left = boolean(*expr.operands[0]);
  if (!has_effects(*expr.operands[1])) {
    const int right = boolean(*expr.operands[1]);
    return scalar_value(node(is_and ? ir::Op::logical_and : ir::Op::logical_or, 1, left, right), types_.boolean);
  }
  const Value result = new_place(types_.boolean);
  store_scalar(result, left, expr.at);
  ir::Block right = collect([&] { store_scalar(result, boolean(*expr.operands[1]), expr.at); });
  ir::Statement& branch = add(ir::Do::branch, expr.at);
  branch.expr = load(result.place, 1);
  (is_and ? branch.yes : branch.no) = std::move(right);
  return keep(result, expr.at);
}

Value Lowering::mux(const ast::Expr& expr, const Type* expected) {
  const int condition = boolean(*expr.operands[0]);
  // P4-16, "Conditional operator": what the result is used for does not give it a width.
  const auto check_width = [&](const Value& a, const Value& b) {
    if (a.kind == Value::Kind::integer && b.kind == Value::Kind::integer && !is_constant(condition)) {
      fail(expr.at, "the width of this value is not known: write a number with its width, as 8w1");
    }
  };
  const ast::Expr& yes = *expr.operands[1];
  const ast::Expr& no = *expr.operands[2];
  if (!has_effects(yes) && !has_effects(no)) {
    ir::Block first;
    Value a;
    Value b;
    first = collect([&] { a = eval(yes, expected); });
    ir::Block second = collect([&] { b = eval(no, expected); });
    for (ir::Block* side : {&first, &second}) {  // what the front end computes beforehand has no effect
      std::move(side->begin(), side->end(), std::back_inserter(*block_));
    }
    check_width(a, b);
    if (a.kind == Value::Kind::integer && b.kind == Value::Kind::integer) {
      return constant_value(condition) != 0 ? a : b;
    }
    unify(a, b, expr.at);
    if (a.type != nullptr && a.type == b.type && a.type->is_scalar()) {
      return scalar_value(node(ir::Op::conditional, a.type->width, condition, scalar(a, yes.at), scalar(b, no.at)),
                          a.type);
    }
    const Type* type = a.type != nullptr ? a.type : b.type != nullptr ? b.type : expected;
    if (type == nullptr || !type->is_data()) {
      fail(expr.at, "the branches of '?:' have the types " + text(a.type) + " and " + text(b.type));
    }
    a = coerce(a, type, yes.at);
    b = coerce(b, type, no.at);
    Value result = new_place(type);
    ir::Block one = collect([&] { initialise(result, a, yes.at); });
    ir::Block other = collect([&] { initialise(result, b, no.at); });
    ir::Statement& branch = add(ir::Do::branch, expr.at);
    branch.expr = condition;
    branch.yes = std::move(one);
    branch.no = std::move(other);
    return result;
  }
  // Only one side happens. Its type must be known before, so the slots are made after both have been seen.
  Value a;
  Value b;
  const Value kept = keep(scalar_value(condition, types_.boolean), expr.at);
  ir::Block one = collect([&] { a = keep(eval(yes, expected), yes.at); });
  ir::Block other = collect([&] { b = keep(eval(no, expected), no.at); });
  check_width(a, b);
  const Type* type = a.type != nullptr && a.type != types_.any_integer   ? a.type
                     : b.type != nullptr && b.type != types_.any_integer ? b.type
                                                                         : expected;
  if (type == nullptr || !type->is_data()) {
    fail(expr.at, "the branches of '?:' have the types " + text(a.type) + " and " + text(b.type));
  }
  const Value result = new_place(type);
  const auto finish = [&](ir::Block& block, const Value& value, Location at) {
    ir::Block tail = collect([&] { initialise(result, coerce(value, type, at), at); });
    std::move(tail.begin(), tail.end(), std::back_inserter(block));
  };
  finish(one, a, yes.at);
  finish(other, b, no.at);
  ir::Statement& branch = add(ir::Do::branch, expr.at);
  branch.expr = kept.expr;
  branch.yes = std::move(one);
  branch.no = std::move(other);
  return keep(result, expr.at);
}

Value Lowering::list(const ast::Expr& expr, const Type* expected) {
  Value value;
  value.kind = Value::Kind::list;
  value.names = expr.names;
  value.has_rest = !expr.text.empty();
  value.is_default = expr.text == "...";
  std::vector<const ast::Expr*> exprs;
  std::vector<const Type*> types;
  for (std::size_t i = 0; i < expr.operands.size(); ++i) {
    exprs.push_back(expr.operands[i].get());
    const Type* type = nullptr;
    if (expected != nullptr && (expected->has_fields() || expected->kind == Type::Kind::tuple)) {
      if (expr.names.empty()) {
        type = i < expected->fields.size() ? expected->fields[i].type : nullptr;
      } else if (const auto found = std::ranges::find(expected->fields, expr.names[i], &FieldType::name);
                 found != expected->fields.end()) {
        type = found->type;
      }
    } else if (expected != nullptr && expected->kind == Type::Kind::stack) {
      type = expected->element;
    }
    types.push_back(type);
  }
  value.items = eval_all(exprs, types);
  return value;
}

}  // namespace sidelatch::p4
