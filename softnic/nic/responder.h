// Responder: the receiving half of a connection. It checks request packets, executes them once and in order, and
// answers in that order.
//
// A request with the expected PSN is checked (opcode sequence, length, rights, keys), executed through MemoryAccess,
// and acknowledged if it asks for it. A request that comes too early is answered by a NAK, once per gap. A repeated
// request is not executed again, except a READ: a SEND or WRITE is acknowledged again, an atomic is answered with the
// kept result, and a READ, or its rest, is read again. Errors are answered by the NAK that the specification names, and
// bring the queue pair to ERROR; the NAK is still sent.
//
// On an unreliable connection nothing is answered. A message of which a packet is missing, or that is refused, is
// dropped without a word, and its receive request serves the next message. A packet that comes late or twice is
// dropped, too, so messages stay in order and none comes twice. A first packet of a message that is more than 16 384
// packets behind is no late one: its sender has begun anew.
//
// Source: InfiniBand Architecture Specification, volume 1, 9.7 (receiving requests, acknowledging), 9.8 (unreliable
// connections) and 9.9 (responder error handling), and Annex A14 (extended reliable connections).
//
// Thread-safety: none.
#pragma once

#include "answer_queue.h"
#include "queue_pair_core.h"
#include "request_shape.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::softnic::nic {

class Responder {
 public:
  explicit Responder(QueuePairCore& core) : core_(core), answers_(core), buffer_(core.make_buffer()) {}

  /// Forgets everything; none of its operations may be going on in memory.
  void reset() noexcept;
  /// RTR: the first packet has attributes.receive_psn.
  void start();
  /// Call when attributes.max_dest_rd_atomic has changed and no answers wait to be sent. Of the answered requests,
  /// which may be repeated, the most recent ones are kept.
  void resize();

  void on_request(const Packet& packet, Time now);
  /// A request of no known operation, or of a length that does not fit it (9.9.3).
  void on_malformed(const Packet& packet);
  /// A page is gone, so that a packet which was taken could not be placed. The other side may have its acknowledgement.
  void fail_place(const GonePlace& place);
  /// Writes the next packet of an answer to `out`; 0 if there is none to send now.
  [[nodiscard]] std::size_t produce(std::span<std::byte> out);
  /// Whether an answer waits for memory, or to be sent.
  [[nodiscard]] bool has_answers() const noexcept { return !answers_.is_empty(); }
  /// Whether the first answer can be sent now.
  [[nodiscard]] bool is_ready() { return answers_.ready(resource_of_first()) != nullptr; }
  /// XRC: this queue ends; a message that is being received into it is received no further.
  void forget(const ReceiveQueue& queue);
  /// On entering ERROR: fails the receive request of the message being received, if there is one.
  void flush_receive();
  [[nodiscard]] Psn expected() const noexcept { return expected_; }

 private:
  enum class Message : std::uint8_t { none, send, write };
  // Why a request cannot be executed.
  struct Fault {
    Syndrome nak;
    CompletionStatus receive;  // for the receive request that it uses, if any
  };
  using Checked = std::optional<Fault>;
  [[nodiscard]] static std::string explained(const Fault& fault);

  void on_unreliable(const Packet& packet, RequestShape shape);
  void on_expected(const Packet& packet, RequestShape shape);
  void on_repeated(const Packet& packet, RequestShape shape);
  void on_gap();
  [[nodiscard]] Checked check_sequence(const Packet& packet, RequestShape shape) const;
  [[nodiscard]] Checked take_send(const Packet& packet, RequestShape shape);
  [[nodiscard]] Checked take_write(const Packet& packet, RequestShape shape);
  [[nodiscard]] Checked take_read(const Packet& packet);
  [[nodiscard]] static AtomicStep step_of(const Packet& packet);
  [[nodiscard]] Checked take_atomic(const Packet& packet);
  [[nodiscard]] Checked take_atomic_write(const Packet& packet);
  /// Ensures that there is a receive request; false if there is none.
  [[nodiscard]] bool has_buffer();
  void end_message(const Packet& packet, RequestShape shape, std::uint32_t bytes, CompletionKind kind);
  /// `psn`: of the faulty packet.
  void fail(const Fault& fault, Psn psn);
  void answer_again(const Resource& resource, std::uint64_t number, const Packet& packet);
  [[nodiscard]] const Resource* resource_of_first() const noexcept;
  [[nodiscard]] Resource& new_resource(const Packet& packet, std::uint32_t packets);
  [[nodiscard]] std::size_t produce_read(Answer& answer, Packet& packet, std::span<std::byte> out);
  [[nodiscard]] bool is_outside(std::uint64_t address, std::uint32_t key, std::uint64_t length, Rights needed) const;

  QueuePairCore& core_;
  AnswerQueue answers_;
  std::vector<Resource> resources_;  // the most recent READs and atomics, by number
  std::uint64_t resource_end_ = 0;   // number of the next one
  Psn expected_;
  Psn acknowledged_;            // of the last executed packet of a SEND or WRITE
  std::uint32_t msn_ = 0;       // completed messages, modulo 2^24
  std::uint64_t messages_ = 0;  // messages begun
  bool gap_is_told_ = false;
  bool is_established_ = false;
  bool is_synchronized_ = false;  // UC: the first message has come
  // The message that is being received.
  Message message_ = Message::none;
  bool has_buffer_ = false;
  ReceiveBuffer buffer_;
  std::uint64_t received_ = 0;  // bytes
  Reth write_;
};

}  // namespace sidelatch::softnic::nic
