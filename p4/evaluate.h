// What the operators of the IR compute. Constant folding, the interpreter and tests use this one definition; the
// emitter writes the same in C++.
#pragma once

#include "p4/ir.h"

namespace sidelatch::p4::ir {

/// Saturating sum or difference, of `width` bits.
[[nodiscard]] constexpr U128 saturate(U128 a, U128 b, unsigned width, bool is_signed, bool subtract) noexcept {
  const U128 all = ones(width);
  const U128 result = (subtract ? a - b : a + b) & all;
  if (!is_signed) {
    const bool overflow = subtract ? a < b : result < a;
    return overflow ? (subtract ? U128{0} : all) : result;
  }
  // Overflow: the operands (of a difference: a and -b) have one sign, the result the other.
  const bool negative_b = is_negative(b, width) != subtract;
  const bool overflow = is_negative(a, width) == negative_b && is_negative(result, width) != is_negative(a, width);
  if (!overflow) {
    return result;
  }
  const U128 lowest = U128{1} << (width - 1);
  return is_negative(a, width) ? lowest : lowest - 1;
}

[[nodiscard]] constexpr U128 shift(U128 a, U128 by, unsigned width, bool is_signed, bool left) noexcept {
  const bool fill = !left && is_signed && is_negative(a, width);
  if (by >= width) {
    return fill ? ones(width) : 0;
  }
  const auto count = static_cast<unsigned>(by);
  if (left) {
    return (a << count) & ones(width);
  }
  return fill ? (extend_sign(a, width) >> count | ~(~U128{0} >> count)) & ones(width) : a >> count;
}

/// `width`: of the operands.
[[nodiscard]] constexpr bool is_less(U128 a, U128 b, unsigned width, bool is_signed) noexcept {
  if (!is_signed || is_negative(a, width) == is_negative(b, width)) {
    return a < b;
  }
  return is_negative(a, width);
}

/// The value of `expr`, which is neither a constant nor a load, given those of its operands.
[[nodiscard]] constexpr U128 apply(const Expr& expr, U128 a, U128 b, U128 c) noexcept {
  const U128 all = ones(expr.width);
  switch (expr.op) {
    case Op::constant:
    case Op::load:
      return expr.value;
    case Op::add:
      return (a + b) & all;
    case Op::subtract:
      return (a - b) & all;
    case Op::multiply:
      return (a * b) & all;
    case Op::divide:
      return b == 0 ? 0 : a / b;
    case Op::modulo:
      return b == 0 ? 0 : a % b;
    case Op::add_saturating:
      return saturate(a, b, expr.width, expr.is_signed, false);
    case Op::subtract_saturating:
      return saturate(a, b, expr.width, expr.is_signed, true);
    case Op::bit_and:
      return a & b;
    case Op::bit_or:
      return a | b;
    case Op::bit_xor:
      return a ^ b;
    case Op::bit_not:
      return ~a & all;
    case Op::negate:
      return (U128{0} - a) & all;
    case Op::shift_left:
      return shift(a, b, expr.width, false, true);
    case Op::shift_right:
      return shift(a, b, expr.width, expr.is_signed, false);
    case Op::equal:
      return static_cast<unsigned>(a == b);
    case Op::less:
      return static_cast<unsigned>(is_less(a, b, expr.low, expr.is_signed));
    case Op::less_equal:
      return static_cast<unsigned>(!is_less(b, a, expr.low, expr.is_signed));
    case Op::logical_and:
      return a & b;
    case Op::logical_or:
      return a | b;
    case Op::logical_not:
      return a ^ 1;
    case Op::conditional:
      return a != 0 ? b : c;
    case Op::slice:
      return (a >> expr.low) & all;
    case Op::concatenate:
      return expr.low >= kWidest ? b : ((a << expr.low) | b) & all;
    case Op::extend:
      return (expr.is_signed ? extend_sign(a, expr.low) : a) & all;
  }
  return 0;
}

}  // namespace sidelatch::p4::ir
