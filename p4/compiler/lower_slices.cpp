// Slices: bits of a value, to be read and to be assigned to.
//
// Bits [low, low + width) of a place are a place. Those that lie in several places, as a bit<N> above kWidest does, are
// a value whose items are these places, the highest bits first. So are those whose place the packet gives, which keep
// what they are a slice of.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::p4 {

const Type* Lowering::bits_type(unsigned width) {
  return width > kWidest ? types_.wide(width) : types_.bits(width, false);
}

Value Lowering::slice(const ast::Expr& expr) {
  const bool is_indexed = expr.text == "+";  // [LOW +: WIDTH], else [HIGH:LOW]
  const Value target = bits_of(eval(*expr.operands[0]), expr.at);
  const Value base = has_effects(*expr.operands[1]) ? keep(target, expr.at) : target;  // to be read
  const Value first = bits_of(eval(*expr.operands[1]), expr.operands[1]->at);
  const bool is_number = base.kind == Value::Kind::integer;
  if (!is_number && (base.type == nullptr || !(base.type->is_bits() || base.type->is_wide))) {
    fail(expr.at, "a slice is of a bit<N> or int<N>, not of " + text(base.type));
  }
  const unsigned size = is_number ? kLargestNumber : base.type->width;
  const Number second = constant_number(*expr.operands[2]);
  if (is_indexed && !is_constant(first)) {
    if (is_number) {
      fail(expr.at, "the width of this number is not known; a slice whose place is not constant needs one");
    }
    if (second.negative || second.magnitude == 0 || second.magnitude > size) {
      fail(expr.at, fmt::format("{} is no width of a slice of {}", text(second), text(base.type)));
    }
    return moving_slice(base, target, first, static_cast<unsigned>(second.magnitude.low()), expr.at);
  }
  Number high = number_of(first, expr.operands[1]->at);
  Number low = second;
  if (is_indexed) {
    low = high;
    if (second.negative || second.magnitude == 0) {
      fail(expr.at, fmt::format("[{} +: {}] has no bits", text(low), text(second)));
    }
    high = combine("+", low, combine("-", second, Number::of(1), expr.at), expr.at);
  }
  if (high.negative || low.negative || less(high, low) || high.magnitude >= size) {
    fail(expr.at, fmt::format("[{}:{}] is no slice of {}", text(high), text(low), text(base.type)));
  }
  const auto from = static_cast<unsigned>(low.magnitude.low());
  const unsigned width = static_cast<unsigned>(high.magnitude.low()) - from + 1;
  if (is_number) {
    return cast(integer_value(combine(">>", base.number, low, expr.at)), bits_type(width), expr.at);
  }
  Value made = fixed_slice(base, from, width, expr.at);
  if (target.moving != nullptr) {  // no place has these bits, but what they are a slice of
    made.writable = target.writable;
    constexpr unsigned kPlaceBits = 32;
    const Value place = scalar_value(constant(from, kPlaceBits), types_.bits(kPlaceBits, false));
    made.moving = std::make_shared<const MovingSlice>(MovingSlice{target, place});
  }
  return made;
}

// Bits [low, low + width) of a value of known width.
Value Lowering::fixed_slice(const Value& base, unsigned low, unsigned width, Location at) {
  if (!base.type->is_wide) {
    return part_of(base, low, width, at);
  }
  const bool is_list = base.kind == Value::Kind::list;
  std::vector<Value> parts;
  for (std::size_t i = 0; i < base.type->fields.size(); ++i) {
    parts.push_back(is_list ? base.items[i] : field_of(base, i));
  }
  if (width <= kWidest) {
    return joined_parts(parts, low, width, at);
  }
  Value made;
  made.kind = Value::Kind::list;
  made.type = types_.wide(width);
  made.writable = base.writable;
  unsigned above = low + width;
  for (const FieldType& part : made.type->fields) {
    above -= part.type->width;
    made.items.push_back(joined_parts(parts, above, part.type->width, at));
    made.writable = made.writable && made.items.back().writable;
  }
  return made;
}

// The same of a value of one slot, or of a slice in several.
Value Lowering::part_of(const Value& value, unsigned low, unsigned width, Location at) {
  if (value.kind == Value::Kind::place) {
    Value made = value;
    made.whole = value.sliced ? value.whole : value.type->width;
    made.low = value.sliced ? value.low + low : low;
    made.sliced = true;
    made.type = types_.bits(width, false);
    return made;
  }
  if (value.kind == Value::Kind::scalar && !value.items.empty()) {
    return joined_parts(value.items, low, width, at);
  }
  return scalar_value(node(ir::Op::slice, width, scalar(value, at), -1, -1, false, low), types_.bits(width, false));
}

