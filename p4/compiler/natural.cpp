#include "natural.h"

#include <algorithm>
#include <bit>

namespace sidelatch::p4 {

Natural::Natural(U128 value) : limbs_{static_cast<Limb>(value), static_cast<Limb>(value >> kLimbBits)} { trim(); }

void Natural::trim() {
  while (!limbs_.empty() && limbs_.back() == 0) {
    limbs_.pop_back();
  }
}

std::size_t Natural::bits() const {
  return limbs_.empty() ? 0 : limbs_.size() * kLimbBits - static_cast<std::size_t>(std::countl_zero(limbs_.back()));
}

U128 Natural::part(std::size_t from) const {
  const std::size_t whole = from / kLimbBits;
  const auto within = static_cast<unsigned>(from % kLimbBits);
  const U128 two = U128{limb(whole + 1)} << kLimbBits | limb(whole);
  return within == 0 ? two : two >> within | U128{limb(whole + 2)} << (2 * kLimbBits - within);
}

// As many digits at once as a limb has: the number is gone through once for them.
std::string Natural::text(unsigned base) const {
  std::size_t count = 0;
  Limb weight = 1;
  while (weight <= ~Limb{0} / base) {
    weight *= base;
    ++count;
  }
  std::string digits;
  std::vector<Limb> rest = limbs_;
  while (!rest.empty()) {
    Limb group = divide_by_limb(rest, weight);
    for (std::size_t i = 0; i < count; ++i) {
      digits += "0123456789abcdef"[group % base];
      group /= base;
    }
  }
  digits.erase(digits.find_last_not_of('0') + 1);
  std::reverse(digits.begin(), digits.end());
  return digits.empty() ? "0" : digits;
}

// The rest. `limbs` becomes the quotient.
Natural::Limb Natural::divide_by_limb(std::vector<Limb>& limbs, Limb divisor) {
  U128 rest = 0;
  for (std::size_t i = limbs.size(); i-- > 0;) {
    rest = rest << kLimbBits | limbs[i];
    limbs[i] = static_cast<Limb>(rest / divisor);
    rest %= divisor;
  }
  while (!limbs.empty() && limbs.back() == 0) {
    limbs.pop_back();
  }
  return static_cast<Limb>(rest);
}

Natural Natural::operator+(const Natural& other) const {
  Natural sum;
  U128 carry = 0;
  for (std::size_t i = 0; i < std::max(limbs_.size(), other.limbs_.size()) + 1; ++i) {
    carry += U128{limb(i)} + other.limb(i);
    sum.limbs_.push_back(static_cast<Limb>(carry));
    carry >>= kLimbBits;
  }
  sum.trim();
  return sum;
}

Natural Natural::operator-(const Natural& other) const {
  Natural difference = *this;
  bool borrowed = false;
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    const U128 taken = U128{other.limb(i)} + static_cast<unsigned>(borrowed);
    borrowed = limbs_[i] < taken;
    difference.limbs_[i] = static_cast<Limb>(limbs_[i] - taken);
  }
  difference.trim();
  return difference;
}

Natural Natural::operator*(const Natural& other) const {
  Natural product;
  product.limbs_.resize(limbs_.size() + other.limbs_.size());
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    U128 carry = 0;
    for (std::size_t j = 0; j < other.limbs_.size(); ++j) {  // (2^64 - 1)^2 + 2 (2^64 - 1) is 2^128 - 1
      carry += U128{limbs_[i]} * other.limbs_[j] + product.limbs_[i + j];
      product.limbs_[i + j] = static_cast<Limb>(carry);
      carry >>= kLimbBits;
    }
    product.limbs_[i + other.limbs_.size()] = static_cast<Limb>(carry);
  }
  product.trim();
  return product;
}

Natural Natural::operator<<(std::size_t by) const {
  Natural shifted;
  const std::size_t whole = by / kLimbBits;
  const auto within = static_cast<unsigned>(by % kLimbBits);
  shifted.limbs_.assign(whole, 0);
  Limb below = 0;
  for (std::size_t i = 0; i < limbs_.size() + 1; ++i) {
    const U128 both = (U128{limb(i)} << kLimbBits | below) << within;
    shifted.limbs_.push_back(static_cast<Limb>(both >> kLimbBits));
    below = limb(i);
  }
  shifted.trim();
  return shifted;
}

