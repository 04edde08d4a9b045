#include "lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sidelatch::p4 {

using ast::ExprKind;

namespace {

constexpr unsigned kDeepestExpression = 600;
constexpr std::array<std::string_view, 6> kPureMethods{"isValid",       "minSizeInBits",  "minSizeInBytes",
                                                       "maxSizeInBits", "maxSizeInBytes", "length"};

bool is_index_type(const Type* type) {
  return type != nullptr && (type->is_bits() || type->kind == Type::Kind::any_integer);
}

}  // namespace

Value Lowering::eval(const ast::Expr& expr, const Type* expected) {
  if (++depth_ > kDeepestExpression) {
    unsupported(expr.at, "nesting this deep");
  }
  Value value = eval_inside(expr, expected);
  --depth_;
  return value;
}

Value Lowering::eval_inside(const ast::Expr& expr, const Type* expected) {
  Value value;
  switch (expr.kind) {
    case ExprKind::number:
      if (expr.literal.width == 0) {
        return integer_value(expr.literal.value);
      }
      if (!expr.literal.value.fits(expr.literal.width, false)) {
        warnings_.push_back({expr.at, "the literal does not fit its width, and is cut"});
      }
      return scalar_value(constant(expr.literal.value.bits(expr.literal.width), expr.literal.width),
                          types_.bits(expr.literal.width, expr.literal.is_signed));
    case ExprKind::boolean:
      return scalar_value(constant(static_cast<unsigned>(expr.text == "true"), 1), types_.boolean);
    case ExprKind::string:
      value.kind = Value::Kind::string;
      value.type = types_.string;
      value.text = expr.text;
      return value;
    case ExprKind::name:
      return name(expr);
    case ExprKind::member:
      return member(expr);
    case ExprKind::index:
      return index(expr);
    case ExprKind::slice:
      return slice(expr);
    case ExprKind::unary:
      return unary(expr, expected);
    case ExprKind::binary:
      return binary(expr, expected);
    case ExprKind::conditional:
      return mux(expr, expected);
    case ExprKind::cast: {
      const Type* type = resolve(*expr.type);
      return cast(eval(*expr.operands[0], type), type, expr.at);
    }
    case ExprKind::call:
      return call(expr, expected);
    case ExprKind::list:
    case ExprKind::fields:
      return list(expr, expected);
    case ExprKind::type:
      value.kind = Value::Kind::type;
      value.type = resolve(*expr.type);
      return value;
    case ExprKind::invalid:
      value.kind = Value::Kind::invalid;
      return value;
    case ExprKind::any:
      value.kind = Value::Kind::any;
      return value;
    case ExprKind::fallback:
    case ExprKind::mask:
    case ExprKind::range:
      fail(expr.at, "a set cannot be used as a value");
  }
  return value;
}

Value Lowering::name(const ast::Expr& expr) {
  Value value;
  if (expr.text == "error" && !expr.global) {
    value.kind = Value::Kind::type;
    value.type = types_.error;
    return value;
  }
  const Symbol* symbol = find(expr.text, expr.global);
  if (symbol == nullptr) {
    fail(expr.at, "'" + expr.text + "' is not declared");
  }
  switch (symbol->kind) {
    case Symbol::Kind::value:
      return symbol->value;
    case Symbol::Kind::type:
      value.kind = Value::Kind::type;
      value.type = symbol->type;
      return value;
    case Symbol::Kind::object:
      value.kind = Value::Kind::object;
      value.object = symbol->object;
      return value;
    case Symbol::Kind::declaration:
      value.kind = Value::Kind::object;
      if (symbol->declaration->kind == ast::DeclarationKind::action) {
        Object*& known = functions_[{symbol->declaration, {}}];
        if (known == nullptr) {
          Scope* outer = std::exchange(scope_, global_);
          known = action(*symbol->declaration, "");
          scope_ = outer;
        }
        value.object = known;
        return value;
      }
      value.object = new_object(Object::Kind::function, symbol->declaration);
      return value;
  }
  return value;
}

Value Lowering::member(const ast::Expr& expr) { return member_of(eval(*expr.operands[0]), expr); }

