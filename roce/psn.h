// Packet sequence numbers: 24 bits, counted modulo 2^24.
//
//   Psn expected = start + packets;
//   if (precedes(bth.psn, expected)) ...   // a duplicate
//
// The order of two numbers is defined only if fewer than 2^23 packets lie between them; a requester keeps no more in
// flight. Source: InfiniBand Architecture Specification, volume 1, 9.7 (packet sequence numbers). There is no operator<
// because it would not be a strict order.
//
// Thread-safety: a value.
#pragma once

#include <cstdint>

namespace sidelatch::roce {

class Psn {
 public:
  static constexpr std::uint32_t kBits = 24;
  static constexpr std::uint32_t kMask = (std::uint32_t{1} << kBits) - 1;

  constexpr Psn() = default;
  /// The low 24 bits of `value`.
  constexpr explicit Psn(std::uint32_t value) noexcept : value_(value & kMask) {}

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }

  friend constexpr bool operator==(Psn, Psn) = default;
  friend constexpr Psn operator+(Psn psn, std::uint32_t packets) noexcept { return Psn(psn.value_ + packets); }
  friend constexpr Psn operator-(Psn psn, std::uint32_t packets) noexcept { return Psn(psn.value_ - packets); }
  constexpr Psn& operator++() noexcept { return *this = *this + 1; }

  /// Packets from `from` to `to`, negative if `to` comes first: -2^23 to 2^23 - 1.
  friend constexpr std::int32_t distance(Psn from, Psn to) noexcept {
    // Moves the 24 bits to the top of a word, so that their sign becomes its sign.
    return static_cast<std::int32_t>((to.value_ - from.value_) << (32 - kBits)) >> (32 - kBits);
  }
  /// Whether `a` comes before `b`; false both ways if they are 2^23 apart.
  friend constexpr bool precedes(Psn a, Psn b) noexcept { return distance(a, b) > 0; }

 private:
  std::uint32_t value_ = 0;
};

}  // namespace sidelatch::roce
