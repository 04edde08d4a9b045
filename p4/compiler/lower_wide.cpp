// Values of more than kWidest bits: in parts of kWidest bits, of which the highest may have fewer.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::p4 {

void Lowering::no_wide(const Value& value, const ast::Expr& expr) {
  if (value.type != nullptr && value.type->is_wide) {
    unsupported(expr.at, fmt::format("'{}' of a value of more than {} bits", expr.text, kWidest));
  }
}

// Cut to the type's width.
Value Lowering::wide_value(const Number& number, const Type* type) {
  Value made;
  made.kind = Value::Kind::list;
  made.type = type;
  unsigned above = type->width;
  for (const FieldType& part : type->fields) {
    above -= part.type->width;
    made.items.push_back(scalar_value(constant(number.bits(part.type->width, above), part.type->width), part.type));
  }
  return made;
}

// A constant.
Number Lowering::wide_number(const Value& value) const {
  Number made;
  for (const Value& item : value.items) {
    made.magnitude = (made.magnitude << item.type->width) + constant_value(item.expr);
  }
  return made;
}

// Between bit<N> of which one is wide. The parts are aligned at bit 0; what lies above the value is 0.
Value Lowering::wide_cast(const Value& value, const Type* type, Location at) {
  std::vector<Value> parts;  // the lowest last, as in a wide type
  if (value.type->is_wide) {
    const bool is_list = value.kind == Value::Kind::list;  // which may be of constants, and stays so
    const Value whole = is_list ? value : data_of(value, at);
    for (std::size_t i = 0; i < value.type->fields.size(); ++i) {
      parts.push_back(is_list ? whole.items[i] : field_of(whole, i));
    }
  } else {
    parts.push_back(value);
  }
  const auto resized = [&](const Value& part, unsigned width) {
    const Type* made = types_.bits(width, false);
    return scalar_value(extend(scalar(part, at), part.type->width, width, false), made);
  };
  if (!type->is_wide) {
    return resized(parts.back(), type->width);
  }
  Value made;
  made.kind = Value::Kind::list;
  made.type = type;
  const std::size_t count = type->fields.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from_end = count - i;
    const unsigned width = type->fields[i].type->width;
    made.items.push_back(from_end > parts.size() ? scalar_value(constant(0, width), types_.bits(width, false))
                                                 : resized(parts[parts.size() - from_end], width));
  }
  return made;
}

// The lowest first.
std::vector<int> Lowering::wide_parts(const Value& value, Location at) {
  std::vector<int> parts;
  for (std::size_t i = value.type->fields.size(); i-- > 0;) {
    parts.push_back(scalar(value.kind == Value::Kind::list ? value.items[i] : field_of(value, i), at));
  }
  return parts;
}

// A set of values for a select: one for each part, the lowest first.
std::vector<ir::Set> Lowering::wide_set(const ast::Expr& expr, const Type* type) {
  std::vector<ir::Set> made(type->fields.size());
  if (expr.kind == ast::ExprKind::any || expr.kind == ast::ExprKind::fallback) {
    return made;
  }
  if (expr.kind == ast::ExprKind::range) {
    unsupported(expr.at, fmt::format("a range of values of more than {} bits", kWidest));
  }
  const auto parts = [&](const ast::Expr& part) {
    const Value value = coerce(eval(part, type), type, part.at);
    if (!is_constant(value)) {
      unsupported(part.at, "a set that is not constant");
    }
    return wide_parts(value, part.at);
  };
  const bool has_mask = expr.kind == ast::ExprKind::mask;
  const std::vector<int> values = parts(has_mask ? *expr.operands[0] : expr);
  const std::vector<int> masks = has_mask ? parts(*expr.operands[1]) : std::vector<int>();
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i].kind = ir::Set::Kind::mask;
    made[i].width = width_of(values[i]);
    made[i].b = has_mask ? constant_value(masks[i]) : ones(made[i].width);
    made[i].a = constant_value(values[i]) & made[i].b;
  }
  return made;
}

// Parts, the lowest first, as a value. What was computed is kept: each part of a value is read more than once, so what
// is computed of what is computed would grow with each step.
Value Lowering::wide_result(const std::vector<int>& parts, const Type* type, Location at) {
  Value made;
  made.kind = Value::Kind::list;
  made.type = type;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Type* of = type->fields[i].type;
    const int part = parts[parts.size() - 1 - i];
    made.items.push_back(scalar_value(extend(part, width_of(part), of->width, false), of));
  }
  if (is_constant(made)) {
    return made;
  }
  Value place = data_of(made, at);
  place.writable = false;
  return place;
}

int Lowering::keep_bits(int expr, Location at) {
  return keep(scalar_value(expr, types_.bits(width_of(expr), false)), at).expr;
}

