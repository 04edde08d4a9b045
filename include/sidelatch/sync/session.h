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
// A session gives back what its operations have latched, however they end (owed.h). Its end waits until what was posted
// has happened, `linger` at most in all, and reports what was lost. Better await close() before: it says so by an
// error. The objects' memory must stay registered until then: a last request may go to a latch that a WRITE has freed.
//
// Thread-safety: a session belongs to one task at a time, on its queue pair's reactor.
#pragma once

#include <sidelatch/fabric/buffer_ring.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/layout.h>
#include <sidelatch/sync/lease.h>
#include <sidelatch/sync/owed.h>
#include <sidelatch/sync/remote_latches.h>
#include <sidelatch/sync/retry.h>

#include <coroutine>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

namespace sidelatch::sync {

class LatchPeers;
struct Hold;

/// A guard that was dropped while it held its latch, and neither by an exception nor with its task.
struct DroppedGuard {
  std::source_location place;  ///< of the acquisition
  fabric::RemoteAddress latch;
};
using DroppedGuardHandler = void (*)(const DroppedGuard&);
/// The default handler. Debug builds of the library print the place of acquisition and abort. Other builds do nothing:
/// the latch stays held until its lease ends.
void report_dropped_guard(const DroppedGuard& dropped);

struct SessionOptions {
  std::uint32_t buffers = 8;    ///< guards and unlatches under way at once, 1 to 65536
  Retry retry{};                ///< after meeting a latched object
  std::uint16_t owner = 0;      ///< 1 to 65535, unique among clients of the memory node; 0: no owner, no lease
  Lease lease{};                ///< needs an owner
  Revoker* revoker = nullptr;   ///< needed to take over; must outlive the session
  LatchPeers* peers = nullptr;  ///< needed by McsLatch (latch_peers.h); must outlive the session
  std::uint64_t seed = 1;       ///< of the backoff
  DroppedGuardHandler dropped_guard = report_dropped_guard;
  fabric::Duration linger = fabric::from_ns(1e9);  ///< the most that the session's end waits for what was posted
  LostWorkHandler lost_work = report_lost_work;    ///< called at the session's end if something was lost
  RemoteLatches latches{};          ///< for schemes whose latches are not where the objects are (switch_latch.h)
  bool versions_at_switch = false;  ///< the queue pair passes a switch that keeps versions (switched_version.h)

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
  [[nodiscard]] bool valid() const noexcept { return ring_.valid(); }
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
  /// Waits, `linger` at most and without resuming any task, until everything that was posted has happened. What is lost
  /// is reported to options().lost_work. In a world that explores it does nothing.
  ~Session();
  /// For clients with several sessions, which end together: the first part of the end, which posts what it can and
  /// waits for nothing. Only end_by() and the destructor may follow. False: the destructor will not wait either.
  [[nodiscard]] bool begin_end();
  /// The destructor waits until then at most, and no longer than `linger`.
  void end_by(fabric::Time until) noexcept { end_by_ = until; }

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
  /// For schemes: Reactor::lease_clock().
  [[nodiscard]] fabric::Time lease_clock() const { return qp_->reactor().lease_clock(); }
  /// Whether the deadline of the operation under way (see Operation) has passed.
  [[nodiscard]] bool deadline_passed() const {
    return options_.retry.deadline && operation_began_ && now() - *operation_began_ >= *options_.retry.deadline;
  }

  /// A buffer for a record of that shape, or an empty one if no buffer is free now; then await wait_for_buffer().
  /// Throws std::invalid_argument if the record is too large.
  [[nodiscard]] fabric::RingBuffer take_buffer(const RecordShape& shape) {
    if (buffer_bytes(shape) > ring_.buffer_bytes()) [[unlikely]] {
      refuse_buffer(shape);
    }
    ++counters_.operations;
    if (errors_seen_ != qp_->failures()) [[unlikely]] {
      return {};
    }
    completed_seen_ = qp_->completed_so_far();
    return ring_.begin_acquire();
  }
  /// For schemes: whether a destroyed task has left a request under way at a switch that takes one at a time.
  [[nodiscard]] bool switch_is_busy() const noexcept {
    return options_.versions_at_switch && qp_->outstanding_so_far() != 0;
  }
  /// For schemes, before a request that must be alone at such a switch: waits while switch_is_busy(), and costs nothing
  /// otherwise. Throws FabricError.
  [[nodiscard]] auto until_switch_is_free() noexcept { return SwitchAwaiter(*this); }
  /// Gives back what the session owes, if the queue pair is ready. Throws LatchError::buffers_exhausted if guards hold
  /// all buffers, and FabricError.
  [[nodiscard]] fabric::Task<fabric::RingBuffer> wait_for_buffer();

