// Session: one worker's access to the objects of one memory node. It has the queue pair, registered buffers, the retry
// policy and, optionally, an owner id with a lease.
//
//   const RecordShape shape = scheme.shape(256, LayoutKind::padded);
//   Session session(*qp, buffer_bytes(shape));
//   const auto result = co_await scheme.read(session, objects.at(7), payload);
//
// Every guard (guard.h) holds one buffer while it lives. Buffers form a ring. The NIC fetches the payload of an
// asynchronous unlatch some time after the post, so a buffer is reused only once a later completion of the queue pair
// shows that it is free (TODS 2025, section 3.3).
//
// Thread-safety: a session belongs to one task at a time, on its queue pair's reactor.
#pragma once

#include <sidelatch/fabric/buffer_ring.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/layout.h>
#include <sidelatch/sync/lease.h>
#include <sidelatch/sync/retry.h>

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <utility>

namespace sidelatch::sync {

/// A guard that was dropped while it held its latch.
struct DroppedGuard {
  std::source_location place;  ///< of the acquisition
  fabric::RemoteAddress latch;
};
using DroppedGuardHandler = void (*)(const DroppedGuard&);
/// The default handler. Debug builds of the library print the place of acquisition and abort. Other builds do nothing:
/// the latch stays held until its lease ends.
void report_dropped_guard(const DroppedGuard& dropped);

struct SessionOptions {
  std::uint32_t buffers = 8;   ///< guards and unlatches under way at once, at least 1
  Retry retry{};               ///< after meeting a latched object
  std::uint16_t owner = 0;     ///< 1 to 65535, unique among clients of the memory node; 0: no owner, no lease
  Lease lease{};               ///< needs an owner
  Revoker* revoker = nullptr;  ///< needed to take over; must outlive the session
  std::uint64_t seed = 1;      ///< of the backoff
  DroppedGuardHandler dropped_guard = report_dropped_guard;

  /// Throws std::invalid_argument that names the field, its value and what is allowed.
  void validate() const;
};

struct SessionCounters {
  std::uint64_t operations = 0;  ///< guards asked for
  std::uint64_t retries = 0;     ///< attempts that met a latch or a torn object
  std::uint64_t deadlines = 0;   ///< operations given up
  std::uint64_t takeovers = 0;   ///< latches taken over from holders whose lease had ended
};

/// One buffer of a session, divided for a record: the record's bytes, the payload gathered from them, and room for a
/// header.
class ObjectBuffer {
 public:
  ObjectBuffer() noexcept = default;
  ObjectBuffer(fabric::RingBuffer ring, const RecordShape& shape) noexcept : ring_(std::move(ring)), shape_(&shape) {}

  /// The whole record.
  [[nodiscard]] fabric::LocalSpan record() const noexcept { return cut(0, shape_->bytes); }
  /// `bytes` of the record from `offset`, which must lie in it.
  [[nodiscard]] fabric::LocalSpan part(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return cut(offset, bytes);
  }
  /// Bytes for a copy of the header alone.
  [[nodiscard]] fabric::LocalSpan header() const noexcept;
  /// The payload as one run of bytes: in the record, or beside it if lines carry versions.
  [[nodiscard]] std::span<std::byte> payload() const noexcept;
  [[nodiscard]] const RecordShape& shape() const noexcept { return *shape_; }
  /// Gives the buffer back; the ring reuses it after everything posted so far has completed.
  void drop() noexcept { ring_.drop(); }

 private:
  [[nodiscard]] fabric::LocalSpan cut(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const fabric::LocalSpan all = ring_.span();
    return {all.data + offset, bytes, all.lkey};
  }

