// QueuePair: the interface that every algorithm uses, in every world.
//
// The life of a request:
//   1. A WorkRequest is made by read(), write(), compare_swap() or fetch_add(): plain data.
//   2. `co_await qp.submit(a, b, ...)` posts a chain with one doorbell, and resumes when its last request has
//   completed.
//   3. If the send queue or the completion queue is full, the task waits for room, in turn; nothing is lost.
//   4. The NIC executes the chain under the memory model's rules (docs/memory-model.md): on one queue pair a READ after
//      an atomic sees the atomic done, two READs may overlap, and so on.
//   5. The completion frees the queue entries of everything posted before it, delivers the atomics' old values and
//      resumes the task.
//   6. A completion with an error moves the queue pair to the error state. Later requests are flushed. Every task that
//      waits on the queue pair gets a FabricError: the cause for the failed chain, Status::flushed for the others.
//   7. `co_await qp.reconnect()` makes it usable again.
//
// Use post() or enqueue() for requests that nobody waits for. They are signalled periodically, so a queue of
// unsignalled requests never jams. If one of them fails, the next use of the queue pair reports it.
//
// Two-sided messages: a queue pair of Node::connect_pair() has a peer, and both ends can post.
//
//   bool posted = server_end->post_receive(buffer);             // at the server, before the message comes
//   co_await client_end->submit(send(message));                 // at the client: one-sided requests go on beside it
//   const Received request = co_await server_end->receive();    // which buffer, and how many bytes
//
// A SEND takes the oldest receive buffer that its peer has posted. If there is none, the SEND and all requests posted
// after it wait at the peer's NIC: a program that receives no messages slows its peer down and loses nothing. receive()
// shows the message and all earlier WRITEs of the peer's queue pair to the CPU. A SEND longer than its buffer is an
// error at both ends: Status::local_operation at the receiver, Status::remote_invalid_request at the sender.
//
// A WRITE with immediate takes a receive buffer, too, but leaves it as it is: its payload goes to the address that it
// names, as any WRITE's, and receive() returns its 32 bits of immediate data once the payload is there. While it waits
// for a receive buffer, some of its payload may be there already (InfiniBand specification,
// chapter 9: the last packet takes the buffer).
//
// The two ends are one connection. An error, revocation or destruction of one end ends the connection for both, for
// good. The other end's requests fail with Status::retry_exceeded, and its receive() throws Status::disconnected once
// it has returned all messages on their way. At the failed end, receive() throws the same error as its other requests.
//
// Guarantees: completions in posting order; at most max_rd_atomic READs and atomics outstanding at the target; a buffer
// named by a request is not touched after that request has completed or been flushed, or the queue pair is destroyed;
// the same for a receive buffer, from receive() on.
//
// Thread-safety: a queue pair belongs to its reactor's thread.
#pragma once

#include <sidelatch/fabric/checked_request.h>
#include <sidelatch/fabric/counters.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/reactor.h>
#include <sidelatch/fabric/receive_queue.h>
#include <sidelatch/fabric/work_request.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::fabric {

struct QueuePairOptions {
  std::uint32_t send_queue_depth = 64;     ///< requests in flight, 2 to 32768, a power of two
  std::uint32_t max_rd_atomic = 16;        ///< READs and atomics outstanding at the target, 1 to 128
  std::uint32_t max_inline = 220;          ///< bytes of an inlined payload, 0 to 1024
  std::uint32_t signal_interval = 0;       ///< at least one of this many requests is signalled; 0: half the depth
  std::uint32_t receive_queue_depth = 64;  ///< for an end of a pair: receive buffers posted, 1 to 32768
  /// Rings the doorbell for each request of a chain, as a program does that calls ibv_post_send() for each. Slower; for
  /// comparisons with such programs.
  bool one_doorbell_each = false;

  /// Throws std::invalid_argument that names the field, its value and the allowed range.
  void validate() const;
};

/// Where the numbers of a chain's requests are written when the chain is posted. It must outlive the wait.
struct Posting {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  ///< 0: not posted yet
  [[nodiscard]] bool happened() const noexcept { return last != 0; }
};

class QueuePair {
 public:
  enum class State : std::uint8_t { ready, error };

  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  /// Waiting tasks get FabricError{Status::disconnected}. Requests in flight no longer touch local memory.
  virtual ~QueuePair();

  /// Posts the whole chain with one doorbell and does not wait. Returns false and posts nothing if there is no room;
  /// wait with enqueue(), submit() or drain(). Throws FabricError for a bad request (nothing is posted, the queue pair
  /// stays usable), and, in the error state, the error that led there.
  [[nodiscard]] bool post(std::span<const WorkRequest> chain);

