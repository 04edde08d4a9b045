#include "messages.h"

#include "roce/big_endian.h"

#include <algorithm>
#include <cstring>

namespace sidelatch::softnic::cm {

namespace {

using namespace roce;

// The header of a MAD, 13.4.3.
constexpr std::uint8_t kBaseVersion = 1;
constexpr std::uint8_t kCommunicationManagement = 7;  // class
constexpr std::uint8_t kClassVersion = 2;
constexpr std::uint8_t kSend = 3;  // method
constexpr std::size_t kTransaction = 8;
constexpr std::size_t kAttribute = 16;
constexpr std::size_t kBody = 24;

// Attributes.
constexpr std::uint16_t kReq = 0x10;
constexpr std::uint16_t kMra = 0x11;
constexpr std::uint16_t kRej = 0x12;
constexpr std::uint16_t kRep = 0x13;
constexpr std::uint16_t kRtu = 0x14;
constexpr std::uint16_t kDreq = 0x15;
constexpr std::uint16_t kDrep = 0x16;
constexpr std::uint16_t kSidrReq = 0x17;
constexpr std::uint16_t kSidrRep = 0x18;

// The fields of a body by their offsets in bytes; `low` counts the bits below the field in its byte.
class Writer {
 public:
  explicit Writer(std::byte* body) : body_(body) {}
  void put8(std::size_t at, unsigned value) { store8(body_ + at, static_cast<std::uint8_t>(value)); }
  void put16(std::size_t at, std::uint16_t value) { store16(body_ + at, value); }
  void put24(std::size_t at, std::uint32_t value) { store24(body_ + at, value); }
  void put32(std::size_t at, std::uint32_t value) { store32(body_ + at, value); }
  void put64(std::size_t at, std::uint64_t value) { store64(body_ + at, value); }
  void put_bits(std::size_t at, unsigned value, unsigned bits, unsigned low) {
    put8(at, load8(body_ + at) | (value & ((1U << bits) - 1)) << low);
  }
  template <class Bytes>
  void put(std::size_t at, const Bytes& bytes) {
    std::memcpy(body_ + at, bytes.data(), bytes.size());
  }

 private:
  std::byte* body_;
};

class Reader {
 public:
  explicit Reader(const std::byte* body) : body_(body) {}
  [[nodiscard]] std::uint8_t get8(std::size_t at) const { return load8(body_ + at); }
  [[nodiscard]] std::uint16_t get16(std::size_t at) const { return load16(body_ + at); }
  [[nodiscard]] std::uint32_t get24(std::size_t at) const { return load24(body_ + at); }
  [[nodiscard]] std::uint32_t get32(std::size_t at) const { return load32(body_ + at); }
  [[nodiscard]] std::uint64_t get64(std::size_t at) const { return load64(body_ + at); }
  [[nodiscard]] std::uint8_t get_bits(std::size_t at, unsigned bits, unsigned low) const {
    return static_cast<std::uint8_t>(static_cast<unsigned>(get8(at)) >> low & ((1U << bits) - 1));
  }
  template <class Bytes>
  void get(std::size_t at, Bytes& bytes) const {
    std::memcpy(bytes.data(), body_ + at, bytes.size());
  }