Value Lowering::member_of(const Value& base, const ast::Expr& expr) {
  if (base.kind == Value::Kind::type) {
    const Type* type = base.type;
    if (type->kind != Type::Kind::enumeration && type->kind != Type::Kind::error) {
      fail(expr.at, text(type) + " has no members");
    }
    const auto found = std::find(type->members.begin(), type->members.end(), expr.text);
    if (found == type->members.end()) {
      fail(expr.at, text(type) + " has no member '" + expr.text + "'");
    }
    const auto number = static_cast<std::size_t>(found - type->members.begin());
    const U128 value = type->element != nullptr ? type->values[number] : U128{number};
    return scalar_value(constant(value, type->width), type);
  }
  if (base.kind == Value::Kind::object) {
    Value value = base;
    value.text = expr.text;
    return value;
  }
  if (base.kind == Value::Kind::list) {
    for (std::size_t i = 0; i < base.items.size(); ++i) {
      const bool named = base.type != nullptr ? i < base.type->fields.size() && base.type->fields[i].name == expr.text
                                              : i < base.names.size() && base.names[i] == expr.text;
      if (named) {
        return base.items[i];
      }
    }
    fail(expr.at, "there is no field '" + expr.text + "'");
  }
  if (base.kind == Value::Kind::place && base.type->kind == Type::Kind::stack) {
    return stack_member(base, expr);
  }
  if (base.kind != Value::Kind::place || !base.type->has_fields()) {
    fail(expr.at, "a value of type " + text(base.type) + " has no fields");
  }
  for (std::size_t i = 0; i < base.type->fields.size(); ++i) {
    const FieldType& field = base.type->fields[i];
    if (field.name != expr.text) {
      continue;
    }
    Value value;
    value.kind = Value::Kind::place;
    value.type = field.type;
    value.place = moved(base.place, field_offset(base.type, i));
    value.writable = base.writable;
    if (base.type->kind == Type::Kind::header_union) {
      value.union_type = base.type;
      value.union_place = base.place;
    }
    return value;
  }
  fail(expr.at, text(base.type) + " has no field '" + expr.text + "'");
}

Value Lowering::stack_member(const Value& base, const ast::Expr& expr) {
  const int next = load(base.place, 32);
  if (expr.text == "size") {
    return scalar_value(constant(static_cast<unsigned>(base.type->count), 32), types_.bits(32, false));
  }
  if (stage_ != Stage::parser || (expr.text != "next" && expr.text != "last" && expr.text != "lastIndex")) {
    fail(expr.at, stage_ == Stage::parser ? "a stack has no member '" + expr.text + "'"
                                          : "'" + expr.text + "' of a stack is defined in parsers only");
  }
  if (expr.text == "lastIndex") {
    return scalar_value(node(ir::Op::subtract, 32, next, constant(1, 32)), types_.bits(32, false));
  }
  const bool is_next = expr.text == "next";
  // next: nextIndex < size; last: nextIndex > 0.
  const int size = constant(static_cast<unsigned>(base.type->count), 32);
  const int bad =
      is_next ? node(ir::Op::less_equal, 1, size, next, -1, false, 32) : node(ir::Op::equal, 1, next, constant(0, 32));
  ir::Statement check;
  check.kind = ir::Do::reject;
  check.at = origin(expr.at);
  const auto& members = types_.error->members;
  const auto error = std::find(members.begin(), members.end(), "StackOutOfBounds") - members.begin();
  check.expr = constant(static_cast<unsigned>(error), types_.error->width);
  ir::Statement& branch = add(ir::Do::branch, expr.at);
  branch.expr = bad;
  branch.yes.push_back(std::move(check));
  const Value at =
      keep(scalar_value(is_next ? next : node(ir::Op::subtract, 32, next, constant(1, 32)), types_.bits(32, false)),
           expr.at);
  Value value;
  value.kind = Value::Kind::place;
  value.type = base.type->element;
  value.place = {base.place.slot + 1, at.expr, base.type->element->slots, base.type->count};
  value.writable = base.writable;
  value.is_next = is_next;
  value.stack = base.place;
  return value;
}