// a + b + carry, whose own carry becomes `carry`. A part of a sum that is less than what was added to it has one.
std::vector<int> Lowering::wide_sum(const std::vector<int>& a, const std::vector<int>& b, int& carry, Location at) {
  std::vector<int> sum;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const unsigned width = width_of(a[i]);
    const int first = keep_bits(node(ir::Op::add, width, a[i], b[i]), at);
    const int second = keep_bits(node(ir::Op::add, width, first, extend(carry, 1, width, false)), at);
    sum.push_back(second);
    carry = keep_bits(node(ir::Op::logical_or, 1, node(ir::Op::less, 1, first, a[i], -1, false, width),
                           node(ir::Op::less, 1, second, first, -1, false, width)),
                      at);
  }
  return sum;
}

// By the schoolbook, in halves of a part: with what was there and what is carried, a product of two has 128 bits:
// (2^64 - 1)^2 + 2 (2^64 - 1) is 2^128 - 1. Products above the width are left out, and those of constants that are 0.
std::vector<int> Lowering::wide_product(const std::vector<int>& a, const std::vector<int>& b, Location at) {
  constexpr unsigned kHalf = kWidest / 2;
  const auto halves = [&](const std::vector<int>& parts) {
    std::vector<int> made;
    for (const int part : parts) {
      const int whole = extend(part, width_of(part), kWidest, false);
      made.push_back(node(ir::Op::bit_and, kWidest, whole, constant(ones(kHalf), kWidest)));
      made.push_back(node(ir::Op::shift_right, kWidest, whole, constant(kHalf, kWidest)));
    }
    return made;
  };
  const std::vector<int> left = halves(a);
  const std::vector<int> right = halves(b);
  const auto is_zero = [&](int half) { return is_constant(half) && constant_value(half) == 0; };
  std::vector<int> product(left.size(), constant(0, kWidest));
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (is_zero(right[i])) {
      continue;
    }
    int carry = constant(0, kWidest);
    for (std::size_t j = 0; i + j < product.size(); ++j) {
      if (is_zero(left[j]) && is_zero(carry)) {
        continue;
      }
      int made = node(ir::Op::multiply, kWidest, left[j], right[i]);
      made = node(ir::Op::add, kWidest, made, product[i + j]);
      made = keep_bits(node(ir::Op::add, kWidest, made, carry), at);
      product[i + j] = node(ir::Op::bit_and, kWidest, made, constant(ones(kHalf), kWidest));
      carry = node(ir::Op::shift_right, kWidest, made, constant(kHalf, kWidest));
    }
  }
  std::vector<int> joined;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int high = node(ir::Op::shift_left, kWidest, product[2 * i + 1], constant(kHalf, kWidest));
    joined.push_back(extend(node(ir::Op::bit_or, kWidest, high, product[2 * i]), kWidest, width_of(a[i]), false));
  }
  return joined;
}

Value Lowering::wide_unary(const std::string& op, const Value& value, Location at) {
  if (op == "+") {
    return value;
  }
  std::vector<int> parts = wide_parts(value, at);
  std::vector<int> zeros;
  for (int& part : parts) {
    const unsigned width = width_of(part);
    part = node(ir::Op::bit_not, width, part);
    zeros.push_back(constant(0, width));
  }
  int carry = constant(1, 1);
  return wide_result(op == "-" ? wide_sum(zeros, parts, carry, at) : parts, value.type, at);
}

// None: there is no such operator.
std::optional<Value> Lowering::wide_arithmetic(const std::string& op, const Value& left, const Value& right,
                                               Location at) {
  const bool saturates = op == "|+|" || op == "|-|";
  if (is_constant(left) && is_constant(right)) {
    Number made = combine_exactly(saturates ? op.substr(1, 1) : op, wide_number(left), wide_number(right), at);
    if (saturates && !made.fits(left.type->width, false)) {
      made = made.negative ? Number{} : largest(left.type->width);
    }
    return wide_value(made, left.type);
  }
  if (op == "/" || op == "%") {
    return std::nullopt;
  }
  const std::vector<int> a = wide_parts(left, at);
  std::vector<int> b = wide_parts(right, at);
  if (op == "*") {
    return wide_result(wide_product(a, b, at), left.type, at);
  }
  const bool subtracts = op == "-" || op == "|-|";
  if (subtracts || op == "+" || op == "|+|") {
    for (int& part : b) {
      part = subtracts ? node(ir::Op::bit_not, width_of(part), part) : part;  // a - b is a + ~b + 1
    }
    int carry = constant(static_cast<unsigned>(subtracts), 1);
    std::vector<int> sum = wide_sum(a, b, carry, at);
    for (int& part : sum) {
      const unsigned width = width_of(part);
      if (op == "|+|") {
        part = node(ir::Op::conditional, width, carry, constant(ones(width), width), part);
      } else if (op == "|-|") {  // without a carry b is larger
        part = node(ir::Op::conditional, width, carry, part, constant(0, width));
      }
    }
    return wide_result(sum, left.type, at);
  }
  const ir::Op made = op == "&" ? ir::Op::bit_and : op == "|" ? ir::Op::bit_or : ir::Op::bit_xor;
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = node(made, width_of(a[i]), a[i], b[i]);
  }
  return wide_result(b, left.type, at);
}