  /// Gives back the latches that failed operations have left, and sends commits that were under way again. Call it
  /// after qp().reconnect(); every later operation of the session does it, too. Throws FabricError; the rest is still
  /// owed then.
  [[nodiscard]] fabric::Task<void> settle();
  /// settle(), then waits until everything posted has completed and is placed: the session may end afterwards, and
  /// nothing that was reported as done is lost. Throws FabricError, also if latches are in doubt: then updates may be
  /// lost.
  [[nodiscard]] fabric::Task<void> close();
  /// Latches that the session holds from failed operations; settle() gives them back.
  [[nodiscard]] std::size_t owed() const noexcept { return owed_.size(); }
  /// Whether a connection has failed since, and has left something for settle(). For clients with several sessions:
  /// each notices only its own failures.
  [[nodiscard]] bool has_lost_work() {
    if (errors_seen_ != qp_->failures()) [[unlikely]] {
      notice_failure();
      notice_unlatches_apart();
    }
    return !owed_.empty();
  }
  /// Owners that this session has revoked, because their leases had ended. What they had taken for themselves is
  /// nobody's now; structures bring it back.
  [[nodiscard]] std::span<const std::uint16_t> dead_owners() const noexcept { return dead_owners_; }
  /// For schemes.
  void note_dead(std::uint16_t owner);
  /// Latches of which nobody can tell whether the session holds them: it has no owner id, or it may be counted as a
  /// reader. Only somebody who knows that no client is at work can free them.
  [[nodiscard]] std::span<const OwedLatch> in_doubt() const noexcept { return in_doubt_; }

  /// For guards and schemes. An exception, or the end of its task, drops a guard: gives its latch back, now or later.
  /// An inherited object is the dead holder's again. `held`: the latch was held for certain, and not only if what was
  /// posted for it (`asked`) succeeds.
  void release_dropped(Hold& hold, bool held = true, const fabric::Posting& asked = {}) noexcept;
  /// The unlatch of a hold that had added `word` was posted, last on the queue pair, and nobody waits for it.
  [[gnu::always_inline]] void posted_unlatch(const fabric::RemoteSpan& latch, std::uint64_t word) {
    posted_unlatch(latch, word, qp_->posted_so_far());
  }
  /// The same for an unlatch that is not the last: request `sequence`.
  [[gnu::always_inline]] void posted_unlatch(const fabric::RemoteSpan& latch, std::uint64_t word,
                                             std::uint64_t sequence) {
    if (unlatches_.full()) [[unlikely]] {
      make_room_for_unlatch();
    }
    Unlatches::Entry& entry = unlatches_.push();
    entry.sequence = sequence;
    entry.word = word;
    entry.latch = latch.address;
    entry.rkey = latch.rkey;
  }
  /// A WRITE that frees the latch was posted, and nothing behind it that proves that it is placed.
  void posted_write_unlatch(const fabric::RemoteSpan& latch) noexcept {
    unplaced_latch_ = latch.address;
    unplaced_rkey_ = latch.rkey;
  }
  /// The commit that the unlatch just posted ends; `publish` may be null.
  void posted_commit(const Hold& hold, const fabric::WorkRequest& write, const fabric::WorkRequest* publish,
                     bool free_by_write);
  /// The same for an unlatch without commit.
  void posted_commit(const Hold& hold);
  /// The same for an unlatch on the queue pair of the latches apart from their objects.
  void posted_unlatch_apart(const Hold& hold, const fabric::Posting& unlatch);
  /// The unlatch of `hold` failed; `posted`: it may have happened.
  void owe_unlatch(const Hold& hold, const fabric::WorkRequest* write, const fabric::WorkRequest* publish,
                   bool free_by_write, bool posted);
  /// The acquisition for `hold` ended after it was posted; `latched`: it had latched the object before. Otherwise
  /// request `asked` may have done so, if it has found `expected`.
  void owe_acquired(const Hold& hold, bool latched, const fabric::Posting& asked, std::uint64_t expected);
  /// What the request of owed.asked has found, once it has completed, if that is still known. Forgets owed.asked.
  [[nodiscard]] fabric::Task<std::optional<std::uint64_t>> outcome_of(OwedLatch& owed) const;

