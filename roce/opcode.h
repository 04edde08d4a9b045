// BTH opcodes of the reliable connection, unreliable connection, extended reliable connection and unreliable datagram
// services, and the traits of each.
//
// Source: InfiniBand Architecture Specification, volume 1, 9.2 (base transport header: the table of opcodes and of the
// headers that follow), SEND with invalidate and ATOMIC WRITE included, Annex A14 (extended reliable connection), and
// A17.9.3: RoCEv2's congestion notification packet, to the sender of marked packets, with 16 reserved bytes.
// The upper three bits name the service, the lower five the operation. The operations of the connected services have
// the numbers of RC: `in(Service::uc, Opcode::send_only)`. Reliable datagrams are not included.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sidelatch::roce {

enum class Opcode : std::uint8_t {
  send_first = 0x00,
  send_middle = 0x01,
  send_last = 0x02,
  send_last_with_immediate = 0x03,
  send_only = 0x04,
  send_only_with_immediate = 0x05,
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_with_immediate = 0x09,
  write_only = 0x0a,
  write_only_with_immediate = 0x0b,
  read_request = 0x0c,
  read_response_first = 0x0d,
  read_response_middle = 0x0e,
  read_response_last = 0x0f,
  read_response_only = 0x10,
  acknowledge = 0x11,
  atomic_acknowledge = 0x12,
  compare_swap = 0x13,
  fetch_add = 0x14,
  send_last_with_invalidate = 0x16,
  send_only_with_invalidate = 0x17,
  atomic_write = 0x1d,
  ud_send_only = 0x64,
  ud_send_only_with_immediate = 0x65,
  congestion_notification = 0x81,
};

/// The upper three bits of an opcode.
enum class Service : std::uint8_t { rc = 0x00, uc = 0x20, ud = 0x60, xrc = 0xa0 };
inline constexpr std::uint8_t kServiceBits = 0xe0;
[[nodiscard]] constexpr Service service_of(Opcode opcode) noexcept {
  return static_cast<Service>(static_cast<std::uint8_t>(opcode) & kServiceBits);
}
/// The opcode of an operation, given as RC's, in a connected service.
[[nodiscard]] constexpr Opcode in(Service service, Opcode of_rc) noexcept {
  return static_cast<Opcode>(static_cast<std::uint8_t>(service) | static_cast<std::uint8_t>(of_rc));
}
/// RC's opcode of the same operation; only for opcodes of connected services.
[[nodiscard]] constexpr Opcode operation_of(Opcode opcode) noexcept {
  return static_cast<Opcode>(static_cast<std::uint8_t>(opcode) & static_cast<std::uint8_t>(~kServiceBits));
}
/// Whether it is an answer, of any service.
[[nodiscard]] constexpr bool is_answer(Opcode opcode) noexcept {
  return operation_of(opcode) >= Opcode::read_response_first && operation_of(opcode) <= Opcode::atomic_acknowledge;
}

/// The allowed payload length of a packet, relative to the path MTU (9.7, packet lengths).
enum class PayloadRule : std::uint8_t {
  none,       ///< no payload
  exact,      ///< the path MTU: first and middle packets
  non_empty,  ///< 1 byte to the path MTU: last packets
  any,        ///< 0 bytes to the path MTU: only packets
  word,       ///< 8 bytes: ATOMIC WRITE
};

/// What an opcode implies for the rest of the packet. The extension headers come in the order of these fields.
struct OpcodeTraits {
  bool xrceth = false;
  bool deth = false;
  bool reth = false;
  bool atomic_eth = false;
  bool aeth = false;
  bool atomic_ack_eth = false;
  bool immediate = false;
  bool ieth = false;
  PayloadRule payload = PayloadRule::none;

  /// Bytes of the extension headers, between BTH and payload.
  [[nodiscard]] constexpr std::size_t extension_bytes() const noexcept {
    return (xrceth ? 4U : 0U) + (deth ? 8U : 0U) + (reth ? 16U : 0U) + (atomic_eth ? 28U : 0U) + (aeth ? 4U : 0U) +
           (atomic_ack_eth ? 8U : 0U) + (immediate ? 4U : 0U) + (ieth ? 4U : 0U);
  }
};

/// The most extension bytes of any opcode: XRCETH and AtomicETH.
inline constexpr std::size_t kMostExtensionBytes = 32;

namespace detail {
extern const std::array<std::optional<OpcodeTraits>, 256> kTraits;
}  // namespace detail
/// Nothing if the number is none of the opcodes above.
[[nodiscard]] inline const std::optional<OpcodeTraits>& traits_of(Opcode opcode) noexcept {
  return detail::kTraits[static_cast<std::uint8_t>(opcode)];
}
/// The specification's name, "RC RDMA WRITE first"; "unknown" for others.
[[nodiscard]] std::string_view name(Opcode opcode) noexcept;

}  // namespace sidelatch::roce