 private:
  const std::byte* body_;
};

// ---- One pair of functions for each message; the tables of 12.6 and 12.11 have the offsets.

std::uint16_t write(Writer out, const RequestMessage& m) {
  out.put32(0, m.local_id);
  out.put64(8, m.service_id);
  out.put64(16, m.ca_guid);
  out.put24(32, m.queue_pair);
  out.put8(35, m.responder_resources);
  out.put8(39, m.initiator_depth);
  out.put_bits(43, m.remote_response_timeout, 5, 3);
  out.put_bits(43, m.transport, 2, 1);
  out.put_bits(43, m.flow_control ? 1 : 0, 1, 0);
  out.put24(44, m.starting_psn);
  out.put_bits(47, m.local_response_timeout, 5, 3);
  out.put_bits(47, m.retry_count, 3, 0);
  out.put16(48, m.p_key);
  out.put_bits(50, m.path_mtu, 4, 4);
  out.put_bits(50, m.rnr_retry_count, 3, 0);
  out.put_bits(51, m.most_cm_retries, 4, 4);
  out.put_bits(51, m.shared_receives ? 1 : 0, 1, 3);
  out.put_bits(51, m.extended_transport, 3, 0);
  constexpr std::uint16_t kPermissiveLid = 0xffff;  // A17.4.2: RoCE has no LIDs
  out.put16(52, kPermissiveLid);
  out.put16(54, kPermissiveLid);
  out.put(56, m.local_gid);
  out.put(72, m.remote_gid);
  out.put8(92, m.traffic_class);
  out.put8(93, m.hop_limit);
  out.put_bits(95, m.local_ack_timeout, 5, 3);
  out.put(140, m.private_data);
  return kReq;
}

Message read_request(std::uint64_t transaction, Reader in) {
  RequestMessage m;
  m.local_id = in.get32(0);
  m.service_id = in.get64(8);
  m.ca_guid = in.get64(16);
  m.queue_pair = in.get24(32);
  m.responder_resources = in.get8(35);
  m.initiator_depth = in.get8(39);
  m.remote_response_timeout = in.get_bits(43, 5, 3);
  m.transport = in.get_bits(43, 2, 1);
  m.flow_control = in.get_bits(43, 1, 0) != 0;
  m.starting_psn = in.get24(44);
  m.local_response_timeout = in.get_bits(47, 5, 3);
  m.retry_count = in.get_bits(47, 3, 0);
  m.p_key = in.get16(48);
  m.path_mtu = in.get_bits(50, 4, 4);
  m.rnr_retry_count = in.get_bits(50, 3, 0);
  m.most_cm_retries = in.get_bits(51, 4, 4);
  m.shared_receives = in.get_bits(51, 1, 3) != 0;
  m.extended_transport = in.get_bits(51, 3, 0);
  in.get(56, m.local_gid);
  in.get(72, m.remote_gid);
  m.traffic_class = in.get8(92);
  m.hop_limit = in.get8(93);
  m.local_ack_timeout = in.get_bits(95, 5, 3);
  in.get(140, m.private_data);
  return {transaction, m};
}

std::uint16_t write(Writer out, const ReceiptMessage& m) {
  out.put32(0, m.local_id);
  out.put32(4, m.remote_id);
  out.put_bits(8, m.of, 2, 6);
  out.put_bits(9, m.service_timeout, 5, 3);
  return kMra;
}

Message read_receipt(std::uint64_t transaction, Reader in) {
  return {transaction, ReceiptMessage{.local_id = in.get32(0),
                                      .remote_id = in.get32(4),
                                      .of = in.get_bits(8, 2, 6),
                                      .service_timeout = in.get_bits(9, 5, 3)}};
}

std::uint16_t write(Writer out, const RejectMessage& m) {
  out.put32(0, m.local_id);
  out.put32(4, m.remote_id);
  out.put_bits(8, m.of, 2, 6);
  out.put16(10, m.reason);
  if (m.reason == kRejectTimeout) {
    out.put_bits(9, sizeof m.ca_guid, 7, 1);  // the length of the additional information, 12.6.7.2
    out.put64(12, m.ca_guid);
  }
  out.put(84, m.private_data);
  return kRej;
}

Message read_reject(std::uint64_t transaction, Reader in) {
  RejectMessage m{
      .local_id = in.get32(0), .remote_id = in.get32(4), .of = in.get_bits(8, 2, 6), .reason = in.get16(10)};
  if (m.reason == kRejectTimeout) {
    m.ca_guid = in.get64(12);
  }
  in.get(84, m.private_data);
  return {transaction, m};
}

std::uint16_t write(Writer out, const ReplyMessage& m) {
  out.put32(0, m.local_id);
  out.put32(4, m.remote_id);
  out.put24(12, m.queue_pair);
  out.put24(16, m.extended_context);
  out.put24(20, m.starting_psn);
  out.put8(24, m.responder_resources);
  out.put8(25, m.initiator_depth);
  out.put_bits(26, m.flow_control ? 1 : 0, 1, 0);
  out.put_bits(27, m.rnr_retry_count, 3, 5);
  out.put_bits(27, m.shared_receives ? 1 : 0, 1, 4);
  out.put64(28, m.ca_guid);
  out.put(36, m.private_data);
  return kRep;
}

Message read_reply(std::uint64_t transaction, Reader in) {
  ReplyMessage m;
  m.local_id = in.get32(0);
  m.remote_id = in.get32(4);
  m.queue_pair = in.get24(12);
  m.extended_context = in.get24(16);
  m.starting_psn = in.get24(20);
  m.responder_resources = in.get8(24);
  m.initiator_depth = in.get8(25);
  m.flow_control = in.get_bits(26, 1, 0) != 0;
  m.rnr_retry_count = in.get_bits(27, 3, 5);
  m.shared_receives = in.get_bits(27, 1, 4) != 0;
  m.ca_guid = in.get64(28);
  in.get(36, m.private_data);
  return {transaction, m};
}

std::uint16_t write(Writer out, const ReadyMessage& m) {
  out.put32(0, m.local_id);
  out.put32(4, m.remote_id);
  return kRtu;
}

Message read_ready(std::uint64_t transaction, Reader in) {
  return {transaction, ReadyMessage{.local_id = in.get32(0), .remote_id = in.get32(4)}};
}

std::uint16_t write(Writer out, const DisconnectMessage& m) {
  out.put32(0, m.local_id);
  out.put32(4, m.remote_id);
  out.put24(8, m.remote_qp);
  return kDreq;
}

Message read_disconnect(std::uint64_t transaction, Reader in) {
  return {transaction, DisconnectMessage{.local_id = in.get32(0), .remote_id = in.get32(4), .remote_qp = in.get24(8)}};
}

std::uint16_t write(Writer out, const DisconnectedMessage& m) {
  out.put32(0, m.local_id);
  out.put32(4, m.remote_id);
  return kDrep;
}

Message read_disconnected(std::uint64_t transaction, Reader in) {
  return {transaction, DisconnectedMessage{.local_id = in.get32(0), .remote_id = in.get32(4)}};
}

std::uint16_t write(Writer out, const DatagramRequestMessage& m) {
  out.put32(0, m.request_id);
  out.put16(4, m.p_key);
  out.put64(8, m.service_id);
  out.put(16, m.private_data);
  return kSidrReq;
}

Message read_datagram_request(std::uint64_t transaction, Reader in) {
  DatagramRequestMessage m{.request_id = in.get32(0), .p_key = in.get16(4), .service_id = in.get64(8)};
  in.get(16, m.private_data);
  return {transaction, m};
}

std::uint16_t write(Writer out, const DatagramReplyMessage& m) {
  out.put32(0, m.request_id);
  out.put8(4, static_cast<unsigned>(m.status));
  out.put24(8, m.queue_pair);
  out.put64(12, m.service_id);
  out.put32(20, m.q_key);
  out.put(96, m.private_data);
  return kSidrRep;
}

Message read_datagram_reply(std::uint64_t transaction, Reader in) {
  DatagramReplyMessage m{.request_id = in.get32(0),
                         .status = static_cast<DatagramStatus>(in.get8(4)),
                         .queue_pair = in.get24(8),
                         .service_id = in.get64(12),
                         .q_key = in.get32(20)};
  in.get(96, m.private_data);
  return {transaction, m};
}

}  // namespace

Mad encode(const Message& message) noexcept {
  Mad mad{};
  store8(mad.data(), kBaseVersion);
  store8(mad.data() + 1, kCommunicationManagement);
  store8(mad.data() + 2, kClassVersion);
  store8(mad.data() + 3, kSend);
  store64(mad.data() + kTransaction, message.transaction);
  const std::uint16_t attribute =
      std::visit([&](const auto& body) { return write(Writer(mad.data() + kBody), body); }, message.body);
  store16(mad.data() + kAttribute, attribute);
  return mad;
}

std::optional<Message> decode(std::span<const std::byte> mad) noexcept {
  if (mad.size() != kMadBytes || load8(mad.data()) != kBaseVersion ||
      load8(mad.data() + 1) != kCommunicationManagement || load8(mad.data() + 2) != kClassVersion ||
      load8(mad.data() + 3) != kSend) {
    return std::nullopt;
  }
  const std::uint64_t transaction = load64(mad.data() + kTransaction);
  const Reader in(mad.data() + kBody);
  switch (load16(mad.data() + kAttribute)) {
    case kReq:
      return read_request(transaction, in);
    case kMra:
      return read_receipt(transaction, in);
    case kRej:
      return read_reject(transaction, in);
    case kRep:
      return read_reply(transaction, in);
    case kRtu:
      return read_ready(transaction, in);
    case kDreq:
      return read_disconnect(transaction, in);
    case kDrep:
      return read_disconnected(transaction, in);
    case kSidrReq:
      return read_datagram_request(transaction, in);
    case kSidrRep:
      return read_datagram_reply(transaction, in);
    default:
      return std::nullopt;
  }
}

}  // namespace sidelatch::softnic::cm