Natural Natural::operator>>(std::size_t by) const {
  Natural shifted;
  for (std::size_t from = by; from < bits(); from += kLimbBits) {
    shifted.limbs_.push_back(static_cast<Limb>(part(from)));
  }
  shifted.trim();
  return shifted;
}

Natural::Division Natural::divided_by(const Natural& divisor) const {
  if (*this < divisor) {
    return {.quotient = {}, .rest = *this};
  }
  if (divisor.limbs_.size() == 1) {
    Division made{.quotient = *this, .rest = {}};
    made.rest = U128{divide_by_limb(made.quotient.limbs_, divisor.limbs_[0])};
    return made;
  }
  // Knuth, The Art of Computer Programming, volume 2, 4.3.1, algorithm D: limb for limb. Both are moved up until the
  // highest bit of the divisor is set, so that its highest limbs tell a limb of the quotient with an error of 1.
  const auto moved_by = static_cast<std::size_t>(std::countl_zero(divisor.limbs_.back()));
  const std::vector<Limb> by = (divisor << moved_by).limbs_;
  Natural rest = *this << moved_by;
  const std::size_t size = by.size();
  const std::size_t steps = rest.limbs_.size() - size + 1;
  rest.limbs_.resize(rest.limbs_.size() + 1);
  Division made;
  made.quotient.limbs_.resize(steps);
  for (std::size_t step = steps; step-- > 0;) {
    Limb* const part = &rest.limbs_[step];  // with one limb more than the divisor
    const Limb digit = quotient_limb(part[size], part[size - 1], part[size - 2], by[size - 1], by[size - 2]);
    const bool is_too_large = subtract_product(part, by, digit);
    if (is_too_large) {
      add_back(part, by);
    }
    made.quotient.limbs_[step] = digit - static_cast<Limb>(is_too_large);
  }
  made.quotient.trim();
  rest.trim();
  made.rest = rest >> moved_by;
  return made;
}

// Of three limbs by two: what their quotient is at most, cut to a limb. `high` is not larger than the divisor's
// highest.
Natural::Limb Natural::quotient_limb(Limb high, Limb middle, Limb low, Limb by_high, Limb by_low) {
  constexpr U128 kMost = ~Limb{0};
  const U128 two = U128{high} << kLimbBits | middle;
  U128 limb = std::min(two / by_high, kMost);
  U128 rest = two - limb * by_high;
  while (rest <= kMost && limb * by_low > (rest << kLimbBits | low)) {
    --limb;
    rest += by_high;
  }
  return static_cast<Limb>(limb);
}

// Whether the product is larger; then the result is 2^64 to the power of all limbs too large.
bool Natural::subtract_product(Limb* from, const std::vector<Limb>& by, Limb limb) {
  U128 carry = 0;  // of the product, and what was borrowed
  for (std::size_t i = 0; i < by.size(); ++i) {
    carry += U128{by[i]} * limb;
    const auto taken = static_cast<Limb>(carry);
    carry = (carry >> kLimbBits) + static_cast<unsigned>(from[i] < taken);
    from[i] -= taken;
  }
  const bool is_larger = from[by.size()] < carry;
  from[by.size()] -= static_cast<Limb>(carry);
  return is_larger;
}

void Natural::add_back(Limb* to, const std::vector<Limb>& by) {
  U128 carry = 0;
  for (std::size_t i = 0; i < by.size(); ++i) {
    carry += U128{to[i]} + by[i];
    to[i] = static_cast<Limb>(carry);
    carry >>= kLimbBits;
  }
  to[by.size()] += static_cast<Limb>(carry);
}

std::strong_ordering Natural::operator<=>(const Natural& other) const {
  if (limbs_.size() != other.limbs_.size()) {
    return limbs_.size() <=> other.limbs_.size();
  }
  return std::lexicographical_compare_three_way(limbs_.rbegin(), limbs_.rend(), other.limbs_.rbegin(),
                                                other.limbs_.rend());
}

}  // namespace sidelatch::p4