  fabric::RingBuffer ring_;
  const RecordShape* shape_ = nullptr;
};

/// Bytes of a session's buffer for records of that shape.
[[nodiscard]] constexpr std::uint64_t buffer_bytes(const RecordShape& shape) { return shape.client_bytes; }

class Session {
 public:
  /// `bytes_per_buffer`: the largest buffer_bytes() of the records it will see. Throws std::invalid_argument for bad
  /// options.
  Session(fabric::QueuePair& qp, std::uint64_t bytes_per_buffer, const SessionOptions& options = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() = default;

  [[nodiscard]] fabric::QueuePair& qp() noexcept { return *qp_; }
  [[nodiscard]] const SessionOptions& options() const noexcept { return options_; }
  [[nodiscard]] const SessionCounters& counters() const {
    qp_->reactor().tally_is_read();
    return counters_;
  }
  /// For schemes, to count.
  [[nodiscard]] SessionCounters& tally() noexcept { return counters_; }
  [[nodiscard]] bool has_lease() const noexcept { return options_.lease.length != fabric::Duration::zero(); }
  [[nodiscard]] fabric::Time now() const { return qp_->reactor().now(); }

  /// A buffer for a record of that shape, or an empty one if no buffer is free now; then await wait_for_buffer().
  /// Throws std::invalid_argument if the record is too large.
  [[nodiscard]] fabric::RingBuffer take_buffer(const RecordShape& shape) {
    if (buffer_bytes(shape) > ring_.buffer_bytes()) [[unlikely]] {
      refuse_buffer(shape);
    }
    ++counters_.operations;
    return ring_.try_acquire();
  }
  /// Throws LatchError::buffers_exhausted if guards hold all buffers.
  [[nodiscard]] fabric::Task<fabric::RingBuffer> wait_for_buffer();

  /// The word of the next exclusive acquisition: owner and a new epoch, or the plain 1.
  [[nodiscard]] std::uint64_t next_word() noexcept { return exclusive_word(options_.owner, ++epoch_); }
  /// The newest word was never in the latch, so the next acquisition may use it.
  void return_word() noexcept { --epoch_; }
  /// Charges this worker for CPU work, in worlds with a clock of their own.
  [[nodiscard]] fabric::Reactor::SleepAwaiter spend(fabric::CpuWork work, std::uint64_t bytes) noexcept {
    return qp_->reactor().sleep(qp_->node().cpu_time(work, bytes));
  }
  [[nodiscard]] std::uint64_t random() noexcept;

  /// While it lives, everything that the session begins is part of an operation that began at `began`; its deadline
  /// counts from there.
  class Operation {
   public:
    Operation(Session& session, fabric::Time began) noexcept
        : session_(&session), outer_(std::exchange(session.operation_began_, began)) {}
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    ~Operation() { session_->operation_began_ = outer_; }

   private:
    Session* session_;
    std::optional<fabric::Time> outer_;  // of the enclosing operation, if any
  };

 private:
  friend class Attempts;
  [[noreturn]] void refuse_buffer(const RecordShape& shape);

  fabric::QueuePair* qp_;
  SessionOptions options_;
  fabric::BufferRing ring_;
  SessionCounters counters_;
  std::optional<fabric::Time> operation_began_;
  std::uint64_t random_;
  std::uint16_t epoch_ = 0;
  bool marks_attempts_;  // the deadline or a world that explores needs to know when attempts begin
};

/// The attempts of one operation; for schemes.
class Attempts {
 public:
  /// For the library's own loops, whose coroutine keeps nothing of a failed attempt (sync/latching.h).
  class Forgotten;
  Attempts(Session& session, const Forgotten& forgotten) noexcept;
  /// Whether to await pause() once before the first attempt, because the world looks at the loop.
  [[nodiscard]] bool looked_at() const noexcept { return loop_ != fabric::Reactor::kNoLoop; }

  explicit Attempts(Session& session, const std::source_location& place = std::source_location::current()) noexcept
      : session_(&session) {
    if (session.marks_attempts_) [[unlikely]] {
      mark_begin(place, false);
    }
  }
  [[nodiscard]] fabric::Time began() const noexcept { return began_; }
  /// After a failed attempt: true if the deadline has passed.
  [[nodiscard]] bool expired() noexcept;
  /// The wait before the next attempt, as an awaitable.
  [[nodiscard]] fabric::Reactor::SleepAwaiter pause() noexcept;

 private:
  void mark_begin(const std::source_location& place, bool forgets) noexcept;

  Session* session_;
  fabric::Time began_{};  // set if there is a deadline
  fabric::Reactor::LoopId loop_ = fabric::Reactor::kNoLoop;
  fabric::Duration bound_{};  // of the last wait
};

/// Watches one latch for a holder that seems dead; for schemes.
class LeaseWatch {
 public:
  explicit LeaseWatch(Session& session) noexcept : session_(&session) {}
  /// `word` was seen in the latch. True if its holder has had it for a whole lease.
  [[nodiscard]] bool expired(std::uint64_t word) noexcept;

 private:
  Session* session_;
  std::uint64_t holder_ = 0;
  fabric::Time since_{};
};

}  // namespace sidelatch::sync
