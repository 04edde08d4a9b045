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

Value Lowering::wide_value(const Number& number, const Type* type, Location at) {
  if (number.negative) {
    warnings_.push_back({at, fmt::format("{} does not fit {}, and is cut", text(number), text(type))});
  }
  Value made;
  made.kind = Value::Kind::list;
  made.type = type;
  for (const FieldType& part : type->fields) {
    const bool is_last = &part == &type->fields.back();
    const U128 above = number.negative ? ones(part.type->width) : 0;
    made.items.push_back(
        scalar_value(constant(is_last ? number.bits(part.type->width) : above, part.type->width), part.type));
  }
  return made;
}

Value Lowering::wide_literal(const Literal& literal, Location at) {
  Value made = wide_value(literal.value, types_.wide(literal.width), at);
  bool fits = true;
  for (std::size_t i = 0; i < literal.above.size(); ++i) {
    const std::size_t part = i + 1;
    if (part >= made.items.size()) {
      fits = fits && literal.above[i] == 0;
      continue;
    }
    Value& item = made.items[made.items.size() - 1 - part];
    fits = fits && literal.above[i] <= ones(item.type->width);
    item = scalar_value(constant(literal.above[i], item.type->width), item.type);
  }
  if (!fits) {
    warnings_.push_back({at, "the literal does not fit its width, and is cut"});
  }
  return made;
}

// Bits [low, low + width), which may lie in two parts.
Value Lowering::wide_slice(const Value& base, unsigned low, unsigned width, Location at) {
  if (width > kWidest) {  // only to be read
    const Value shifted = wide_shift(base, integer_value(Number::of(low)), false, at);
    return wide_result(wide_parts(wide_cast(shifted, types_.wide(width), at), at), types_.wide(width), at);
  }
  const bool is_list = base.kind == Value::Kind::list;
  Value whole;
  unsigned part_low = base.type->width;
  for (std::size_t i = 0; i < base.type->fields.size(); ++i) {
    Value part = is_list ? base.items[i] : field_of(base, i);
    const unsigned part_width = part.type->width;
    part_low -= part_width;
    const unsigned from = std::max(low, part_low);
    const unsigned to = std::min(low + width, part_low + part_width);
    if (from >= to) {
      continue;
    }
    const Type* type = types_.bits(to - from, false);
    if (is_list) {
      part = scalar_value(node(ir::Op::slice, to - from, scalar(part, at), -1, -1, false, from - part_low), type);
    } else {
      part.low = from - part_low;
      part.whole = part_width;
      part.sliced = true;
      part.type = type;
    }
    if (to - from == width) {
      return part;
    }
    if (whole.kind == Value::Kind::none) {
      whole = part;
      continue;
    }
    const Value high = whole;
    whole =
        scalar_value(node(ir::Op::concatenate, width, scalar(high, at), scalar(part, at), -1, false, part.type->width),
                     types_.bits(width, false));
    if (!is_list) {
      whole.items = {high, part};
      whole.writable = base.writable;
    }
  }
  return whole;
}

// To a slice of a wide value that lies in two parts. What is stored may be computed of the same value, so it is kept
// before the first part changes.
void Lowering::store_in_parts(const Value& target, int expr, Location at) {
  const Value kept = keep(scalar_value(expr, target.type), at);
  unsigned above = target.type->width;
  for (const Value& part : target.items) {
    const unsigned width = part.type->width;
    above -= width;
    store_scalar(part, node(ir::Op::slice, width, kept.expr, -1, -1, false, above), at);
  }
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

// a + b + carry. A part of a sum that is less than what was added to it has a carry.
std::vector<int> Lowering::wide_sum(const std::vector<int>& a, const std::vector<int>& b, bool carry, Location at) {
  std::vector<int> sum;
  int carried = constant(static_cast<unsigned>(carry), 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const unsigned width = width_of(a[i]);
    const int first = keep_bits(node(ir::Op::add, width, a[i], b[i]), at);
    const int second = keep_bits(node(ir::Op::add, width, first, extend(carried, 1, width, false)), at);
    sum.push_back(second);
    carried = keep_bits(node(ir::Op::logical_or, 1, node(ir::Op::less, 1, first, a[i], -1, false, width),
                             node(ir::Op::less, 1, second, first, -1, false, width)),
                        at);
  }
  return sum;
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
  return wide_result(op == "-" ? wide_sum(zeros, parts, true, at) : parts, value.type, at);
}

// None: there is no such operator.
std::optional<Value> Lowering::wide_arithmetic(const std::string& op, const Value& left, const Value& right,
                                               Location at) {
  const std::vector<int> a = wide_parts(left, at);
  std::vector<int> b = wide_parts(right, at);
  if (op == "+") {
    return wide_result(wide_sum(a, b, false, at), left.type, at);
  }
  if (op == "-") {  // a + ~b + 1
    for (int& part : b) {
      part = node(ir::Op::bit_not, width_of(part), part);
    }
    return wide_result(wide_sum(a, b, true, at), left.type, at);
  }
  if (op != "&" && op != "|" && op != "^") {
    return std::nullopt;
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
    amount = scalar_value(constant(amount.number.magnitude, kWidest), types_.bits(kWidest, false));
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
