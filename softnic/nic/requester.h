// Requester: the sending half of a connection. It makes request packets from the send queue, handles the answers,
// resends lost packets, and completes the requests in posting order.
//
// Requests are sent in order, as far as the fence, max_rd_atomic and the window allow. Everything is retried by going
// back to the oldest packet without an answer (go-back-N); a READ continues from the first missing packet of its
// answer. It goes back after a NAK for a PSN sequence error, after an answer that shows that an earlier one is lost,
// and after the timeout. Each of these uses up retry_count, which is reset when something is acknowledged. The timeout
// is as long as the program has set it, often a second, and only says when to give up: long before, the requester asks
// again from time to time, which uses up nothing. Every
// message asks for an acknowledgement; the responder answers several at once if it can. End-to-end credits are ignored:
// a request that finds no receive request is answered by an RNR NAK, and retried.
//
// On an unreliable connection a request completes when its last packet has been made. Requests that need no packet
// (binding and invalidating memory windows) are done when their turn comes; an invalidation waits until everything
// before it has completed.
//
// Source: InfiniBand Architecture Specification, volume 1, 9.7 (requests, acknowledgements, PSNs), 9.8 (unreliable
// connections), 9.9 (requester error handling) and 10.6 (memory windows), and Annex A14 (extended reliable
// connections).
//
// Thread-safety: none.
#pragma once

#include "queue_pair_core.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sidelatch::softnic::nic {

class Requester {
 public:
  explicit Requester(QueuePairCore& core) : core_(core) {}

  /// Forgets everything, as RESET requires.
  void reset() noexcept;
  /// RTS: the first packet has attributes.send_psn.
  void start() noexcept;

  /// Handles an answer: acknowledgement, READ response or atomic acknowledgement.
  void on_answer(const Packet& packet, Time now);
  /// Writes the next packet to `out`; 0 if there is none to send now.
  [[nodiscard]] std::size_t produce(std::span<std::byte> out, Time now);
  [[nodiscard]] Time next_deadline() const noexcept { return std::min({ack_deadline_, rnr_until_, ask_at_}); }
  /// Whether nothing is wrong with handling the next deadline later.
  [[nodiscard]] bool may_be_late() const noexcept { return ask_at_ < std::min(ack_deadline_, rnr_until_); }
  void advance(Time now);
  /// No answer will ever come: the oldest request, if there is one, fails like one whose retries are used up.
  void fail();

  /// Whether all begun requests are complete (SQD: drained).
  [[nodiscard]] bool is_drained() noexcept;
  /// The number of the next new packet.
  [[nodiscard]] Psn next_psn() const noexcept { return next_; }

 private:
  // The request that must be sent next; it may not have begun.
  [[nodiscard]] SendEntry& current() noexcept { return core_.sends.at(cursor_); }
  [[nodiscard]] bool may_begin(const SendEntry& entry) const noexcept;
  [[nodiscard]] bool begin(SendEntry& entry);
  [[nodiscard]] std::optional<CompletionStatus> find_local_error(const SendEntry& entry);
  [[nodiscard]] Psn psn_to_send(const SendEntry& entry) const noexcept;
  [[nodiscard]] std::size_t build_request(SendEntry& entry, std::span<std::byte> out);
  void note_sent(const SendEntry& entry, Psn psn, Time now);
  void describe_part(const SendEntry& entry, Packet& packet) noexcept;
  void fail_current();
  [[nodiscard]] bool is_acknowledged() const noexcept { return is_reliable(core_.options.type); }
  /// Does the current request, which needs no packet. False if it has to wait or has failed.
  [[nodiscard]] bool do_local();
  [[nodiscard]] bool carry_out(const SendRequest& request);
  void complete_local();

  /// The distance from the oldest unacknowledged packet to `psn`.
  [[nodiscard]] std::uint32_t offset_of(Psn psn) const noexcept {
    return (psn.value() - unacked_.value()) & Psn::kMask;
  }
  /// The number of acknowledged packets of the oldest request, a SEND or WRITE.
  [[nodiscard]] std::uint32_t acknowledged_of(const SendEntry& first) const noexcept {
    return (unacked_.value() - first.first.value()) & Psn::kMask;
  }
  /// Treats all packets before `psn` as acknowledged. False if that showed that an answer is lost.
  [[nodiscard]] bool acknowledge_before(Psn psn, Time now);
  [[nodiscard]] SendEntry* entry_of(Psn psn) noexcept;
  void on_acknowledge(const Packet& packet, Time now);
  void on_nak(const Packet& packet, Time now);
  void on_rnr_nak(const Packet& packet, Time now);
  void on_read_response(const Packet& packet, Time now);
  void on_atomic_acknowledge(const Packet& packet, Time now);
  void note_progress(Time now) noexcept;
  /// Goes back, unless it has already done so since the last progress.
  void recover(Time now);
  void retry(Time now);
  void go_back() noexcept;
  void complete_first(CompletionStatus status);
  void pop_first(CompletionStatus status);
  [[nodiscard]] std::string explained(const SendEntry& entry, CompletionStatus status) const;
  [[nodiscard]] Time timeout() const noexcept;
  void restart_timer(Time now) noexcept;
  void stop_timers() noexcept { ack_deadline_ = rnr_until_ = ask_at_ = kNever; }
  void ask_later(Time now) noexcept;

  QueuePairCore& core_;
  std::uint64_t cursor_ = 0;         // number of the request to send next
  std::uint32_t cursor_packet_ = 0;  // next packet of that SEND or WRITE
  Psn next_;                         // for the next request that begins
  Psn unacked_;   // oldest packet without an answer; belongs to the first request of the queue, if it has begun
  Psn sent_end_;  // after the last packet sent, including answers of READs
  std::uint32_t answers_due_ = 0;  // READs and atomics that have begun
  std::uint32_t unasked_ = 0;      // packets since the last request for an acknowledgement
  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_retries_left_ = 0;
  bool is_recovering_ = false;  // has gone back, and nothing has been acknowledged since
  Time ack_deadline_ = kNever;
  Time rnr_until_ = kNever;
  // When to ask again although the timeout has not passed, and how long nothing has been heard by then.
  Time ask_at_ = kNever;
  Time ask_after_ = 0;
  // The longest recent time to an answer, and since when the oldest packet has waited.
  Time answer_time_ = 0;
  Time waits_since_ = 0;
};

}  // namespace sidelatch::softnic::nic