Value Lowering::index(const ast::Expr& expr) {
  const Value base = eval(*expr.operands[0]);
  const Value at = eval(*expr.operands[1]);
  if (base.kind == Value::Kind::list || (base.kind == Value::Kind::place && base.type->kind == Type::Kind::tuple)) {
    const Number number = number_of(at, expr.at);
    const std::size_t count = base.kind == Value::Kind::list ? base.items.size() : base.type->fields.size();
    if (number.negative || number.magnitude >= count) {
      fail(expr.at, "the index is out of range");
    }
    const auto which = static_cast<std::size_t>(number.magnitude);
    if (base.kind == Value::Kind::list) {
      return base.items[which];
    }
    Value value = base;
    value.type = base.type->fields[which].type;
    value.place = moved(base.place, field_offset(base.type, which));
    return value;
  }
  if (base.kind != Value::Kind::place || base.type->kind != Type::Kind::stack) {
    fail(expr.at, "only stacks and tuples have an index");
  }
  if (!is_index_type(at.type)) {
    fail(expr.at, "an index is a number");
  }
  Value value;
  value.kind = Value::Kind::place;
  value.type = base.type->element;
  value.writable = base.writable;
  if (is_constant(at)) {
    const Number number = number_of(at, expr.at);
    if (number.negative || number.magnitude >= static_cast<unsigned>(base.type->count)) {
      fail(expr.at,
           fmt::format("the index {} is out of range; the stack has {} elements", text(number), base.type->count));
    }
    value.place = moved(base.place, 1 + static_cast<int>(number.magnitude) * base.type->element->slots);
    return value;
  }
  if (at.type->is_signed) {
    unsupported(expr.at, "a signed index");
  }
  if (base.place.index >= 0) {
    unsupported(expr.at, "a stack within a stack");
  }
  if (base.type->element->kind == Type::Kind::header_union) {
    unsupported(expr.at, "a stack of header unions with an index that is not constant");
  }
  value.place = {base.place.slot + 1, keep(at, expr.at).expr, base.type->element->slots, base.type->count};
  return value;
}

Value Lowering::slice(const ast::Expr& expr) {
  Value base = eval(*expr.operands[0]);
  const Number high = constant_number(*expr.operands[1]);
  const Number low = constant_number(*expr.operands[2]);
  if (base.type != nullptr && base.type->kind == Type::Kind::enumeration && base.type->element != nullptr) {
    base = cast(base, base.type->element, expr.at);
  }
  if (base.type == nullptr || !base.type->is_bits()) {
    fail(expr.at, "a slice is of a bit<N> or int<N>, not of " + text(base.type));
  }
  if (high.negative || low.negative || less(high, low) || high.magnitude >= base.type->width) {
    fail(expr.at, fmt::format("[{}:{}] is no slice of {}", text(high), text(low), text(base.type)));
  }
  const auto from = static_cast<unsigned>(low.magnitude);
  const auto width = static_cast<unsigned>(high.magnitude) - from + 1;
  const Type* type = types_.bits(width, false);
  if (base.kind == Value::Kind::place) {
    Value value = base;
    value.whole = base.sliced ? base.whole : base.type->width;
    value.low = base.sliced ? base.low + from : from;
    value.sliced = true;
    value.type = type;
    return value;
  }
  return scalar_value(node(ir::Op::slice, width, scalar(base, expr.at), -1, -1, false, from), type);
}

int Lowering::scalar(const Value& value, Location at) {
  if (value.kind == Value::Kind::scalar) {
    return value.expr;
  }
  if (value.kind == Value::Kind::place && value.type->is_scalar()) {
    if (value.sliced) {
      return node(ir::Op::slice, value.type->width, load(value.place, value.whole), -1, -1, false, value.low);
    }
    return load(value.place, value.type->width);
  }
  if (value.kind == Value::Kind::integer) {
    fail(at, "the width of this number is not known; write it as 32w" + text(value.number) + ", say");
  }
  fail(at, "expected a scalar value, found " +
               (value.type != nullptr ? text(value.type) : std::string("something without a value")));
}

int Lowering::boolean(const ast::Expr& expr) {
  const Value value = eval(expr);
  if (value.type != types_.boolean) {
    fail(expr.at, "expected a bool, found " + text(value.type));
  }
  return scalar(value, expr.at);
}

bool Lowering::is_constant(const Value& value) const {
  if (value.kind == Value::Kind::list) {
    return std::all_of(value.items.begin(), value.items.end(), [this](const Value& item) { return is_constant(item); });
  }
  return value.kind == Value::Kind::integer || value.kind == Value::Kind::string ||
         (value.kind == Value::Kind::scalar && is_constant(value.expr));
}

Number Lowering::number_of(const Value& value, Location at) const {
  if (value.kind == Value::Kind::integer) {
    return value.number;
  }
  if (value.kind == Value::Kind::scalar && is_constant(value.expr)) {
    const U128 bits = constant_value(value.expr);
    return value.type->is_signed ? Number::of_signed(bits, value.type->width) : Number::of(bits);
  }
  fail(at, "expected a constant of compile time");
}

Number Lowering::constant_number(const ast::Expr& expr) {
  const Value value = eval(expr);
  return number_of(value, expr.at);
}

