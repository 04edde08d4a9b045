// The contents of a chained hash table's bucket.
//
//    0  seal (seal.h)
//    8  home: 1 + number of the home bucket whose chain it is in; 0: never written; kTorn: see below
//   16  next: 1 + number of the next overflow bucket; 0: the chain ends here
//   20  generation of the next overflow bucket
//   24  generation: how often this overflow bucket was filled anew
//   28  used: bit i for entry i
//   32  keys, then values
#pragma once

#include "seal.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

namespace sidelatch::structures {

struct BucketHeader {
  /// `home` of a bucket whose last holder died within a WRITE; its contents are lost.
  static constexpr std::uint64_t kTorn = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t seal = 0;
  std::uint64_t home = 0;
  std::uint32_t next = 0;
  std::uint32_t next_generation = 0;
  std::uint32_t generation = 0;
  std::uint32_t used = 0;
};
static_assert(sizeof(BucketHeader) == 32);

/// Offsets in a bucket's payload.
struct BucketFormat {
  std::uint32_t entries = 0;
  std::uint64_t value_bytes = 0;

  [[nodiscard]] constexpr std::uint64_t payload_bytes() const {
    return sizeof(BucketHeader) + entries * (sizeof(std::uint64_t) + value_bytes);
  }
  [[nodiscard]] constexpr std::uint64_t key(std::uint32_t slot) const {
    return sizeof(BucketHeader) + slot * sizeof(std::uint64_t);
  }
  [[nodiscard]] constexpr std::uint64_t value(std::uint32_t slot) const { return key(entries) + slot * value_bytes; }
  [[nodiscard]] constexpr std::uint32_t all_used() const {
    return entries == 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << entries) - 1;
  }

  [[nodiscard]] static BucketHeader header_in(std::span<const std::byte> payload) {
    BucketHeader header;
    std::memcpy(&header, payload.data(), sizeof header);
    return header;
  }
  static void put_header(const BucketHeader& header, std::span<std::byte> payload) {
    std::memcpy(payload.data(), &header, sizeof header);
  }
  [[nodiscard]] std::uint64_t key_in(std::span<const std::byte> payload, std::uint32_t slot) const {
    std::uint64_t number = 0;
    std::memcpy(&number, payload.data() + key(slot), sizeof number);
    return number;
  }
  /// The slot of a key.
  [[nodiscard]] std::optional<std::uint32_t> find(const BucketHeader& header, std::span<const std::byte> payload,
                                                  std::uint64_t number) const {
    for (std::uint32_t left = header.used & all_used(); left != 0; left &= left - 1) {
      const auto slot = static_cast<std::uint32_t>(std::countr_zero(left));
      if (key_in(payload, slot) == number) {
        return slot;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] bool is_full(const BucketHeader& header) const { return header.used == all_used(); }
  void put_value(std::span<std::byte> payload, std::uint32_t slot, const std::byte* bytes) const {
    std::memcpy(payload.data() + value(slot), bytes, value_bytes);
  }
  /// Puts an entry into a bucket that is not full.
  void add(BucketHeader& header, std::span<std::byte> payload, std::uint64_t number, const std::byte* bytes) const {
    const auto slot = static_cast<std::uint32_t>(std::countr_one(header.used));
    header.used |= std::uint32_t{1} << slot;
    std::memcpy(payload.data() + key(slot), &number, sizeof number);
    put_value(payload, slot, bytes);
  }
};

}  // namespace sidelatch::structures
