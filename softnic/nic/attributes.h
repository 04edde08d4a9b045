// The attributes of a queue pair, its states, and the attributes that each change of state needs or allows.
//
//   if (const auto reason = refuse_transition(type, from, to, mask)) throw NicError(..., *reason);
//
// States and bits are numbered as in ibv_qp_state and ibv_qp_attr_mask. Source: InfiniBand Architecture Specification,
// volume 1, 10.3 (queue pair and EE context states) and 11.2 (modify queue pair: the table of properties of each
// transition); ibv_modify_qp(3), whose split into bits is used. Alternate paths and their migration, and automatic
// resizing of queues, are not supported.
//
// Thread-safety: values, and functions without state.
#pragma once

#include "rights.h"
#include "roce/packet.h"
#include "work.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sidelatch::softnic::nic {

/// An XRC connection has two types of ends: one that sends requests, and one that receives them (A14).
enum class QueuePairType : std::uint8_t { rc, ud, uc, xrc_initiator, xrc_target };
inline constexpr std::size_t kQueuePairTypes = 5;
/// Whether its requests are acknowledged, and sent again when they are lost.
[[nodiscard]] constexpr bool is_reliable(QueuePairType type) noexcept {
  return type != QueuePairType::ud && type != QueuePairType::uc;
}
[[nodiscard]] constexpr Service service_of(QueuePairType type) noexcept {
  constexpr std::array<Service, kQueuePairTypes> kServices{Service::rc, Service::ud, Service::uc, Service::xrc,
                                                           Service::xrc};
  return kServices[static_cast<std::size_t>(type)];
}

enum class QueuePairState : std::uint8_t { reset, init, rtr, rts, sqd, sqe, error };
inline constexpr std::size_t kQueuePairStates = 7;
/// "RESET", "INIT", ...
[[nodiscard]] std::string_view name(QueuePairState state) noexcept;

/// A set of attributes.
enum class Attributes : std::uint32_t {
  none = 0,
  state = 1U << 0,
  current_state = 1U << 1,
  notify_drained = 1U << 2,
  rights = 1U << 3,
  p_key_index = 1U << 4,
  port = 1U << 5,
  q_key = 1U << 6,
  address = 1U << 7,
  path_mtu = 1U << 8,
  timeout = 1U << 9,
  retry_count = 1U << 10,
  rnr_retry = 1U << 11,
  receive_psn = 1U << 12,
  max_rd_atomic = 1U << 13,
  alternate_path = 1U << 14,
  min_rnr_timer = 1U << 15,
  send_psn = 1U << 16,
  max_dest_rd_atomic = 1U << 17,
  path_migration = 1U << 18,
  capabilities = 1U << 19,
  remote_qp = 1U << 20,
};
inline constexpr std::uint32_t kAttributes = 21;
[[nodiscard]] constexpr Attributes operator|(Attributes a, Attributes b) noexcept {
  return static_cast<Attributes>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr Attributes operator&(Attributes a, Attributes b) noexcept {
  return static_cast<Attributes>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr Attributes operator~(Attributes a) noexcept {
  return static_cast<Attributes>(~static_cast<std::uint32_t>(a));
}
[[nodiscard]] constexpr bool has(Attributes set, Attributes member) noexcept { return (set & member) == member; }
/// "path_mtu, timeout".
[[nodiscard]] std::string names(Attributes set);

struct QueuePairAttributes {
  QueuePairState state = QueuePairState::reset;
  QueuePairState current_state = QueuePairState::reset;  ///< modify: the state that the caller expects
  bool notify_drained = false;
  Rights rights = Rights::none;  ///< the other side's rights through this queue pair
  std::uint16_t p_key_index = 0;
  std::uint8_t port = 1;
  std::uint32_t q_key = 0;
  AddressVector address{};
  PathMtu path_mtu = PathMtu::b256;
  std::uint8_t timeout = 0;  ///< local ACK timeout: 4.096 us times 2 to that power; 0: infinite
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;           ///< 7: for ever
  Psn receive_psn{};                    ///< the next expected one
  std::uint8_t max_rd_atomic = 0;       ///< READs and atomics that this side may have in flight
  std::uint8_t min_rnr_timer = 0;       ///< encoded, Syndrome::rnr_delay()
  Psn send_psn{};                       ///< of the next new packet
  std::uint8_t max_dest_rd_atomic = 0;  ///< READs and atomics that this side serves at a time
  std::uint32_t remote_qp = 0;
};

/// Nothing if these attributes may bring a queue pair from state `from` to `to`; otherwise the reason: the change does
/// not exist, or the attributes that are missing or not allowed. `state` may be left out if it does not change.
[[nodiscard]] std::optional<std::string> refuse_transition(QueuePairType type, QueuePairState from, QueuePairState to,
                                                           Attributes given);

/// A NIC's limits for the values of attributes.
struct AttributeLimits {
  std::uint8_t ports = 1;
  std::uint16_t p_keys = 1;
  std::size_t gids = 0;
  PathMtu mtu = PathMtu::b4096;
  std::uint8_t max_rd_atomic = 16;
  std::uint8_t max_dest_rd_atomic = 16;
};
/// Nothing if each given attribute has an allowed value; otherwise the reason.
[[nodiscard]] std::optional<std::string> refuse_values(const QueuePairAttributes& values, Attributes given,
                                                       const AttributeLimits& limits);

}  // namespace sidelatch::softnic::nic
