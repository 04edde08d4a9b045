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

std::string Natural::text(unsigned base) const {
  std::string digits;
  std::vector<Limb> rest = limbs_;
  do {
    digits += "0123456789abcdef"[divide_by_limb(rest, base)];
  } while (!rest.empty());
  std::reverse(digits.begin(), digits.end());
  return digits;
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
  // Bit for bit: what has come down of the dividend is kept below the divisor.
  Division made;
  made.quotient.limbs_.resize(limbs_.size());
  for (std::size_t bit = bits(); bit-- > 0;) {
    made.rest = (made.rest << 1) + Natural(U128{limbs_[bit / kLimbBits] >> (bit % kLimbBits) & 1});
    if (made.rest >= divisor) {
      made.rest = made.rest - divisor;
      made.quotient.limbs_[bit / kLimbBits] |= Limb{1} << (bit % kLimbBits);
    }
  }
  made.quotient.trim();
  return made;
}

std::strong_ordering Natural::operator<=>(const Natural& other) const {
  if (limbs_.size() != other.limbs_.size()) {
    return limbs_.size() <=> other.limbs_.size();
  }
  return std::lexicographical_compare_three_way(limbs_.rbegin(), limbs_.rend(), other.limbs_.rbegin(),
                                                other.limbs_.rend());
}

}  // namespace sidelatch::p4