  class ChainAwaiter;
  template <std::size_t N>
  class Submit;
  class One;

  /// Posts a chain with one doorbell, waits for its last completion, and returns the old values of its atomics, by
  /// position (0 for other requests): std::array<std::uint64_t, N>.
  template <std::same_as<WorkRequest>... Requests>
  [[nodiscard]] Submit<sizeof...(Requests)> submit(const Requests&... requests);
  /// The same for who must know, when the waiting task is destroyed, what was posted.
  template <std::same_as<WorkRequest>... Requests>
  [[nodiscard]] Submit<sizeof...(Requests)> submit(Posting& posting, const Requests&... requests);
  /// Like submit(...), for a chain whose length is known at run time; `chain` must stay valid while the caller waits.
  /// `old_values` is empty or as long as the chain.
  [[nodiscard]] ChainAwaiter submit(std::span<const WorkRequest> chain, std::span<std::uint64_t> old_values = {});
  /// Waits only for room, posts, and does not wait for completion.
  template <std::same_as<WorkRequest>... Requests>
  [[nodiscard]] Submit<sizeof...(Requests)> enqueue(const Requests&... requests);
  template <std::same_as<WorkRequest>... Requests>
  [[nodiscard]] Submit<sizeof...(Requests)> enqueue(Posting& posting, const Requests&... requests);
  /// Like enqueue(...), for a chain whose length is known at run time; `chain` must stay valid until the await returns.
  [[nodiscard]] ChainAwaiter enqueue(std::span<const WorkRequest> chain);

  [[nodiscard]] One read(const LocalSpan& into, const RemoteSpan& from);
  [[nodiscard]] One write(const LocalSpan& from, const RemoteSpan& to);
  /// Returns the old value: the swap happened if it equals `expected`.
  [[nodiscard]] One compare_swap(const RemoteSpan& word, std::uint64_t expected, std::uint64_t desired);
  /// Returns the old value.
  [[nodiscard]] One fetch_add(const RemoteSpan& word, std::uint64_t addend);

  /// Waits until request number `sequence` (see posted()) and all before it have completed.
  [[nodiscard]] ChainAwaiter reach(std::uint64_t sequence);
  /// Waits until everything posted so far has completed.
  [[nodiscard]] ChainAwaiter drain();

  /// Whether this is an end of Node::connect_pair(), which sends and receives messages.
  [[nodiscard]] bool two_sided() const noexcept { return receives_ != nullptr; }
  /// Posts a buffer of at most 2^31 bytes for one SEND or WRITE with immediate of the peer; its region needs
  /// Access::local_write. Returns false and posts nothing if receive_queue_depth buffers are posted or hold messages
  /// that receive() has not returned.
  /// Throws FabricError for a bad buffer, on a queue pair that is not two-sided, and after the connection has ended,
  /// with the cause.
  [[nodiscard]] bool post_receive(const LocalSpan& into);
  /// Waits for the peer's next message and returns it as Received. Waiting tasks are served in turn. Throws FabricError
  /// on a queue pair that is not two-sided, and when the connection has ended and all earlier messages were returned.
  [[nodiscard]] ReceiveQueue::Awaiter receive();

  /// Brings a queue pair from the error state back to ready (from ready it only drains). Requests that were flushed are
  /// not repeated. Throws FabricError for an end of a pair, which cannot be brought back.
  [[nodiscard]] Task<void> reconnect();

  [[nodiscard]] State state() const {
    reactor_->progress_is_read(this, false);
    return state_;
  }
  /// The error that led to the error state, or null.
  [[nodiscard]] const FabricError* error() const {
    reactor_->progress_is_read(this, false);
    return error_.get();
  }
  [[nodiscard]] const QueuePairOptions& options() const noexcept { return options_; }
  [[nodiscard]] Reactor& reactor() const noexcept { return *reactor_; }
  [[nodiscard]] Node& node() const noexcept { return *node_; }

