#include "lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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
  Value value;
  if (const auto home = defaults_.find(&expr); home != defaults_.end()) {
    in_scope(home->second, [&] { value = eval_inside(expr, expected); });
  } else {
    value = eval_inside(expr, expected);
  }
  // What a cast, '?:' or a call computes may be kept in a place, but is none that a program can assign to.
  value.writable = value.writable && expr.kind != ExprKind::cast && expr.kind != ExprKind::conditional &&
                   expr.kind != ExprKind::call;
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
      if (expr.literal.width > kWidest) {
        return wide_value(expr.literal.value, types_.wide(expr.literal.width));
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
    fail(expr.at, not_found(expr.text, "'" + expr.text + "' is not declared"));
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
        Object*& known = functions_[{symbol->declaration, {}, {}, stage_}];
        if (known == nullptr) {
          in_scope_of(*symbol->declaration, [&] { known = action(*symbol->declaration, ""); });
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
    const bool is_undeclared =
        type == types_.error && std::ranges::find(undeclared_errors_, expr.text) != undeclared_errors_.end();
    if (found == type->members.end() || is_undeclared) {
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
    if (base.type->fields[i].name != expr.text) {
      continue;
    }
    return field_of(base, i);
  }
  fail(expr.at, text(base.type) + " has no field '" + expr.text + "'");
}

Value Lowering::field_of(const Value& base, std::size_t which) const {
  Value value;
  value.kind = Value::Kind::place;
  value.type = base.type->fields[which].type;
  value.place = moved(base.place, field_offset(base.type, which));
  value.writable = base.writable;
  value.in_header = base.in_header || base.type->kind == Type::Kind::header;
  value.header = base.in_header ? base.header : base.place;
  if (base.type->kind == Type::Kind::header_union) {
    value.union_type = base.type;
    value.union_place = base.place;
    value.is_next = base.is_next;  // extracting into STACK.next.MEMBER moves the stack on
    value.stack = base.stack;
  }
  return value;
}

Value Lowering::stack_member(const Value& base, const ast::Expr& expr) {
  const int next = load(base.place, 32);
  if (expr.text == "size") {
    return scalar_value(constant(static_cast<unsigned>(base.type->count), 32), types_.bits(32, false));
  }
  const bool in_parser = stage_ == Stage::parser || (stage_ == Stage::unknown && where_ == Where::function);
  if (!in_parser || (expr.text != "next" && expr.text != "last" && expr.text != "lastIndex")) {
    fail(expr.at, in_parser ? "a stack has no member '" + expr.text + "'"
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
  value.writable = is_next && base.writable;  // STACK.last is only read
  value.is_next = is_next;
  value.stack = base.place;
  return value;
}

Value Lowering::index(const ast::Expr& expr) {
  const Value base = eval(*expr.operands[0]);
  Value at = eval(*expr.operands[1]);
  at = bits_of(at, expr.at);
  if (base.type != nullptr && base.type->is_wide) {
    fail(expr.at, "a slice of one bit is [B:B]");
  }
  if (base.type != nullptr && base.type->kind == Type::Kind::list) {
    fail(expr.at, "only stacks and tuples have an index");
  }
  if (base.kind == Value::Kind::list || (base.kind == Value::Kind::place && base.type->kind == Type::Kind::tuple)) {
    const Number number = number_of(at, expr.at);
    const std::size_t count = base.kind == Value::Kind::list ? base.items.size() : base.type->fields.size();
    if (number.negative || number.magnitude >= count) {
      fail(expr.at, "the index is out of range");
    }
    const auto which = static_cast<std::size_t>(number.magnitude.low());
    if (base.kind == Value::Kind::list) {
      return base.items[which];
    }
    Value value = base;
    value.type = base.type->fields[which].type;
    value.place = moved(base.place, field_offset(base.type, which));
    // It may be assigned to, as the reference compiler has it. P4_16 has the whole tuple assigned only.
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
    value.place = moved(base.place, 1 + static_cast<int>(number.magnitude.low()) * base.type->element->slots);
    return value;
  }
  if (at.type->is_signed) {  // a negative one is beyond the end as a large number without a sign
    const unsigned width = std::max(at.type->width, 64U);
    at = scalar_value(extend(scalar(at, expr.at), at.type->width, width, true), types_.bits(width, false));
  }
  if (base.place.index >= 0) {
    unsupported(expr.at, "a stack within a stack");
  }
  value.place = {base.place.slot + 1, keep(at, expr.at).expr, base.type->element->slots, base.type->count};
  return value;
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
         value.kind == Value::Kind::invalid || (value.kind == Value::Kind::scalar && is_constant(value.expr));
}

Number Lowering::number_of(const Value& value, Location at) const {
  if (value.kind == Value::Kind::integer) {
    return value.number;
  }
  if (value.kind == Value::Kind::scalar && is_constant(value.expr)) {
    if (!value.type->is_bits()) {
      fail(at, "expected a number, found " + text(value.type));
    }
    const U128 bits = constant_value(value.expr);
    return value.type->is_signed ? Number::of_signed(bits, value.type->width) : Number::of(bits);
  }
  if (value.kind == Value::Kind::list && value.type != nullptr && value.type->is_wide && is_constant(value)) {
    return wide_number(value);
  }
  fail(at, "expected a constant of compile time");
}

Number Lowering::constant_number(const ast::Expr& expr) { return number_of(bits_of(eval(expr), expr.at), expr.at); }

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

// From the end, as there may be very many.
std::vector<bool> Lowering::changed_later(std::span<const ast::Expr* const> exprs) const {
  std::vector<bool> changes(exprs.size());
  bool change = false;
  for (std::size_t i = exprs.size(); i-- > 0;) {
    changes[i] = change;
    change = change || has_effects(*exprs[i]);
  }
  return changes;
}

// In order; what is evaluated early is kept if something after it may change it.
std::vector<Value> Lowering::eval_all(const std::vector<const ast::Expr*>& exprs,
                                      const std::vector<const Type*>& expected) {
  const std::vector<bool> changes = changed_later(exprs);
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (std::size_t i = 0; i < exprs.size(); ++i) {
    Value value = eval(*exprs[i], i < expected.size() ? expected[i] : nullptr);
    values.push_back(changes[i] ? keep(value, exprs[i]->at) : std::move(value));
  }
  return values;
}

}  // namespace sidelatch::p4