// The same of parts, the highest first.
Value Lowering::joined_parts(const std::vector<Value>& parts, unsigned low, unsigned width, Location at) {
  std::vector<Value> pieces;
  unsigned part_low = 0;
  for (const Value& part : parts) {
    part_low += part.type->width;
  }
  for (const Value& part : parts) {
    const unsigned part_high = part_low;
    part_low -= part.type->width;
    const unsigned from = std::max(low, part_low);
    const unsigned to = std::min(low + width, part_high);
    if (from < to) {
      pieces.push_back(part_of(part, from - part_low, to - from, at));
    }
  }
  if (pieces.size() == 1) {
    return pieces.front();
  }
  int whole = scalar(pieces.front(), at);
  bool is_writable = pieces.front().writable;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const unsigned below = pieces[i].type->width;
    whole = node(ir::Op::concatenate, width_of(whole) + below, whole, scalar(pieces[i], at), -1, false, below);
    is_writable = is_writable && pieces[i].writable;
  }
  Value made = scalar_value(whole, types_.bits(width, false));
  made.items = std::move(pieces);
  made.writable = is_writable;
  return made;
}

// Of a slice that lies in several places. What is stored may be computed of the same value, so it is kept before the
// first place changes.
void Lowering::store_in_parts(const Value& target, const Value& value, Location at) {
  const Value kept = keep(value, at);
  unsigned above = target.type->width;
  for (const Value& part : target.items) {
    above -= part.type->width;
    store(part, fixed_slice(kept, above, part.type->width, at), at);
  }
}

// Of `base`, or of `target` if it is assigned to. The place is known when the program runs. Bits beyond the value are
// 0, and are not assigned to. The specification leaves them open.
Value Lowering::moving_slice(const Value& base, const Value& target, Value low, unsigned width, Location at) {
  if (low.type == nullptr || !(low.type->is_bits() || low.type->is_wide)) {
    fail(at, "the place of a slice is a number, not " + text(low.type));
  }
  if (low.type->is_wide) {
    low = wide_amount(low, at);
  }
  if (low.type->is_signed) {  // a negative one is beyond the end, as a large number without a sign
    const unsigned extended = std::max(low.type->width, 64U);
    low = scalar_value(extend(scalar(low, at), low.type->width, extended, true), types_.bits(extended, false));
  }
  low = keep(low, at);
  const Value moved = shifted(base, low, false, at);
  Value made = moved.type->is_wide ? wide_cast(moved, bits_type(width), at) : part_of(moved, 0, width, at);
  made.writable = target.writable;
  made.moving = std::make_shared<const MovingSlice>(MovingSlice{target, low});
  return made;
}

// The bits of a value, whatever its sign, moved by as many as `by` says.
Value Lowering::shifted(const Value& value, const Value& by, bool to_left, Location at) {
  if (value.type->is_wide) {
    return wide_shift(value, by, to_left, at);
  }
  const ir::Op op = to_left ? ir::Op::shift_left : ir::Op::shift_right;
  return scalar_value(node(op, value.type->width, scalar(value, at), scalar(by, at)),
                      types_.bits(value.type->width, false));
}

void Lowering::store_moving(const Value& target, const Value& value, Location at) {
  const Value& base = target.moving->base;
  const Value& low = target.moving->low;
  const unsigned width = base.type->width;
  const Type* type = bits_type(width);
  const Number all = largest(target.type->width);
  if (!type->is_wide) {
    const int mask = constant(all.bits(width), width);
    const int moved_mask = node(ir::Op::shift_left, width, mask, scalar(low, at));
    const int rest = node(ir::Op::bit_and, width, scalar(base, at), node(ir::Op::bit_not, width, moved_mask));
    const int set = scalar(shifted(cast(value, type, at), low, true, at), at);
    store(base, scalar_value(node(ir::Op::bit_or, width, rest, set), base.type), at);
    if (base.kind == Value::Kind::place) {
      block_->back().which = 1;  // the program does not read the rest
    }
    return;
  }
  const Value moved_mask = wide_unary("~", shifted(wide_value(all, type), low, true, at), at);
  const Value rest = *wide_arithmetic("&", base, moved_mask, at);
  const Value set = shifted(cast(value, type, at), low, true, at);
  store(base, *wide_arithmetic("|", rest, set, at), at);
}

}  // namespace sidelatch::p4