  /// Number of requests ever posted; the first one has sequence number 1. In the explorer both are larger by a
  /// constant.
  [[nodiscard]] std::uint64_t posted() const {
    reactor_->tally_is_read();
    reactor_->progress_is_read(this, false);
    return posted_;
  }
  /// The highest number such that all requests up to it have completed or been flushed.
  [[nodiscard]] std::uint64_t completed() const {
    reactor_->tally_is_read();
    reactor_->progress_is_read(this, true);
    return completed_;
  }
  /// Requests that have been posted, and neither completed nor been flushed.
  [[nodiscard]] std::uint64_t outstanding() const {
    reactor_->progress_is_read(this, true);
    return posted_ - completed_;
  }
  /// The same for the library, which asks only whether a request is done, and never how many there were. A world that
  /// explores compares such numbers no more once their requests are done.
  [[nodiscard]] std::uint64_t posted_so_far() const noexcept { return posted_; }
  /// Whether the connection that the chain was posted to still lasts: what was posted happens.
  [[nodiscard]] bool carries(const Posting& posting) const noexcept {
    return state_ == State::ready && posting.last > posted_before_failure_;
  }
  /// The old value that atomic `number` has found, if it has completed, named no buffer, and no later request has taken
  /// its place in the send queue. For atomics whose waiting task was destroyed; worlds that explore do not tell it.
  [[nodiscard]] std::optional<std::uint64_t> result_of(std::uint64_t number) const noexcept;
  [[nodiscard]] std::uint64_t completed_so_far() const noexcept { return completed_; }
  [[nodiscard]] std::uint64_t outstanding_so_far() const noexcept { return posted_ - completed_; }

  /// Whether what the last post did may depend on how many requests had completed by then: it waits, or it is signalled
  /// because it has filled a queue. For worlds that explore.
  [[nodiscard]] bool is_short_of_room() const noexcept;
  /// The number of the last request for which somebody waits; 0 if nobody does. For worlds that explore.
  [[nodiscard]] std::uint64_t last_awaited() const noexcept;

  /// How often it has entered the error state. Unlike counters(), part of what a program may act on in every world.
  [[nodiscard]] std::uint64_t failures() const {
    reactor_->progress_is_read(this, false);
    return failures_;
  }
  [[nodiscard]] const Counters& counters() const {
    reactor_->tally_is_read();
    reactor_->progress_is_read(this, true);
    return counters_;
  }
  /// For schemes: counts an operation that had to begin again.
  void count_retry() noexcept { ++counters_.retries; }

  /// Waits in line for room in the send queue, or for a completion; lies in the awaiting coroutine's frame.
  class ChainAwaiter : public Waiter {
   public:
    enum class Until : std::uint8_t { posted, completed, reached };

    ChainAwaiter(QueuePair& qp, Until until, std::span<const WorkRequest> chain, std::span<std::uint64_t> old_values,
                 std::uint64_t sequence = 0) noexcept
        : qp_(&qp), chain_(chain), old_values_(old_values), last_(sequence), until_(until) {}

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> awaiter) {
      handle = awaiter;
      return qp_->start(*this);
    }
    void await_resume() const {
      if (error_ != nullptr) [[unlikely]] {
        throw FabricError(*error_);
      }
    }

