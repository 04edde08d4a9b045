// Values of more than kWidest bits. They can be kept, copied, compared for equality, cut into slices and cast, no more.
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

// Bits [low, low + width), which may lie in two parts.
Value Lowering::wide_slice(const Value& base, unsigned low, unsigned width, Location at) {
  if (width > kWidest) {
    unsupported(at, fmt::format("a slice of {} bits; at most {}", width, kWidest));
  }
  Value whole;
  unsigned part_low = base.type->width;
  for (std::size_t i = 0; i < base.type->fields.size(); ++i) {
    Value part = field_of(base, i);
    const unsigned part_width = part.type->width;
    part_low -= part_width;
    const unsigned from = std::max(low, part_low);
    const unsigned to = std::min(low + width, part_low + part_width);
    if (from >= to) {
      continue;
    }
    part.low = from - part_low;
    part.whole = part_width;
    part.sliced = true;
    part.type = types_.bits(to - from, false);
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
    whole.items = {high, part};
    whole.writable = base.writable;
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
    const Value place = data_of(value, at);
    for (std::size_t i = 0; i < value.type->fields.size(); ++i) {
      parts.push_back(field_of(place, i));
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

}  // namespace sidelatch::p4
