// Values of more than kWidest bits. They can be kept, copied, compared for equality and cut into slices, no more.
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
    whole = whole.kind == Value::Kind::none ? part
                                            : scalar_value(node(ir::Op::concatenate, width, scalar(whole, at),
                                                                scalar(part, at), -1, false, part.type->width),
                                                           types_.bits(width, false));
  }
  return whole;
}

}  // namespace sidelatch::p4