   protected:
    friend class QueuePair;
    QueuePair* qp_;
    std::span<const WorkRequest> chain_;
    std::span<std::uint64_t> old_values_;
    Posting* posting_ = nullptr;
    std::uint64_t last_;  // sequence number of the chain's last request
    Until until_;
    std::shared_ptr<const FabricError> error_;
  };

 protected:
  QueuePair(Node& node, Reactor& reactor, const QueuePairOptions& options);

  /// Gives a chain to the NIC, with one doorbell: what each world implements. Every request was checked, and there is
  /// room for all. The first one has number `first`, the next ones follow. The span may be read until this returns.
  /// Must not post anything itself. A request that the NIC does not take is reported by on_refused(), later, because
  /// it counts as posted by now.
  virtual void post_chain(std::span<const CheckedRequest> chain, std::uint64_t first) = 0;
  /// Forgets every request in flight: from now on none touches local memory or is reported.
  virtual void cancel_in_flight() noexcept = 0;
  /// Makes the connection usable again after cancel_in_flight().
  virtual Task<void> restore_connection() = 0;

  /// The NIC reports: requests up to `sequence` have completed.
  void on_completed(std::uint64_t sequence);
  /// The NIC reports: requests before `sequence` have completed, `sequence` failed.
  void on_error(std::uint64_t sequence, Status status, std::string_view detail);
  /// The NIC reports, for an end of a pair: the connection has ended, but no request of this end caused it.
  void on_ended(const std::shared_ptr<const FabricError>& cause);
  /// The NIC's driver reports: `sequence` and all later requests were not taken. Of the earlier requests, only those
  /// reported so far are known to have completed.
  void on_refused(std::uint64_t sequence, Status status, std::string_view detail);
  /// For fabrics with two-sided messages: makes this the end of a pair. Call it before the first request.
  void make_two_sided();
  /// A request of this node has ended: regions that it alone still used end at the NIC, too. Completions and errors do
  /// this; a fabric calls it for receives.
  void end_unused_regions();
  /// The queue that the NIC fills; null if this is no end of a pair.
  [[nodiscard]] ReceiveQueue* receives() const noexcept { return receives_.get(); }
  /// Called when a receive buffer was posted.
  virtual void receive_posted(const LocalSpan& into) { (void)into; }
  /// Requests are counted from this number on, a multiple of the longest send queue. Call it before the first request.
  void count_from(std::uint64_t number) noexcept { posted_ = completed_ = last_signaled_ = number; }
  /// Requests posted since the last one whose completion will be reported.
  [[nodiscard]] std::uint64_t unsignaled() const noexcept { return posted_ - last_signaled_; }
  /// Whether a completion is due: the NIC has not yet reported one that it was asked for.
  [[nodiscard]] bool awaits_completion() const noexcept { return last_signaled_ > completed_; }
  /// Payload of all requests in flight.
  [[nodiscard]] std::uint64_t bytes_in_flight() const noexcept;
  /// For a world that compares states: appends bytes that say nothing beyond which requests are in flight, and what
  /// they found: counters, the records of requests, the results of atomics.
  void append_bookkeeping(std::vector<std::span<const std::byte>>& out) const;
  /// A derived class calls this first in its destructor.
  void disconnect() noexcept;
  /// Where the NIC puts the old value of atomic number `sequence` if the request names no buffer.
  [[nodiscard]] std::byte* result_slot(std::uint64_t sequence) noexcept {
    return results_ + (sequence & (options_.send_queue_depth - 1)) * 8;
  }
  /// For fabrics whose NIC writes results to registered memory only: 8 bytes for each entry of the send queue, and the
  /// key that the NIC knows them by.
  void use_results(std::byte* results, std::uint32_t nic_lkey) noexcept {
    results_ = results;
    results_lkey_ = nic_lkey;
  }
  /// For devices that give less than was asked for. Call it before the first request.
  void limit_inline(std::uint32_t bytes) noexcept { options_.max_inline = std::min(options_.max_inline, bytes); }
  void limit_rd_atomic(std::uint32_t most) noexcept { options_.max_rd_atomic = std::min(options_.max_rd_atomic, most); }

 private:
  friend class ChainAwaiter;
  friend class Node;
  friend class Reactor;

  struct CompletionQueueWaiter : Waiter {
    QueuePair* queue_pair = nullptr;
  };

  /// A record of a request in flight, to name it in errors and to know which regions are in use.
  struct InFlight {
    std::uint64_t remote;
    std::uint32_t length;
    std::uint32_t rkey;
    std::uint32_t lkey;
    Opcode opcode;
  };

  bool start(ChainAwaiter& awaiter);
  bool start_reach(ChainAwaiter& awaiter);
  [[noreturn]] static void refuse_places(const ChainAwaiter& awaiter);
  void join_line(ChainAwaiter& awaiter);
  void take_place();
  bool admit();
  void post_first_in_line();
  void check(const WorkRequest& request) const;
  static void check_length(const WorkRequest& request);
  void check_local(const WorkRequest& request, bool delivers) const;
  void check_chain(std::span<const WorkRequest> chain) const;
  [[noreturn]] void refuse(const WorkRequest& request) const;
  [[noreturn]] void refuse_length(std::size_t n) const;
  [[nodiscard]] bool send_queue_has_room(std::size_t n) const noexcept;
  [[nodiscard]] bool must_wait(std::size_t n) const noexcept;
  [[nodiscard]] std::size_t first_chain_length() const noexcept;
  bool post_for(ChainAwaiter& awaiter);
  void check_and_post(std::span<const WorkRequest> chain, bool signal_last);
  void make_ring();
  [[nodiscard]] std::uint64_t signal_interval() const noexcept;
  void signal_some(std::span<CheckedRequest> chain) noexcept;
  void collect_results(ChainAwaiter& awaiter, std::uint64_t sequence);
  void post_nudge();
  void wait_until_completed(ChainAwaiter& awaiter);
  void finish_chains(std::uint64_t sequence);
  void enter_error(std::uint64_t sequence, Status status, std::string_view detail);
  void fail_all(const std::shared_ptr<const FabricError>& cause, std::uint64_t failed);
  void throw_if_failed() const;
  void request_signal();
  [[nodiscard]] bool uses(LKey key) const noexcept;
  [[nodiscard]] InFlight& in_flight(std::uint64_t sequence) noexcept {
    return ring_[sequence & (options_.send_queue_depth - 1)];
  }

  Node* node_;
  std::size_t node_index_ = 0;
  Reactor* reactor_;
  QueuePairOptions options_;
  State state_ = State::ready;
  bool nudge_wanted_ =
      false;  // an empty request is to be posted, whose completion says that all before it have completed
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t last_signaled_ = 0;
  std::size_t longest_chain_;
  std::unique_ptr<InFlight[]> ring_;
  std::byte* results_ = nullptr;                  // of atomics without a buffer of their own, by place in ring_
  std::unique_ptr<std::uint64_t[]> own_results_;  // where the fabric gives no room for them
  std::uint32_t results_lkey_ = 0;
  WaitList pending_;  // ChainAwaiters by sequence number
  WaitList line_;     // ChainAwaiters that wait for room, in turn
  CompletionQueueWaiter cq_waiter_;
  std::shared_ptr<ReceiveQueue> receives_;  // of an end of a pair
  std::shared_ptr<const FabricError> error_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // tells others that this was destroyed
  std::uint64_t failures_ = 0;
  std::uint64_t posted_before_failure_ = 0;  // the last number before the latest one
  Counters counters_;
};

