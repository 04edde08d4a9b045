// The syndrome of an AETH: a responder's answer in one byte.
//
//   aeth.syndrome = Syndrome::ack(credits);
//   if (syndrome.kind() == Syndrome::Kind::rnr_nak) wait(syndrome.rnr_delay());
//
// Bits 6 and 5 are the kind, bits 4 to 0 its value, bit 7 is reserved and sent as 0. Source: InfiniBand Architecture
// Specification, volume 1, 9.7 (acknowledge packets: AETH syndrome, NAK codes, RNR NAK timer; end-to-end
// flow control: encoded credits).
//
// Thread-safety: a value.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace sidelatch::roce {

enum class NakCode : std::uint8_t {
  psn_sequence_error = 0,
  invalid_request = 1,
  remote_access_error = 2,
  remote_operational_error = 3,
  invalid_rd_request = 4,
};

class Syndrome {
 public:
  enum class Kind : std::uint8_t { ack = 0, rnr_nak = 1, reserved = 2, nak = 3 };

  /// The responder does not take part in end-to-end flow control, so the credits have no meaning.
  static constexpr std::uint8_t kNoCredits = 31;

  constexpr Syndrome() = default;
  constexpr explicit Syndrome(std::uint8_t byte) noexcept : byte_(byte) {}
  /// `code`: encoded credits, see credits(). Here and below, only the low five bits count.
  [[nodiscard]] static constexpr Syndrome ack(std::uint8_t code = kNoCredits) noexcept { return of(Kind::ack, code); }
  /// `timer`: encoded delay, see rnr_delay().
  [[nodiscard]] static constexpr Syndrome rnr_nak(std::uint8_t timer) noexcept { return of(Kind::rnr_nak, timer); }
  [[nodiscard]] static constexpr Syndrome nak(NakCode code) noexcept {
    return of(Kind::nak, static_cast<std::uint8_t>(code));
  }

  [[nodiscard]] constexpr std::uint8_t byte() const noexcept { return byte_; }
  /// Ignores the reserved bit.
  [[nodiscard]] constexpr Kind kind() const noexcept { return static_cast<Kind>(byte_ >> 5 & 3); }
  [[nodiscard]] constexpr std::uint8_t value() const noexcept { return byte_ & 31; }

  /// How many receive requests the responder has ready. Nothing if this is no ACK, or an ACK without credits.
  [[nodiscard]] constexpr std::optional<std::uint32_t> credits() const noexcept {
    if (kind() != Kind::ack || value() == kNoCredits) {
      return std::nullopt;
    }
    return expand(value());
  }

  /// How long the requester waits before it tries again. Nothing if this is no RNR NAK.
  [[nodiscard]] constexpr std::optional<std::chrono::microseconds> rnr_delay() const noexcept {
    if (kind() != Kind::rnr_nak) {
      return std::nullopt;
    }
    // The code 0 stands for what would be 32: 655.36 ms.
    return std::chrono::microseconds(10) * expand(value() == 0 ? 32 : value());
  }

  /// Nothing if this is no NAK, or a NAK whose code is reserved.
  [[nodiscard]] constexpr std::optional<NakCode> nak_code() const noexcept {
    if (kind() != Kind::nak || value() > static_cast<std::uint8_t>(NakCode::invalid_rd_request)) {
      return std::nullopt;
    }
    return static_cast<NakCode>(value());
  }

  friend constexpr bool operator==(Syndrome, Syndrome) = default;

 private:
  [[nodiscard]] static constexpr Syndrome of(Kind kind, std::uint8_t value) noexcept {
    return Syndrome(static_cast<std::uint8_t>(static_cast<unsigned>(kind) << 5 | (value & 31U)));
  }

  // 0, 1, 2, 3, 4, 6, 8, 12, ...: powers of two, each followed by one and a half times itself.
  [[nodiscard]] static constexpr std::uint32_t expand(std::uint32_t code) noexcept {
    if (code < 2) {
      return code;
    }
    return code % 2 == 0 ? std::uint32_t{1} << code / 2 : std::uint32_t{3} << (code / 2 - 1);
  }

  std::uint8_t byte_ = 0;
};

}  // namespace sidelatch::roce