  /// A place in a queue, or another latch, that the session cannot give back now.
  void owe(OwedLatch&& owed);
  /// Sends the WRITEs of a commit again. `last`: the last of them that was posted; it outlives the task.
  [[nodiscard]] fabric::Task<void> write_again(const OwedLatch& owed, fabric::Posting& last);

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

  /// While it lives, an acquisition or a read waits only for a part of a lease for another client's latch, and is then
  /// empty, as if its deadline had passed. For clients that hold a latch and want another: if the other's holder is
  /// dead, waiting for its lease to end would outlast their own, and they would be taken for dead. No effect without a
  /// lease.
  class Brief {
   public:
    explicit Brief(Session& session) noexcept;
    Brief(const Brief&) = delete;
    Brief& operator=(const Brief&) = delete;
    ~Brief() { session_->brief_until_ = outer_; }

   private:
    Session* session_;
    std::optional<fabric::Time> outer_;
  };

 private:
  friend class Attempts;
  friend class LeaseWatch;
  /// A holder that an operation has met that its deadline has ended.
  struct Sighting {
    fabric::RemoteAddress latch;
    std::uint64_t holder = 0;
    fabric::Time since{};  // when the session learned of the holder
    fabric::Time last{};   // when the last request was posted that has seen it
  };
  [[nodiscard]] const Sighting* sighting_of(fabric::RemoteAddress latch) const noexcept;
  void keep(const Sighting& sighting);
  [[noreturn]] void refuse_buffer(const RecordShape& shape);
  void make_room_for_unlatch();
  void notice_failure();
  [[nodiscard]] fabric::Task<fabric::RingBuffer> settle_and_acquire();
  [[nodiscard]] fabric::Task<void> give_back(OwedLatch& owed, fabric::Posting& unlatch);
  /// What has become of a latch that is owed: it is somebody else's or free, the session's, or nobody can tell.
  enum class Fate : std::uint8_t { over, held, unknown };
  [[nodiscard]] fabric::Task<Fate> fate_of(OwedLatch& owed);
  class OwedUnderWay;
  [[nodiscard]] OwedLatch take_next_owed();
  void owe_again(OwedLatch&& owed);
  void posted_unlatch(OwedLatch&& owed, const fabric::Posting& unlatch);
  void notice_unlatches_apart();
  [[nodiscard]] bool is_placed() const noexcept { return unplaced_latch_.value == 0; }
  [[nodiscard]] fabric::WorkRequest proof_of_placement() const;
  [[nodiscard]] bool prove_placement_at_end(fabric::Time until);
  [[nodiscard]] fabric::QueuePair& pair_of(const OwedLatch& owed) const noexcept;
  void finish();
  [[nodiscard]] bool awaits_outcome(const OwedLatch& owed) const;
  [[nodiscard]] bool needs_only_unlatch(const OwedLatch& owed) const;
  void note_outcomes();
  void see_outcomes(fabric::QueuePair* memory, fabric::QueuePair* latches, fabric::Time until);
  [[nodiscard]] bool unlatch_at_end(OwedLatch& owed, fabric::Time until, bool behind_commits);
  bool unlatch_all_at_end(fabric::Time until);

  /// In a frame that need not wait it leaves nothing that a world that explores could tell.
  class SwitchAwaiter {
   public:
    explicit SwitchAwaiter(Session& session) noexcept : session_(&session) {}
    [[nodiscard]] bool await_ready() const noexcept { return !session_->switch_is_busy(); }
    bool await_suspend(std::coroutine_handle<> awaiter) {
      using Drain = fabric::QueuePair::ChainAwaiter;
      fabric::QueuePair& qp = *session_->qp_;
      drain_.emplace(qp, Drain::Until::reached, std::span<const fabric::WorkRequest>(), std::span<std::uint64_t>(),
                     qp.posted_so_far());
      return drain_->await_suspend(awaiter);
    }
    void await_resume() const {
      if (drain_) {
        drain_->await_resume();
      }
    }

   private:
    Session* session_;
    std::optional<fabric::QueuePair::ChainAwaiter> drain_;
  };

  static constexpr std::uint64_t kOwes = ~std::uint64_t{0};