int Lowering::wide_less(const Value& left, const Value& right, Location at) {
  const std::vector<int> a = wide_parts(left, at);
  const std::vector<int> b = wide_parts(right, at);
  int less = constant(0, 1);
  for (std::size_t i = 0; i < a.size(); ++i) {  // the higher a part, the more it counts
    const int same = conjunction(node(ir::Op::equal, 1, a[i], b[i]), less);
    less = node(ir::Op::logical_or, 1, node(ir::Op::less, 1, a[i], b[i], -1, false, width_of(a[i])), same);
  }
  return less;
}

// By `whole` parts and by `within` bits in a part. A part is made of two: of one its near bits, of the one beside it
// what has moved out of it.
Value Lowering::wide_shift(const Value& left, const Value& right, bool to_left, Location at) {
  constexpr unsigned kPartBits = 7;
  static_assert(1U << kPartBits == kWidest);
  Value amount = right;
  if (amount.kind == Value::Kind::integer) {
    amount = scalar_value(constant(shift_amount(amount.number), kWidest), types_.bits(kWidest, false));
  }
  const unsigned width = std::max(amount.type->width, kPartBits + 1);
  const int by = keep_bits(extend(scalar(amount, at), amount.type->width, width, false), at);
  const int whole = keep_bits(node(ir::Op::shift_right, width, by, constant(kPartBits, width)), at);
  const int within = keep_bits(node(ir::Op::bit_and, width, by, constant(kWidest - 1, width)), at);
  const int rest = keep_bits(node(ir::Op::subtract, width, constant(kWidest - 1, width), within), at);
  std::vector<int> parts = wide_parts(left, at);
  std::vector<int> by_whole;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = extend(parts[i], width_of(parts[i]), kWidest, false);
    by_whole.push_back(keep_bits(node(ir::Op::equal, 1, whole, constant(i, width)), at));
  }
  const ir::Op near = to_left ? ir::Op::shift_left : ir::Op::shift_right;
  const ir::Op far = to_left ? ir::Op::shift_right : ir::Op::shift_left;
  // The part that is `distance` away from part i, from which bits come; none beyond the ends.
  const auto from = [&](std::size_t i, std::size_t distance) {
    const bool exists = to_left ? distance <= i : i + distance < parts.size();
    return !exists ? constant(0, kWidest) : parts[to_left ? i - distance : i + distance];
  };
  std::vector<int> shifted;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    int made = constant(0, kWidest);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const bool is_known = is_constant(by_whole[k]);
      if (is_known && constant_value(by_whole[k]) == 0) {
        continue;
      }
      const int beside = node(far, kWidest, from(i, k + 1), constant(1, width));
      const int bits =
          node(ir::Op::bit_or, kWidest, node(near, kWidest, from(i, k), within), node(far, kWidest, beside, rest));
      made = is_known ? bits : node(ir::Op::conditional, kWidest, by_whole[k], bits, made);
    }
    shifted.push_back(made);
  }
  return wide_result(shifted, left.type, at);
}

// How far a shift by a wide value goes: what does not fit the lowest part is farther than any value has bits.
Value Lowering::wide_amount(const Value& value, Location at) {
  const std::vector<int> parts = wide_parts(value, at);
  std::vector<int> fits;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    fits.push_back(node(ir::Op::equal, 1, parts[i], constant(0, width_of(parts[i]))));
  }
  const int most = constant(ones(kWidest), kWidest);
  return scalar_value(node(ir::Op::conditional, kWidest, all_of(std::move(fits)), parts[0], most),
                      types_.bits(kWidest, false));
}

Value Lowering::wide_concatenation(const Value& left, const Value& right, Location at) {
  const unsigned width = left.type->width + right.type->width;
  if (width > kLargestVarbit) {
    unsupported(at, fmt::format("a value of {} bits; at most {}", width, kLargestVarbit));
  }
  if (left.type->is_signed) {
    unsupported(at, fmt::format("an int<{}>; at most {} bits", width, kWidest));
  }
  const Type* type = types_.wide(width);
  const auto whole = [&](const Value& side) {
    const bool is_signed = side.type->is_signed;
    return wide_cast(is_signed ? scalar_value(scalar(side, at), types_.bits(side.type->width, false)) : side, type, at);
  };
  const Value high = wide_result(wide_parts(whole(left), at), type, at);
  const Value low = wide_result(wide_parts(whole(right), at), type, at);
  return *wide_arithmetic("|", wide_shift(high, integer_value(Number::of(right.type->width)), true, at), low, at);
}

}  // namespace sidelatch::p4
