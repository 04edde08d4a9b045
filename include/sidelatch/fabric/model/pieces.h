// Cuts a byte range at multiples of an atom, into the pieces that a NIC samples, places or fetches whole.
//
//   for (Piece p : pieces(0x103c, 8, 64)) ...   // {offset 0, length 4}, {offset 4, length 4}
//
// The first and the last piece may be shorter than an atom; a range of length 0 has no pieces. Nothing is allocated and
// every function is constexpr. Atoms are powers of two. A range must not wrap around the end of the address space.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace sidelatch::fabric::model {

/// Bytes [offset, offset + length) of the range that was cut.
struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend constexpr bool operator==(const Piece&, const Piece&) = default;
};

/// How many pieces [address, address + length) has.
[[nodiscard]] constexpr std::uint64_t piece_count(std::uint64_t address, std::uint64_t length, std::uint64_t atom) {
  const int shift = std::countr_zero(atom);
  return length == 0 ? 0 : ((address + length - 1) >> shift) - (address >> shift) + 1;
}

/// The index of the piece that holds the byte at `offset` of the range; `offset` is below its length.
[[nodiscard]] constexpr std::uint64_t piece_index(std::uint64_t address, std::uint64_t offset, std::uint64_t atom) {
  const int shift = std::countr_zero(atom);
  return ((address + offset) >> shift) - (address >> shift);
}

/// Piece `index` of [address, address + length), in ascending order; `index` is below piece_count().
[[nodiscard]] constexpr Piece piece_at(std::uint64_t address, std::uint64_t length, std::uint64_t atom,
                                       std::uint64_t index) {
  const std::uint64_t head = address & (atom - 1);  // bytes of the first atom that lie before the range
  const std::uint64_t begin = index == 0 ? 0 : index * atom - head;
  const std::uint64_t end = (index + 1) * atom - head;
  return {begin, (end < length ? end : length) - begin};
}

/// The pieces of a range, for a range-based for loop.
class Pieces {
 public:
  class Iterator {
   public:
    constexpr Iterator(const Pieces* range, std::uint64_t index) : range_(range), index_(index) {}
    [[nodiscard]] constexpr Piece operator*() const {
      return piece_at(range_->address_, range_->length_, range_->atom_, index_);
    }
    constexpr Iterator& operator++() {
      ++index_;
      return *this;
    }
    friend constexpr bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }

   private:
    const Pieces* range_;
    std::uint64_t index_;
  };

  constexpr Pieces(std::uint64_t address, std::uint64_t length, std::uint64_t atom)
      : address_(address), length_(length), atom_(atom) {}
  [[nodiscard]] constexpr std::uint64_t size() const { return piece_count(address_, length_, atom_); }
  [[nodiscard]] constexpr Iterator begin() const { return {this, 0}; }
  [[nodiscard]] constexpr Iterator end() const { return {this, size()}; }

 private:
  std::uint64_t address_;
  std::uint64_t length_;
  std::uint64_t atom_;
};

/// The pieces of [address, address + length), ascending.
[[nodiscard]] constexpr Pieces pieces(std::uint64_t address, std::uint64_t length, std::uint64_t atom) {
  return {address, length, atom};
}

}  // namespace sidelatch::fabric::model
