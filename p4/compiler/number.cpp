#include "number.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace sidelatch::p4 {

namespace {

[[noreturn]] void too_large(Location at) { unsupported(at, "a number of more than 128 bits"); }

Number make(bool negative, U128 magnitude) { return {negative && magnitude != 0, magnitude}; }

Number add(const Number& a, const Number& b, Location at) {
  if (a.negative == b.negative) {
    const U128 sum = a.magnitude + b.magnitude;
    if (sum < a.magnitude) {
      too_large(at);
    }
    return make(a.negative, sum);
  }
  return a.magnitude >= b.magnitude ? make(a.negative, a.magnitude - b.magnitude)
                                    : make(b.negative, b.magnitude - a.magnitude);
}

Number shift_left(const Number& a, const Number& b, Location at) {
  if (a.magnitude == 0) {
    return a;
  }
  if (b.magnitude >= kWidest ||
      (a.magnitude << static_cast<unsigned>(b.magnitude)) >> static_cast<unsigned>(b.magnitude) != a.magnitude) {
    too_large(at);
  }
  return make(a.negative, a.magnitude << static_cast<unsigned>(b.magnitude));
}

// Rounds towards minus infinity, as division by a power of two.
Number shift_right(const Number& a, const Number& b) {
  if (b.magnitude >= kWidest) {
    return a.negative ? make(true, 1) : Number{};
  }
  const auto by = static_cast<unsigned>(b.magnitude);
  const U128 quotient = a.magnitude >> by;
  const bool rest = (quotient << by) != a.magnitude;
  return make(a.negative, quotient + static_cast<unsigned>(a.negative && rest));
}

// The language leaves these out for numbers of unknown width, but the reference compiler has them.
Number combine_bits(char op, const Number& a, const Number& b, Location at) {
  const auto fits = [](const Number& number) { return number.fits(kWidest, true); };
  const bool is_signed = a.negative || b.negative;
  if (is_signed && !(fits(a) && fits(b))) {
    too_large(at);
  }
  const U128 left = a.bits(kWidest);
  const U128 right = b.bits(kWidest);
  const U128 made = op == '&' ? left & right : op == '|' ? left | right : left ^ right;
  return is_signed ? Number::of_signed(made, kWidest) : make(false, made);
}

}  // namespace

Number Number::of_signed(U128 bits, unsigned width) {
  return is_negative(bits, width) ? Number{true, (~bits + 1) & ones(width)} : Number{false, bits};
}

U128 Number::bits(unsigned width) const { return (negative ? ~magnitude + 1 : magnitude) & ones(width); }

bool Number::fits(unsigned width, bool is_signed) const {
  if (!is_signed) {
    return !negative && magnitude <= ones(width);
  }
  return width != 0 && magnitude <= ones(width - 1) + static_cast<unsigned>(negative);
}

bool less(const Number& a, const Number& b) {
  if (a.negative != b.negative) {
    return a.negative;
  }
  return a.negative ? b.magnitude < a.magnitude : a.magnitude < b.magnitude;
}

Number negate(const Number& a) { return make(!a.negative, a.magnitude); }

Number combine(std::string_view op, const Number& a, const Number& b, Location at) {
  if (op == "+") {
    return add(a, b, at);
  }
  if (op == "-") {
    return add(a, negate(b), at);
  }
  if (op == "*") {
    U128 product = 0;
    if (__builtin_mul_overflow(a.magnitude, b.magnitude, &product)) {
      too_large(at);
    }
    return make(a.negative != b.negative, product);
  }
  if (op == "/" || op == "%") {
    if (b.magnitude == 0) {
      fail(at, "division by zero");
    }
    if (a.negative || b.negative) {
      fail(at, "'" + std::string(op) + "' is not defined for negative numbers");
    }
    return make(false, op == "/" ? a.magnitude / b.magnitude : a.magnitude % b.magnitude);
  }
  if (op == "&" || op == "|" || op == "^") {
    return combine_bits(op[0], a, b, at);
  }
  if (b.negative) {
    fail(at, "a shift by a negative number");
  }
  return op == "<<" ? shift_left(a, b, at) : shift_right(a, b);
}

std::string text(U128 value) {
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(value % 10));
    value /= 10;
  } while (value != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string text(const Number& number) { return (number.negative ? "-" : "") + text(number.magnitude); }

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
  if (digits.empty()) {
    fail(at, "a number without digits");
  }
  constexpr unsigned kLimbBits = 64;
  std::vector<std::uint64_t> limbs;  // the lowest first
  for (const char c : digits) {
    const unsigned digit = std::isdigit(static_cast<unsigned char>(c)) != 0 ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f'                           ? static_cast<unsigned>(c - 'a' + 10)
                                                                            : 99;
    if (digit >= base) {
      fail(at, "'" + std::string(text) + "' is not a number");
    }
    U128 carry = digit;
    for (std::uint64_t& limb : limbs) {
      carry += U128{limb} * base;
      limb = static_cast<std::uint64_t>(carry);
      carry >>= kLimbBits;
    }
    if (carry != 0) {
      limbs.push_back(static_cast<std::uint64_t>(carry));
    }
    if (limbs.size() > kLargestVarbit / kLimbBits) {
      too_large(at);
    }
  }
  limbs.resize(std::max<std::size_t>(2, (limbs.size() + 1) / 2 * 2));
  for (std::size_t i = 0; i < limbs.size(); i += 2) {
    const U128 part = U128{limbs[i + 1]} << kLimbBits | limbs[i];
    if (i == 0) {
      literal.value.magnitude = part;
    } else {
      literal.above.push_back(part);
    }
  }
  if (!literal.above.empty() && literal.width <= kWidest) {
    too_large(at);
  }
  return literal;
}

}  // namespace sidelatch::p4
