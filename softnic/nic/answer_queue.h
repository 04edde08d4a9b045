// AnswerQueue: what a responder has to send, in the order of the requests, and the READ answers that are sampled ahead.
//
// Acknowledgements, NAKs, READ responses and atomic acknowledgements leave in this order. An acknowledgement that has
// not left yet takes in the next one. An answer that waits for memory holds back those behind it. The queue has a fixed
// size: repeated requests that find no room are dropped, they will be repeated again.
//
// Thread-safety: none.
#pragma once

#include "queue_pair_core.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace sidelatch::softnic::nic {

/// A READ or atomic that the responder keeps, in case its answer gets lost (9.7, responder resources).
struct Resource {
  bool is_atomic = false;
  Psn first;
  std::uint32_t packets = 0;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;
  Operation operation;  ///< atomic: its result
};

struct Answer {
  enum class Kind : std::uint8_t { acknowledge, read, atomic };
  Kind kind = Kind::acknowledge;
  Psn psn{};              ///< of the first packet
  std::uint32_t msn = 0;  ///< 24 bits
  bool is_repeated = false;
  Syndrome syndrome{};         ///< acknowledge
  std::uint64_t resource = 0;  ///< atomic: its number
  // READ: what is still to be sent.
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;   ///< bytes of the whole
  std::uint32_t packets = 1;  ///< of the whole
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

  /// Room for what `most_unanswered` READs and atomics need, and as much again for repeated ones.
  void start(std::uint32_t most_unanswered);
  /// Forgets everything. What it has begun in memory has ended before.
  void reset() noexcept;

  [[nodiscard]] bool is_empty() const noexcept { return size_ == 0; }
  /// No request may be taken: it is dropped, as if it had been lost. Only floods of repeated requests come here.
  [[nodiscard]] bool is_full() const noexcept { return size_ + 2 > answers_.size(); }
  /// Whether a repeated request may be answered, too.
  [[nodiscard]] bool has_room_for_repeated() const noexcept { return size_ < answers_.size() / 2; }
  /// READs and atomics without an answer, repeated ones not counted.
  [[nodiscard]] std::uint32_t unanswered() const noexcept { return unanswered_; }

  /// Acknowledges all up to `psn`.
  void add_acknowledge(Psn psn, std::uint32_t msn);
  void add_nak(Psn psn, std::uint32_t msn, Syndrome syndrome);
  /// A READ or atomic; for a READ its samples begin.
  void add(const Answer& answer);

  /// What comes first if it can be sent now; nullptr otherwise.
  [[nodiscard]] Answer* ready(const Resource* atomic_of_first);
  [[nodiscard]] const Answer* first() const noexcept { return size_ == 0 ? nullptr : &at(0); }
  /// The next packet of the READ that comes first: its bytes to `into`. False if its region has ended.
  [[nodiscard]] bool take_sample(std::span<std::byte> into);
  /// The first has been sent whole.
  void pop();
  /// Nothing of it is sent any more. What has begun in memory may still be going on, until reset().
  void drop_all() noexcept;

 private:
  [[nodiscard]] Answer& at(std::size_t i) noexcept { return answers_[(begin_ + i) % answers_.size()]; }
  [[nodiscard]] const Answer& at(std::size_t i) const noexcept { return answers_[(begin_ + i) % answers_.size()]; }
  void push(const Answer& answer);
  void sample_ahead();
  [[nodiscard]] bool sample_now(std::span<std::byte> into);
  [[nodiscard]] bool take_sampled(std::span<std::byte> into);
  [[nodiscard]] bool begin_sample(const Answer& answer, Sample& sample);

  QueuePairCore& core_;
  std::vector<Answer> answers_;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
  std::uint32_t unanswered_ = 0;
  std::deque<Sample*> samples_;  // in the order in which they are sent
  Operation placed_;             // an acknowledgement waits for it, if the memory wants that
  bool is_placing_ = false;      // the first waits for `placed_`, and takes in no more
};

}  // namespace sidelatch::softnic::nic