  fabric::QueuePair* qp_;
  SessionOptions options_;
  fabric::BufferRing ring_;
  SessionCounters counters_;
  std::optional<fabric::Time> operation_began_;
  std::optional<fabric::Time> brief_until_;
  Unlatches unlatches_;
  std::vector<OwedLatch> unlatches_apart_;  // that may still be under way, as `asked`
  std::vector<OwedLatch> owed_;
  std::vector<OwedLatch> in_doubt_;
  std::vector<std::uint16_t> dead_owners_;
  std::vector<Sighting> sightings_;         // a few, the latest ones last
  fabric::RemoteAddress unplaced_latch_{};  // that a WRITE has freed whose placement is not proven; 0: none
  std::uint64_t errors_seen_;               // of the queue pair; kOwes while operations must look closer
  std::uint64_t failures_;                  // of the queue pair that this session knows
  std::uint64_t completed_seen_ = 0;        // requests of the queue pair that had completed when it last worked
  fabric::Time end_by_ = fabric::Time::max();
  std::uint64_t random_;
  fabric::RKey unplaced_rkey_{};
  std::uint16_t epoch_ = 0;
  bool marks_attempts_;  // the deadline or a world that explores needs to know when attempts begin
};

/// The attempts of one operation; for schemes.
class Attempts {
 public:
  /// For the library's own loops. What such a loop's coroutine keeps of a failed attempt in its own frame is dead: a
  /// world that explores cannot see that in the bytes of a frame, so these loops say it. (A test compares them with
  /// what is found without that word.) Everything else that a client knows is looked at, as for all loops.
  class Forgotten {
   public:
    explicit Forgotten(const std::source_location& where = std::source_location::current()) noexcept : place(where) {}
    std::source_location place;
  };
  Attempts(Session& session, const Forgotten& forgotten) noexcept : session_(&session) {
    if (session.marks_attempts_) [[unlikely]] {
      mark_begin(forgotten.place, true);
    }
  }
  /// Such a loop awaits pause() before its first attempt while this returns true: once to let its callers' frames note
  /// that they wait, once to show what the client knows at the loop's head.
  [[nodiscard]] bool shows_head() noexcept { return loop_ != fabric::Reactor::kNoLoop && heads_shown_++ < 2; }

  explicit Attempts(Session& session, const std::source_location& place = std::source_location::current()) noexcept
      : session_(&session) {
    if (session.marks_attempts_) [[unlikely]] {
      mark_begin(place, false);
    }
  }
  [[nodiscard]] fabric::Time began() const noexcept { return began_; }
  /// After a failed attempt: true if the deadline has passed.
  [[nodiscard]] bool expired() noexcept;
  /// After a failed attempt that no deadline ends: counts it.
  void count() noexcept;
  /// The wait of a client in a queue, with so many before it: as many first waits, at most the longest one.
  [[nodiscard]] fabric::Reactor::SleepAwaiter pause_behind(std::uint64_t ahead) noexcept;
  /// The wait before the next attempt, as an awaitable.
  [[nodiscard]] fabric::Reactor::SleepAwaiter pause() noexcept;

 private:
  void mark_begin(const std::source_location& place, bool forgets) noexcept;

  Session* session_;
  fabric::Time began_{};  // set if there is a deadline
  fabric::Reactor::LoopId loop_ = fabric::Reactor::kNoLoop;
  fabric::Duration bound_{};  // of the last wait
  int heads_shown_ = 0;
};

/// Watches one latch, always the same one, for a holder that seems dead; for schemes. An operation that its deadline
/// ends hands what it has learned to the session's next one on that latch, so a deadline may be shorter than a lease.
class LeaseWatch {
 public:
  explicit LeaseWatch(Session& session) noexcept : session_(&session) {}
  /// `word` was seen in the latch by a request posted at `asked`. True if its holder has had it for a whole lease. What
  /// counts is when the request was posted: the holder may have unlatched since, while this client was paused.
  [[nodiscard]] bool expired(fabric::RemoteAddress latch, std::uint64_t word, fabric::Time asked) noexcept;
  /// The deadline ends the operation, which has seen `word` last.
  void keep(fabric::RemoteAddress latch, std::uint64_t word, fabric::Time asked);

 private:
  Session* session_;
  std::uint64_t holder_ = 0;
  fabric::Time since_{};
};

}  // namespace sidelatch::sync