Value Lowering::keep(const Value& value, Location at) {
  if (value.kind == Value::Kind::list) {
    Value kept = value;
    for (Value& item : kept.items) {
      item = keep(item, at);
    }
    return kept;
  }
  if (value.kind == Value::Kind::scalar && is_constant(value.expr)) {
    return value;
  }
  if (value.kind == Value::Kind::scalar || (value.kind == Value::Kind::place && value.type->is_scalar())) {
    const int from = scalar(value, at);
    const Value place = new_place(value.type);
    ir::Statement& assign = add(ir::Do::assign, at);
    assign.to = place.place;
    assign.expr = from;
    return scalar_value(load(place.place, value.type->width), value.type);
  }
  if (value.kind == Value::Kind::place) {
    const Value place = new_place(value.type);
    ir::Statement& copy = add(ir::Do::copy, at);
    copy.to = place.place;
    copy.from = value.place;
    copy.count = value.type->slots;
    Value kept = place;
    kept.writable = false;
    return kept;
  }
  return value;
}

bool Lowering::has_effects(const ast::Expr& expr) const {
  if (expr.kind == ExprKind::call) {
    const ast::Expr& callee = *expr.operands[0];
    const bool pure = callee.kind == ExprKind::member &&
                      std::find(kPureMethods.begin(), kPureMethods.end(), callee.text) != kPureMethods.end();
    if (!pure) {
      return true;
    }
  }
  // In a parser these may end it with an error.
  if (expr.kind == ExprKind::member && (expr.text == "next" || expr.text == "last") && stage_ == Stage::parser) {
    return true;
  }
  return std::any_of(expr.operands.begin(), expr.operands.end(),
                     [this](const ast::ExprPtr& operand) { return operand != nullptr && has_effects(*operand); });
}

// In order; what is evaluated early is kept if something after it may change it.
std::vector<Value> Lowering::eval_all(const std::vector<const ast::Expr*>& exprs,
                                      const std::vector<const Type*>& expected) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < exprs.size(); ++i) {
    Value value = eval(*exprs[i], i < expected.size() ? expected[i] : nullptr);
    const bool changes = std::any_of(exprs.begin() + static_cast<std::ptrdiff_t>(i) + 1, exprs.end(),
                                     [this](const ast::Expr* later) { return has_effects(*later); });
    values.push_back(changes ? keep(value, exprs[i]->at) : value);
  }
  return values;
}

