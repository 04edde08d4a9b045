#include "number.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace sidelatch::p4 {

namespace {

[[noreturn]] void too_large(Location at) {
  unsupported(at, fmt::format("a number of more than {} bits", kLargestNumber));
}

Number make(bool negative, Natural magnitude) {
  const bool is_negative = negative && magnitude != 0;
  return {is_negative, std::move(magnitude)};
}

Number add(const Number& a, const Number& b) {
  if (a.negative == b.negative) {
    return make(a.negative, a.magnitude + b.magnitude);
  }
  return a.magnitude >= b.magnitude ? make(a.negative, a.magnitude - b.magnitude)
                                    : make(b.negative, b.magnitude - a.magnitude);
}

Number shift_left(const Number& a, const Number& b, Location at) {
  if (a.magnitude == 0) {
    return a;
  }
  if (b.magnitude >= kLargestNumber) {
    too_large(at);
  }
  return make(a.negative, a.magnitude << static_cast<std::size_t>(b.magnitude.low()));
}

// Rounds towards minus infinity, as division by a power of two: -(m >> by), or one less, is -(((m - 1) >> by) + 1).
Number shift_right(const Number& a, const Number& b) {
  if (b.magnitude >= kLargestNumber) {
    return a.negative ? make(true, 1) : Number{};
  }
  const auto by = static_cast<std::size_t>(b.magnitude.low());
  return a.negative ? make(true, ((a.magnitude - 1) >> by) + 1) : make(false, a.magnitude >> by);
}

// In two's complement with as many bits as both need. The language leaves these out for numbers of unknown width, but
// the reference compiler has them.
Number combine_bits(char op, const Number& a, const Number& b) {
  const auto joined = [op](U128 x, U128 y) { return op == '&' ? x & y : op == '|' ? x | y : x ^ y; };
  const bool negative = joined(static_cast<unsigned>(a.negative), static_cast<unsigned>(b.negative)) != 0;
  Natural made;  // of a negative number what -1 - number is
  for (std::size_t from = 0; from < std::max(a.magnitude.bits(), b.magnitude.bits()); from += kWidest) {
    const U128 part = joined(a.bits(kWidest, from), b.bits(kWidest, from));
    made = made + (Natural(negative ? ~part : part) << from);
  }
  return negative ? make(true, made + 1) : make(false, made);
}

}  // namespace

Number combine_exactly(std::string_view op, const Number& a, const Number& b, Location at) {
  if (op == "+") {
    return add(a, b);
  }
  if (op == "-") {
    return add(a, negate(b));
  }
  if (op == "*") {
    return make(a.negative != b.negative, a.magnitude * b.magnitude);
  }
  if (op == "/" || op == "%") {
    if (b.magnitude == 0) {
      fail(at, "division by zero");
    }
    if (a.negative || b.negative) {
      fail(at, "'" + std::string(op) + "' is not defined for negative numbers");
    }
    const Natural::Division divided = a.magnitude.divided_by(b.magnitude);
    return make(false, op == "/" ? divided.quotient : divided.rest);
  }
  if (op == "&" || op == "|" || op == "^") {
    return combine_bits(op[0], a, b);
  }
  if (b.negative) {
    fail(at, "a shift by a negative number");
  }
  return op == "<<" ? shift_left(a, b, at) : shift_right(a, b);
}

Number Number::of_signed(U128 bits, unsigned width) {
  return is_negative(bits, width) ? Number{true, (~bits + 1) & ones(width)} : Number{false, bits};
}

U128 Number::bits(unsigned width, std::size_t from) const {
  return (negative ? ~(magnitude - 1).part(from) : magnitude.part(from)) & ones(width);
}

bool Number::fits(unsigned width, bool is_signed) const {
  if (!is_signed) {
    return !negative && magnitude.bits() <= width;
  }
  return width != 0 && (negative ? magnitude - 1 : magnitude).bits() <= width - 1;
}

bool less(const Number& a, const Number& b) {
  if (a.negative != b.negative) {
    return a.negative;
  }
  return a.negative ? b.magnitude < a.magnitude : a.magnitude < b.magnitude;
}

Number negate(const Number& a) { return make(!a.negative, a.magnitude); }

Number combine(std::string_view op, const Number& a, const Number& b, Location at) {
  Number made = combine_exactly(op, a, b, at);
  if (made.magnitude.bits() > kLargestNumber) {
    too_large(at);
  }
  return made;
}

Number largest(unsigned width) { return Number::of((Natural(1) << width) - 1); }

std::string text(const Number& number) { return (number.negative ? "-" : "") + number.magnitude.text(); }

Literal parse_literal(std::string_view text, Location at) {
  Literal literal;
  std::string digits;
  for (const char c : text) {
    if (c != '_') {
      digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  const std::size_t sized = digits.find_first_not_of("0123456789");
  if (sized != std::string::npos && sized > 0 && (digits[sized] == 'w' || digits[sized] == 's')) {
    if (text[sized] != digits[sized]) {
      fail(at, "'" + std::string(text) + "' is not a number: its width is digits and a small 'w' or 's'");
    }
    literal.is_signed = digits[sized] == 's';
    constexpr std::size_t kMostDigits = 5;
    const unsigned widest = literal.is_signed ? kWidest : kLargestVarbit;
    literal.width = sized > kMostDigits ? widest + 1 : static_cast<unsigned>(std::stoul(digits.substr(0, sized)));
    if (literal.width > widest) {
      unsupported(at, fmt::format("a width of more than {} bits", widest));
    }
    if (literal.width == 0) {
      unsupported(at, "a width of 0");
    }
    digits.erase(0, sized + 1);
  }
  unsigned base = 10;
  if (digits.size() >= 2 && digits[0] == '0' && std::string_view("xobd").find(digits[1]) != std::string_view::npos) {
    base = digits[1] == 'x' ? 16 : digits[1] == 'o' ? 8 : digits[1] == 'b' ? 2 : 10;
    digits.erase(0, 2);
  }
  literal.base = base;
  if (digits.empty()) {
    fail(at, "a number without digits");
  }
  Natural& made = literal.value.magnitude;
  U128 group = 0;  // digits that are not in the number yet
  U128 weight = 1;
  constexpr U128 kLargestWeight = U128{1} << 64;
  const auto add_group = [&] {
    made = made * weight + group;
    if (made.bits() > kLargestNumber) {
      too_large(at);
    }
    group = 0;
    weight = 1;
  };
  for (const char c : digits) {
    const unsigned digit = std::isdigit(static_cast<unsigned char>(c)) != 0 ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f'                           ? static_cast<unsigned>(c - 'a' + 10)
                                                                            : 99;
    if (digit >= base) {
      fail(at, "'" + std::string(text) + "' is not a number");
    }
    group = group * base + digit;
    weight *= base;
    if (weight >= kLargestWeight) {
      add_group();
    }
  }
  add_group();
  return literal;
}

}  // namespace sidelatch::p4
