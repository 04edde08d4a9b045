// The messages of InfiniBand's communication manager: management datagrams (MADs) of 256 bytes between queue pairs 1.
//
//   const Mad mad = encode({.transaction = t, .body = RejectMessage{.local_id = 1, .reason = kInvalidServiceId}});
//   if (const std::optional<Message> message = decode(bytes)) std::visit(..., message->body);
//
// decode() takes any bytes. It returns nothing for what is no such message, and nothing for messages that this
// communication manager does not use (alternate paths). Fields that it does not name are sent as 0 and ignored.
//
// Source: InfiniBand Architecture Specification, volume 1, 13.4 (MAD format), 12.6 (messages) and 12.11 (service
// identification of datagrams); Annex A11 (the service identifiers and private data of IP addressing: the first 36
// bytes of the private data of REQ and SIDR_REQ).
//
// Thread-safety: values, and functions without state.
#pragma once

#include "roce/gid.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

namespace sidelatch::softnic::cm {

using roce::Gid;

inline constexpr std::size_t kMadBytes = 256;
using Mad = std::array<std::byte, kMadBytes>;

/// Queue pair, Q_Key and partition of general services (3.5.3, 10.2).
inline constexpr std::uint32_t kGeneralServicesQp = 1;
inline constexpr std::uint32_t kGeneralServicesQKey = 0x8001'0000;

/// A private data field, which always has its full length on the wire.
template <std::size_t Bytes>
using PrivateData = std::array<std::byte, Bytes>;

inline constexpr std::size_t kRequestPrivateBytes = 92;
inline constexpr std::size_t kReplyPrivateBytes = 196;
inline constexpr std::size_t kRejectPrivateBytes = 148;
inline constexpr std::size_t kDatagramRequestPrivateBytes = 216;
inline constexpr std::size_t kDatagramReplyPrivateBytes = 136;

/// Why a connection was rejected (12.6.7.2). There are more; these are the ones that are sent here.
inline constexpr std::uint16_t kNoResources = 3;
inline constexpr std::uint16_t kRejectTimeout = 4;
inline constexpr std::uint16_t kInvalidCommunicationId = 6;
inline constexpr std::uint16_t kInvalidServiceId = 8;
inline constexpr std::uint16_t kInvalidTransport = 9;
inline constexpr std::uint16_t kStaleConnection = 10;
inline constexpr std::uint16_t kConsumerReject = 28;

/// RequestMessage::transport and extended_transport (12.6.5).
inline constexpr std::uint8_t kReliableConnection = 0;
inline constexpr std::uint8_t kExtendedTransport = 3;
inline constexpr std::uint8_t kXrc = 1;

/// The status of a SIDR_REP (12.11.2).
enum class DatagramStatus : std::uint8_t { valid = 0, unsupported_service = 1, rejected = 2, no_queue_pair = 3 };

/// REQ.
struct RequestMessage {
  std::uint32_t local_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t ca_guid = 0;
  std::uint32_t queue_pair = 0;              ///< 24 bits
  std::uint8_t responder_resources = 0;      ///< READs and atomics that the sender serves at a time
  std::uint8_t initiator_depth = 0;          ///< READs and atomics that the sender may have in flight
  std::uint8_t remote_response_timeout = 0;  ///< 5 bits: 4.096 us times 2 to that power
  std::uint8_t transport = 0;                ///< 2 bits: 0 is reliable connection, 3 says `extended_transport`
  bool flow_control = false;
  std::uint32_t starting_psn = 0;           ///< 24 bits: of the receiver's first packet
  std::uint8_t local_response_timeout = 0;  ///< 5 bits
  std::uint8_t retry_count = 0;             ///< 3 bits
  std::uint16_t p_key = 0;
  std::uint8_t path_mtu = 0;         ///< 4 bits, numbered as ibv_mtu
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  std::uint8_t most_cm_retries = 0;  ///< 4 bits
  bool shared_receives = false;
  std::uint8_t extended_transport = 0;  ///< 3 bits: 1 is XRC
  Gid local_gid{};
  Gid remote_gid{};
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t local_ack_timeout = 0;  ///< 5 bits
  PrivateData<kRequestPrivateBytes> private_data{};
  friend bool operator==(const RequestMessage&, const RequestMessage&) = default;
};

/// MRA: the answer takes longer.
struct ReceiptMessage {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  std::uint8_t of = 0;               ///< 0: REQ, 1: REP
  std::uint8_t service_timeout = 0;  ///< 5 bits
  friend bool operator==(const ReceiptMessage&, const ReceiptMessage&) = default;
};

/// REJ.
struct RejectMessage {
  std::uint32_t local_id = 0;  ///< 0: the sender has no such connection
  std::uint32_t remote_id = 0;
  std::uint8_t of = 0;  ///< 0: REQ, 1: REP, 2: no message
  std::uint16_t reason = 0;
  std::uint64_t ca_guid = 0;  ///< kRejectTimeout only: the sender's, as the receiver may not know its local_id yet
  PrivateData<kRejectPrivateBytes> private_data{};
  friend bool operator==(const RejectMessage&, const RejectMessage&) = default;
};

/// REP.
struct ReplyMessage {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  std::uint32_t queue_pair = 0;
  std::uint32_t extended_context = 0;  ///< XRC: the target's queue pair, where RD had an end-to-end context
  std::uint32_t starting_psn = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 0;
  bool shared_receives = false;
  std::uint64_t ca_guid = 0;
  PrivateData<kReplyPrivateBytes> private_data{};
  friend bool operator==(const ReplyMessage&, const ReplyMessage&) = default;
};

/// RTU.
struct ReadyMessage {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  friend bool operator==(const ReadyMessage&, const ReadyMessage&) = default;
};

/// DREQ.
struct DisconnectMessage {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  std::uint32_t remote_qp = 0;
  friend bool operator==(const DisconnectMessage&, const DisconnectMessage&) = default;
};

/// DREP.
struct DisconnectedMessage {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  friend bool operator==(const DisconnectedMessage&, const DisconnectedMessage&) = default;
};

/// SIDR_REQ.
struct DatagramRequestMessage {
  std::uint32_t request_id = 0;
  std::uint16_t p_key = 0;
  std::uint64_t service_id = 0;
  PrivateData<kDatagramRequestPrivateBytes> private_data{};
  friend bool operator==(const DatagramRequestMessage&, const DatagramRequestMessage&) = default;
};

/// SIDR_REP.
struct DatagramReplyMessage {
  std::uint32_t request_id = 0;
  DatagramStatus status = DatagramStatus::valid;
  std::uint32_t queue_pair = 0;
  std::uint64_t service_id = 0;
  std::uint32_t q_key = 0;
  PrivateData<kDatagramReplyPrivateBytes> private_data{};
  friend bool operator==(const DatagramReplyMessage&, const DatagramReplyMessage&) = default;
};

struct Message {
  std::uint64_t transaction = 0;
  std::variant<RequestMessage, ReceiptMessage, RejectMessage, ReplyMessage, ReadyMessage, DisconnectMessage,
               DisconnectedMessage, DatagramRequestMessage, DatagramReplyMessage>
      body;
  friend bool operator==(const Message&, const Message&) = default;
};

[[nodiscard]] Mad encode(const Message& message) noexcept;
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte> mad) noexcept;

}  // namespace sidelatch::softnic::cm
