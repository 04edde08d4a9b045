// Numbers of compile time: P4's type int, as far as 16 384 bits and a sign go.
#pragma once

#include "natural.h"
#include "source.h"

#include <sidelatch/p4/bits.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace sidelatch::p4 {

/// Bits of a varbit<N>, and of a bit<N>.
inline constexpr unsigned kLargestVarbit = 16'384;
/// Bits of a number of compile time, without its sign.
inline constexpr unsigned kLargestNumber = kLargestVarbit;

/// A number with a sign. What does not fit is refused at the place that asks for it.
struct Number {
  bool negative = false;
  Natural magnitude;

  [[nodiscard]] static Number of(Natural value) { return {false, std::move(value)}; }
  /// The value of an int<width>.
  [[nodiscard]] static Number of_signed(U128 bits, unsigned width);
  /// In two's complement, its bits [from, from + width); `width` up to 128.
  [[nodiscard]] U128 bits(unsigned width, std::size_t from = 0) const;
  /// Whether bit<width> or int<width> has this value.
  [[nodiscard]] bool fits(unsigned width, bool is_signed) const;
  [[nodiscard]] bool operator==(const Number&) const = default;
};

[[nodiscard]] bool less(const Number& a, const Number& b);
/// +, -, *, /, %, <<, >>, &, |, ^. Fails at `at` where P4 has no result.
[[nodiscard]] Number combine(std::string_view op, const Number& a, const Number& b, Location at);
/// The same without the limit, for values whose width cuts the result: of factors of N bits it has up to 2 N.
[[nodiscard]] Number combine_exactly(std::string_view op, const Number& a, const Number& b, Location at);
/// The largest bit<width>: 2^width - 1.
[[nodiscard]] Number largest(unsigned width);
[[nodiscard]] Number negate(const Number& a);
[[nodiscard]] std::string text(const Number& number);

/// Of a shift by `by`, which is not negative: more than 128 bits are as far as any of them.
[[nodiscard]] inline U128 shift_amount(const Number& by) {
  return by.magnitude.bits() > kWidest ? ones(kWidest) : by.magnitude.low();
}

/// A literal: 12, 0xff, 8w0b1010, 4s7. width 0: an int.
struct Literal {
  Number value;
  unsigned width = 0;
  bool is_signed = false;
  unsigned base = 10;
};
[[nodiscard]] Literal parse_literal(std::string_view text, Location at);

}  // namespace sidelatch::p4