/// Awaits a chain of N requests; see QueuePair::submit.
template <std::size_t N>
class [[nodiscard]] QueuePair::Submit : public QueuePair::ChainAwaiter {
 public:
  template <std::same_as<WorkRequest>... Requests>
  Submit(QueuePair& qp, Until until, const Requests&... requests) noexcept
      : ChainAwaiter(qp, until, {}, {}), requests_{requests...} {
    chain_ = requests_;
    old_values_ = values_;
  }
  template <std::same_as<WorkRequest>... Requests>
  Submit(QueuePair& qp, Until until, Posting& posting, const Requests&... requests) noexcept
      : Submit(qp, until, requests...) {
    posting_ = &posting;
  }
  std::array<std::uint64_t, N> await_resume() const {
    ChainAwaiter::await_resume();
    return values_;
  }

 private:
  std::array<WorkRequest, N> requests_;
  std::array<std::uint64_t, N> values_{};
};

/// Awaits one request; an atomic's old value is its result.
class [[nodiscard]] QueuePair::One : public QueuePair::Submit<1> {
 public:
  One(QueuePair& qp, const WorkRequest& request) noexcept : Submit(qp, Until::completed, request) {}
  std::uint64_t await_resume() const { return Submit::await_resume()[0]; }
};

template <std::same_as<WorkRequest>... Requests>
QueuePair::Submit<sizeof...(Requests)> QueuePair::submit(const Requests&... requests) {
  return {*this, ChainAwaiter::Until::completed, requests...};
}

template <std::same_as<WorkRequest>... Requests>
QueuePair::Submit<sizeof...(Requests)> QueuePair::enqueue(const Requests&... requests) {
  return {*this, ChainAwaiter::Until::posted, requests...};
}

template <std::same_as<WorkRequest>... Requests>
QueuePair::Submit<sizeof...(Requests)> QueuePair::submit(Posting& posting, const Requests&... requests) {
  return {*this, ChainAwaiter::Until::completed, posting, requests...};
}

template <std::same_as<WorkRequest>... Requests>
QueuePair::Submit<sizeof...(Requests)> QueuePair::enqueue(Posting& posting, const Requests&... requests) {
  return {*this, ChainAwaiter::Until::posted, posting, requests...};
}

inline QueuePair::ChainAwaiter QueuePair::enqueue(std::span<const WorkRequest> chain) {
  return {*this, ChainAwaiter::Until::posted, chain, {}};
}

inline QueuePair::ChainAwaiter QueuePair::submit(std::span<const WorkRequest> chain,
                                                 std::span<std::uint64_t> old_values) {
  return {*this, ChainAwaiter::Until::completed, chain, old_values};
}

inline QueuePair::ChainAwaiter QueuePair::reach(std::uint64_t sequence) {
  return {*this, ChainAwaiter::Until::reached, {}, {}, sequence};
}

inline QueuePair::ChainAwaiter QueuePair::drain() { return reach(posted_); }

inline QueuePair::One QueuePair::read(const LocalSpan& into, const RemoteSpan& from) {
  return {*this, fabric::read(into, from)};
}
inline QueuePair::One QueuePair::write(const LocalSpan& from, const RemoteSpan& to) {
  return {*this, fabric::write(from, to)};
}
inline QueuePair::One QueuePair::compare_swap(const RemoteSpan& word, std::uint64_t expected, std::uint64_t desired) {
  return {*this, fabric::compare_swap(word, expected, desired)};
}
inline QueuePair::One QueuePair::fetch_add(const RemoteSpan& word, std::uint64_t addend) {
  return {*this, fabric::fetch_add(word, addend)};
}

}  // namespace sidelatch::fabric
