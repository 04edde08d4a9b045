// Datagrams: both halves of an unreliable datagram queue pair.
//
// A send is one packet, no longer than the NIC's path MTU, and completes when it leaves. An incoming packet needs the
// queue pair's Q_Key and a receive request with room for 40 more bytes: the IPv6 header precedes the payload, or 20
// bytes of 0 and the IPv4 header. Otherwise, or if it is too long for its buffer, the packet is dropped; the receive
// request stays.
//
// Source: InfiniBand Architecture Specification, volume 1, 9.8 (unreliable datagrams), 10.2 (Q_Keys), 11.4 (the place
// of the global route header) and Annex A17 (that of IPv4).
//
// Thread-safety: none.
#pragma once

#include "queue_pair_core.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sidelatch::softnic::nic {

/// Bytes in front of a datagram's payload.
inline constexpr std::size_t kGrhBytes = 40;

class Datagrams {
 public:
  explicit Datagrams(QueuePairCore& core) : core_(core), buffer_(core.make_buffer()) {}

  void reset() noexcept { core_.device.memory.end_queue_pair(core_.number); }
  void start() noexcept { psn_ = core_.attributes.send_psn; }

  void on_packet(const Packet& packet);
  /// Writes the next packet to `out`; 0 if there is none to send now. A request that fails brings the queue pair to SQE
  /// (10.3, SQE).
  [[nodiscard]] std::size_t produce(std::span<std::byte> out);
  [[nodiscard]] Psn next_psn() const noexcept { return psn_; }

 private:
  [[nodiscard]] std::optional<CompletionStatus> find_error(const SendEntry& entry);
  void fail_send(CompletionStatus status);

  QueuePairCore& core_;
  Psn psn_;
  std::uint64_t messages_ = 0;
  ReceiveBuffer buffer_;
};

}  // namespace sidelatch::softnic::nic
