// Numbers of compile time: P4's type int, as far as 128 bits and a sign go.
#pragma once

#include "source.h"

#include <sidelatch/p4/bits.h>

#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::p4 {

/// Bits of a varbit<N>, and of a bit<N>.
inline constexpr unsigned kLargestVarbit = 16'384;

/// A number with a sign. What does not fit is refused at the place that asks for it.
struct Number {
  bool negative = false;
  U128 magnitude = 0;

  [[nodiscard]] static Number of(U128 value) { return {false, value}; }
  /// The value of an int<width>.
  [[nodiscard]] static Number of_signed(U128 bits, unsigned width);
  /// In two's complement, cut to `width` bits.
  [[nodiscard]] U128 bits(unsigned width) const;
  /// Whether bit<width> or int<width> has this value.
  [[nodiscard]] bool fits(unsigned width, bool is_signed) const;
  [[nodiscard]] bool operator==(const Number&) const = default;
};

[[nodiscard]] bool less(const Number& a, const Number& b);
/// +, -, *, /, %, <<, >>. Fails at `at` where P4 has no result.
[[nodiscard]] Number combine(std::string_view op, const Number& a, const Number& b, Location at);
[[nodiscard]] Number negate(const Number& a);
[[nodiscard]] std::string text(U128 value);
[[nodiscard]] std::string text(const Number& number);

/// A literal: 12, 0xff, 8w0b1010, 4s7. width 0: an int.
struct Literal {
  Number value;
  std::vector<U128> above;  // of more than kWidest bits, if the width is larger: the others, the lowest first
  unsigned width = 0;
  bool is_signed = false;
};
[[nodiscard]] Literal parse_literal(std::string_view text, Location at);

}  // namespace sidelatch::p4
