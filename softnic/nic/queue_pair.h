// QueuePair: a queue pair of the software NIC: an end of a reliable, unreliable or extended reliable connection, or for
// unreliable datagrams.
//
//   pair.modify({.state = QueuePairState::init, ...}, Attributes::state | ...);   // INIT, RTR, RTS
//   pair.post_receive({.id = 1, .sges = buffers});
//   pair.post_send({.id = 2, .kind = WorkKind::send, .signaled = true, .sges = data});
//
// Posted requests are executed while the NIC is driven (nic.h), and completions go to the completion queues. States and
// what may be done in them: InfiniBand Architecture Specification, volume 1, 10.3. ERROR flushes everything, SQE (UD
// and UC) the send queue. SQD finishes begun requests and reports that if it was requested.
//
// Thread-safety: none.
#pragma once

#include "attributes.h"
#include "datagrams.h"
#include "queue_pair_core.h"
#include "requester.h"
#include "responder.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::softnic::nic {

/// Whether queue pairs of this type take such requests.
[[nodiscard]] bool is_taken(WorkKind kind, QueuePairType type, bool inlined);

class QueuePair {
 public:
  /// `options` have been checked, and `number` is unique (Nic::make_queue_pair()).
  QueuePair(Device& device, const QueuePairOptions& options, std::uint32_t number);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  [[nodiscard]] std::uint32_t number() const noexcept { return core_.number; }
  [[nodiscard]] QueuePairState state() const noexcept { return core_.state(); }
  [[nodiscard]] const QueuePairOptions& options() const noexcept { return core_.options; }

  /// Changes the attributes in `given`, including the state. Throws NicError (invalid) with the reason and changes
  /// nothing if the transition does not allow or lacks an attribute, a value is out of range, or `current_state` is
  /// wrong; busy if max_dest_rd_atomic is to change while answers have not left yet.
  void modify(const QueuePairAttributes& values, Attributes given);
  /// Throws as modify() does, and changes nothing.
  void check(const QueuePairAttributes& values, Attributes given) const;
  /// The attributes; `receive_psn` and `send_psn` as they are now. `current_state` is the state.
  [[nodiscard]] QueuePairAttributes query() const;
  /// SQD: whether requests that have begun are not complete yet.
  [[nodiscard]] bool is_draining() noexcept {
    return state() == QueuePairState::sqd && is_connected() && !requester_.is_drained();
  }

  /// Work requests are copied. In ERROR, and in SQE for sends, they are flushed at once.
  [[nodiscard]] Post post_send(const SendRequest& request);
  [[nodiscard]] Post post_receive(const ReceiveRequest& request);
  /// The number of send requests that can be posted before the queue is full.
  [[nodiscard]] std::uint32_t send_room() const noexcept { return core_.sends.room(); }

  // Called by the NIC.

  /// Handles a packet for this queue pair, of its service or of another.
  void on_packet(const Packet& packet, Time now);
  /// The same for a packet of parse_malformed().
  void on_malformed(const Packet& packet);
  /// Writes the next frame to `out`, which has room for any; 0 if there is none to send now.
  [[nodiscard]] std::size_t produce(std::span<std::byte> out, Time now);
  [[nodiscard]] Time next_deadline() const noexcept { return requester_.next_deadline(); }
  [[nodiscard]] bool may_be_late() const noexcept { return requester_.may_be_late(); }
  void advance(Time now);
  /// Continues requests that waited for memory.
  void poll();
  /// A page is gone, so that a packet could not be placed.
  void fail_place(const GonePlace& place);
  [[nodiscard]] bool needs_memory() const noexcept { return responder_.has_answers() || core_.has_pending_receives(); }
  /// XRC: this shared receive queue ends.
  void forget(const ReceiveQueue& queue) { responder_.forget(queue); }
  /// The NIC is broken: ends all requests, as Nic::fail() says.
  void fail();

  // Kept by Device.
  QueuePair* next_awake = nullptr;
  bool is_awake = false;
  /// Kept by Nic: it sends nothing until Nic::resume().
  bool is_stalled = false;
  bool waits_for_memory = false;
  /// Kept by Timers.
  static constexpr std::size_t kNoTimer = static_cast<std::size_t>(-1);
  std::size_t timer_place = kNoTimer;

 private:
  [[nodiscard]] bool is_connected() const noexcept { return core_.options.type != QueuePairType::ud; }
  void take(const QueuePairAttributes& values, Attributes given);
  void enter(QueuePairState from, QueuePairState to);
  void reset();
  /// After each call: flushes and reports what the new state requires.
  void settle();
  void flush_sends();
  void flush_receives();
  std::size_t tell_of_congestion(std::span<std::byte> out);

  QueuePairCore core_;
  Requester requester_;
  Responder responder_;
  Datagrams datagrams_;
  bool drained_is_due_ = false;  // SQD: the drained event is to be reported
  bool error_is_settled_ = false;
  bool answers_first_ = false;
  bool notification_is_due_ = false;  // of congestion
  Time next_notification_ = 0;        // not before
};

}  // namespace sidelatch::softnic::nic