Value Lowering::unary(const ast::Expr& expr, const Type* expected) {
  const Value operand = eval(*expr.operands[0], expected);
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
    if (value.type != nullptr && value.type->kind == Type::Kind::enumeration && value.type->element != nullptr &&
        value.type != other.type) {
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
    for (Value* side : {&left, &right}) {
      if (side->type != nullptr && side->type->kind == Type::Kind::enumeration && side->type->element != nullptr) {
        *side = cast(*side, side->type->element, expr.at);
      }
      if (side->kind == Value::Kind::string) {
        unsupported(expr.at, "concatenation of strings");
      }
      if (side->type == nullptr || !side->type->is_bits()) {
        fail(expr.at, "'++' needs values of known width, not " + text(side->type));
      }
    }
    const unsigned width = left.type->width + right.type->width;
    if (width > kWidest) {
      unsupported(expr.at, fmt::format("a value of {} bits; at most {}", width, kWidest));
    }
    const int made =
        node(ir::Op::concatenate, width, scalar(left, expr.at), scalar(right, expr.at), -1, false, right.type->width);
    return scalar_value(made, types_.bits(width, left.type->is_signed));
  }
  unify(left, right, expr.at);
  const bool is_basic = op == "+" || op == "-" || op == "*" || op == "/" || op == "%";
  if (left.kind == Value::Kind::integer && right.kind == Value::Kind::integer) {
    if (!is_basic) {
      fail(expr.at, "'" + op + "' needs a value of known width");
    }
    return integer_value(combine(op, left.number, right.number, expr.at));
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
    if (!is_constant(b)) {
      unsupported(expr.at, "'" + op + "' by a value that is not constant");
    }
    if (constant_value(b) == 0) {
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
    if (side->type != nullptr && side->type->kind == Type::Kind::enumeration && side->type->element != nullptr) {
      *side = cast(*side, side->type->element, expr.at);
    }
  }
  if (left.kind == Value::Kind::integer) {
    if (!is_constant(right)) {
      fail(expr.at, "a shift of a number of unknown width needs a constant");
    }
    return integer_value(combine(expr.text, left.number, number_of(right, expr.at), expr.at));
  }
  if (left.type == nullptr || !left.type->is_bits()) {
    fail(expr.at, "a shift is of a bit<N> or int<N>, not of " + text(left.type));
  }
  if (right.kind == Value::Kind::integer) {
    if (right.number.negative) {
      fail(expr.at, "a shift by a negative number");
    }
    right = scalar_value(constant(right.number.magnitude, kWidest), types_.bits(kWidest, false));
  }
  if (right.type == nullptr || !right.type->is_bits() || right.type->is_signed) {
    fail(expr.at, "a shift is by a bit<N>, not by " + text(right.type));
  }
  const ir::Op op = expr.text == "<<" ? ir::Op::shift_left : ir::Op::shift_right;
  return scalar_value(
      node(op, left.type->width, scalar(left, expr.at), scalar(right, expr.at), -1, left.type->is_signed), left.type);
}

Value Lowering::compare(const ast::Expr& expr, Value left, Value right) {
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
  if (op == "==" || op == "!=") {
    const int same = equal(left, right, expr.at);
    return scalar_value(op == "==" ? same : logical_not(same), types_.boolean);
  }
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

int Lowering::equal(const Value& left, const Value& right, Location at) {
  const auto is_list = [](const Value& value) { return value.kind == Value::Kind::list; };
  if (is_list(left) != is_list(right) && (left.type == nullptr || right.type == nullptr)) {
    return is_list(left) ? equal(coerce(left, right.type, at), right, at)
                         : equal(left, coerce(right, left.type, at), at);
  }
  if (left.kind == Value::Kind::invalid || right.kind == Value::Kind::invalid) {
    const Value& other = left.kind == Value::Kind::invalid ? right : left;
    if (other.kind != Value::Kind::place || other.type->kind != Type::Kind::header) {
      fail(at, "{#} can be compared to headers only");
    }
    return logical_not(load(other.place, 1));
  }
  if (is_list(left) && is_list(right) && left.items.size() == right.items.size() &&
      (left.type == right.type || left.type == nullptr || right.type == nullptr)) {
    int same = constant(1, 1);
    for (std::size_t i = 0; i < left.items.size(); ++i) {
      Value a = left.items[i];
      Value b = right.items[i];
      unify(a, b, at);
      same = conjunction(same, a.kind == Value::Kind::integer && b.kind == Value::Kind::integer
                                   ? constant(static_cast<unsigned>(a.number == b.number), 1)
                                   : equal(a, b, at));
    }
    return same;
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
  int same = constant(1, 1);
  const auto part = [&](const Type* of, int offset) {
    Value x;
    x.kind = Value::Kind::place;
    x.type = of;
    Value y = x;
    x.place = moved(a.place, offset);
    y.place = moved(b.place, offset);
    same = conjunction(same, equal(x, y, at));
  };
  if (type->kind == Type::Kind::stack) {
    for (int i = 0; i < type->count; ++i) {
      part(type->element, 1 + i * type->element->slots);
    }
    return same;
  }
  for (std::size_t i = 0; i < type->fields.size(); ++i) {
    part(type->fields[i].type, field_offset(type, i));
  }
  if (type->kind == Type::Kind::header) {  // both invalid, or both valid with the same fields
    const int va = load(a.place, 1);
    const int vb = load(b.place, 1);
    const int both = conjunction(conjunction(va, vb), same);
    return node(ir::Op::logical_or, 1, conjunction(logical_not(va), logical_not(vb)), both);
  }
  return same;
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
    if (a.kind == Value::Kind::integer && b.kind == Value::Kind::integer) {
      if (expected == nullptr || !expected->is_bits()) {
        if (is_constant(condition)) {
          return constant_value(condition) != 0 ? a : b;
        }
        fail(expr.at, "the width of this value is not known");
      }
      a = coerce(a, expected, expr.at);
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
    const Value result = new_place(type);
    ir::Block one = collect([&] { store(result, a, yes.at); });
    ir::Block other = collect([&] { store(result, b, no.at); });
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
  const Type* type = a.type != nullptr && a.type != types_.any_integer   ? a.type
                     : b.type != nullptr && b.type != types_.any_integer ? b.type
                                                                         : expected;
  if (type == nullptr || !type->is_data()) {
    fail(expr.at, "the branches of '?:' have the types " + text(a.type) + " and " + text(b.type));
  }
  const Value result = new_place(type);
  const auto finish = [&](ir::Block& block, const Value& value, Location at) {
    ir::Block tail = collect([&] { store(result, coerce(value, type, at), at); });
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
  std::vector<const ast::Expr*> exprs;
  std::vector<const Type*> types;
  for (std::size_t i = 0; i < expr.operands.size(); ++i) {
    exprs.push_back(expr.operands[i].get());
    const Type* type = nullptr;
    if (expected != nullptr && (expected->has_fields() || expected->kind == Type::Kind::tuple)) {
      for (std::size_t f = 0; f < expected->fields.size(); ++f) {
        if (expr.names.empty() ? f == i : expected->fields[f].name == expr.names[i]) {
          type = expected->fields[f].type;
        }
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
