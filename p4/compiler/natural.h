// Whole numbers from 0 on, as large as they need to be: the magnitudes of numbers of P4's type int.
//
// Exact; nothing is cut. Whoever computes limits the size: a product has as many bits as its factors together, a shift
// to the left as many more as it shifts by. Times are those of the schoolbook.
//
// Thread-safety: values.
#pragma once

#include <sidelatch/p4/bits.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::p4 {

class Natural {
 public:
  Natural() = default;
  Natural(U128 value);  // NOLINT(google-explicit-constructor): it is one

  /// Bits up to the highest one that is set; of 0 none.
  [[nodiscard]] std::size_t bits() const;
  /// Bits [from, from + 128).
  [[nodiscard]] U128 part(std::size_t from) const;
  /// The lowest 128 bits.
  [[nodiscard]] U128 low() const { return part(0); }
  /// Digits of a base from 2 to 16, with small letters and nothing before them.
  [[nodiscard]] std::string text(unsigned base = 10) const;

  [[nodiscard]] Natural operator+(const Natural& other) const;
  /// `other` is not larger.
  [[nodiscard]] Natural operator-(const Natural& other) const;
  [[nodiscard]] Natural operator*(const Natural& other) const;
  [[nodiscard]] Natural operator<<(std::size_t by) const;
  [[nodiscard]] Natural operator>>(std::size_t by) const;
  struct Division;
  /// `divisor` is not 0.
  [[nodiscard]] Division divided_by(const Natural& divisor) const;

  [[nodiscard]] bool operator==(const Natural&) const = default;
  [[nodiscard]] std::strong_ordering operator<=>(const Natural& other) const;

 private:
  using Limb = std::uint64_t;
  static constexpr unsigned kLimbBits = 64;
  static Limb divide_by_limb(std::vector<Limb>& limbs, Limb divisor);
  static Limb quotient_limb(Limb high, Limb middle, Limb low, Limb by_high, Limb by_low);
  static bool subtract_product(Limb* from, const std::vector<Limb>& by, Limb limb);
  static void add_back(Limb* to, const std::vector<Limb>& by);
  [[nodiscard]] Limb limb(std::size_t which) const { return which < limbs_.size() ? limbs_[which] : 0; }
  void trim();

  std::vector<Limb> limbs_;  // the lowest first; the last one is not 0
};

struct Natural::Division {
  Natural quotient;
  Natural rest;
};

}  // namespace sidelatch::p4
