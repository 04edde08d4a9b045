// AnswerQueue: the answers that a responder has to send, in the order of the requests, and READ answers sampled ahead.
//
// Acknowledgements, NAKs, READ responses and atomic acknowledgements leave in this order. An acknowledgement that has
// not left yet absorbs the next one. An answer that waits for memory holds back all later answers. The queue has a
// fixed size. Repeated requests that find no room are dropped; they will be repeated again.
//
// Thread-safety: none.
#pragma once

#include "queue_pair_core.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace sidelatch::softnic::nic {

/// A READ or atomic that the responder keeps in case its answer is lost (9.7, responder resources).
struct Resource {
  bool is_atomic = false;
  bool is_write = false;  ///< ATOMIC WRITE: the answer has no value
  Psn first;
  std::uint32_t packets = 0;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;
  Domain domain = 0;
  AtomicStep step{};    ///< atomic
  Operation operation;  ///< atomic: its result

  /// All of `other`, whose operation is done.
  void take(const Resource& other) noexcept {
    is_atomic = other.is_atomic;
    is_write = other.is_write;
    first = other.first;
    packets = other.packets;
    address = other.address;
    key = other.key;
    length = other.length;
    domain = other.domain;
    step = other.step;
    operation.original = other.operation.original;
    operation.failed = other.operation.failed;
    operation.gone = other.operation.gone;
    operation.finish();
  }
};

struct Answer {
  enum class Kind : std::uint8_t { acknowledge, read, atomic };
  Kind kind = Kind::acknowledge;
  Psn psn{};              ///< of the first packet
  std::uint32_t msn = 0;  ///< 24 bits
  bool is_repeated = false;
  Syndrome syndrome{};         ///< acknowledge
  std::uint64_t resource = 0;  ///< atomic: its number
  // READ: the part that is still to be sent.
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  Domain domain = 0;
  std::uint32_t length = 0;   ///< bytes of the whole answer
  std::uint32_t packets = 1;  ///< of the whole answer
  std::uint32_t sent = 0;     ///< packets
  std::uint32_t sampled = 0;  ///< packets whose samples have begun
  std::uint64_t message = 0;

  [[nodiscard]] bool is_positive() const noexcept {
    return kind == Kind::acknowledge && syndrome.kind() == Syndrome::Kind::ack;
  }
};

class AnswerQueue {
 public:
  explicit AnswerQueue(QueuePairCore& core) : core_(core) {}

  /// Makes room for the answers of `most_unanswered` READs and atomics, and as much again for repeated ones.
  void start(std::uint32_t most_unanswered);
  /// Forgets everything. Operations that it began in memory must have ended before.
  void reset() noexcept;

  [[nodiscard]] bool is_empty() const noexcept { return size_ == 0; }
  /// Whether requests must be dropped, as if they were lost. This happens only in floods of repeated requests.
  [[nodiscard]] bool is_full() const noexcept { return size_ + 2 > answers_.size(); }
  /// Whether there is room for a repeated request.
  [[nodiscard]] bool has_room_for_repeated() const noexcept { return size_ < answers_.size() / 2; }
  /// READs and atomics without an answer, repeated ones not counted.
  [[nodiscard]] std::uint32_t unanswered() const noexcept { return unanswered_; }

  /// Acknowledges all up to `psn`.
  void add_acknowledge(Psn psn, std::uint32_t msn);
  void add_nak(Psn psn, std::uint32_t msn, Syndrome syndrome);
  /// Adds a READ or atomic; begins the samples of a READ.
  void add(const Answer& answer);

  /// A READ is asked for again, from this packet on. If its answer is still being sent, it goes back to that packet,
  /// unless the packet is still to come. False: another answer is needed, because none is being sent, or its bytes are
  /// sampled ahead.
  [[nodiscard]] bool resume_from(Psn from, std::uint32_t packets);

  /// The first answer if it can be sent now; nullptr otherwise.
  [[nodiscard]] Answer* ready(const Resource* atomic_of_first);
  [[nodiscard]] const Answer* first() const noexcept { return size_ == 0 ? nullptr : &at(0); }
  /// Copies the bytes of the next packet of the first READ to `into`. False if its region has ended, or a page of it is
  /// gone.
  [[nodiscard]] bool take_sample(std::span<std::byte> into);
  /// Removes the first answer, which has been sent completely.
  void pop();
  /// Drops all answers. Operations begun in memory may still go on until reset().
  void drop_all() noexcept;

 private:
  [[nodiscard]] Answer& at(std::size_t i) noexcept { return answers_[(begin_ + i) % answers_.size()]; }
  [[nodiscard]] const Answer& at(std::size_t i) const noexcept { return answers_[(begin_ + i) % answers_.size()]; }
  void push(const Answer& answer);
  void sample_ahead();
  [[nodiscard]] bool sample_now(std::span<std::byte> into);
  [[nodiscard]] bool take_sampled(std::span<std::byte> into);
  [[nodiscard]] bool is_needless(const Operation& operation, std::span<std::byte> into);
  [[nodiscard]] bool begin_sample(const Answer& answer, Sample& sample);

  QueuePairCore& core_;
  std::vector<Answer> answers_;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
  std::uint32_t unanswered_ = 0;
  std::deque<Sample*> samples_;  // in the order of sending
  Operation placed_;             // an acknowledgement waits for it, if the memory requires that
  bool is_placing_ = false;      // the first answer waits for `placed_`, and absorbs no more
};

}  // namespace sidelatch::softnic::nic
