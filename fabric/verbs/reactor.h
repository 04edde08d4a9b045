// VerbsReactor: polls the completion queue of a fabric and resumes the tasks that wait.
#pragma once

#include "errands.h"
#include "port.h"

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/reactor.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {

class VerbsQueuePair;

class VerbsReactor;

/// The processor of this process. The reactor looks at the words that its tasks wait for each time it polls.
class VerbsCpu final : public DirectCpu {
 public:
  VerbsCpu(Node& node, VerbsReactor& reactor) noexcept;

 protected:
  void wait_begins(const LocalSpan& word) override;
  void wait_ends() noexcept override;

 private:
  VerbsReactor* reactor_;
  bool is_watched_ = false;  // also while the last task that waited has not gone on yet
};

class VerbsReactor final : public Reactor {
 public:
  explicit VerbsReactor(const Port& port);
  VerbsReactor(const VerbsReactor&) = delete;
  VerbsReactor& operator=(const VerbsReactor&) = delete;
  ~VerbsReactor() override { destroy_spawned(); }

  [[nodiscard]] Time now() const override;

  [[nodiscard]] ibv_cq* completions() const noexcept { return completions_.get(); }
  /// A request in the NIC's form. It is linked to the next one and to its buffer.
  struct Posting {
    ibv_send_wr request;
    ibv_sge buffer;
  };
  /// Room for a chain of any queue pair and one request more, in a row. Read by the provider before ibv_post_send()
  /// returns, so one serves all queue pairs.
  [[nodiscard]] Posting* posting() noexcept { return posting_.data(); }
  /// A queue pair will post chains of up to `n` requests.
  void make_posting_room(std::size_t n);

  /// Assigns a place in the table of queue pairs; completions carry it.
  [[nodiscard]] std::uint32_t attach(VerbsQueuePair& queue_pair);
  void detach(std::uint32_t place) noexcept;
  /// A queue pair has forgotten so many requests. Their completions may take room in the queue until the next poll.
  void forget_completions(std::uint64_t requests) noexcept { forgotten_ += requests; }
  /// The start of the identifiers of a connection's requests: the place, and the connection's own number there.
  /// Completions of an earlier connection, even of another queue pair, may still lie in the completion queue.
  [[nodiscard]] std::uint64_t new_mark(std::uint32_t place) noexcept;
  /// Where errands end whose tasks are this reactor's.
  [[nodiscard]] const std::shared_ptr<Mailbox>& mailbox() const noexcept { return mailbox_; }
  /// Waits until the errand has ended; other tasks go on.
  class ErrandAwaiter : public Waiter {
   public:
    ErrandAwaiter(VerbsReactor& reactor, std::shared_ptr<Errand> errand)
        : reactor_(&reactor), errand_(std::move(errand)) {}
    ErrandAwaiter(const ErrandAwaiter&) = delete;
    ErrandAwaiter& operator=(const ErrandAwaiter&) = delete;
    ~ErrandAwaiter() { reactor_->errands_awaited_ -= waits_ ? 1U : 0U; }
    [[nodiscard]] bool await_ready() const noexcept { return errand_->is_done; }
    void await_suspend(std::coroutine_handle<> awaiter) {
      handle = awaiter;
      errand_->waiters.push_back(*this);
      ++reactor_->errands_awaited_;
      waits_ = true;
    }
    void await_resume() const { errand_->get(); }

   private:
    VerbsReactor* reactor_;
    std::shared_ptr<Errand> errand_;
    bool waits_ = false;
  };
  [[nodiscard]] ErrandAwaiter wait_for(std::shared_ptr<Errand> errand) { return {*this, std::move(errand)}; }

  /// Remembers that `queue_pair` could not post; it reports that later, when nobody is in the middle of posting.
  void report_later(VerbsQueuePair& queue_pair) { refused_.push_back(&queue_pair); }

  /// The NIC has flushed receives of `queue_pair`. If a request of that end has failed, its completion lies in the
  /// queue by now, so the receives are closed after the next look there.
  void look_for_cause_later(VerbsQueuePair& queue_pair) { flushed_.push_back(&queue_pair); }

  /// Tasks wait for words of that node's memory, or no longer.
  void watch(VerbsCpu& cpu) { watching_.push_back(&cpu); }
  void unwatch(VerbsCpu& cpu) noexcept { std::erase(watching_, &cpu); }
  /// How many looks at words each poll takes.
  [[nodiscard]] std::size_t watched() const noexcept { return watching_.size(); }

  /// A completion queue with room for `depth` receives. Throws DeviceError if the device has none.
  [[nodiscard]] ReceiveSide reserve_receives(std::uint32_t depth);
  /// Gives the room back; the queue pair is destroyed.
  void release_receives(const ReceiveSide& receives) noexcept;
  /// Delivers what has arrived so far, before a queue pair ends. Does nothing within the delivery of receives, which go
  /// in their order.
  void take_receives(const ReceiveSide& receives) noexcept;

 protected:
  bool advance(std::optional<Time> limit) override;
  std::uint64_t start_timer(Duration duration, Waiter& waiter) override;
  void cancel_timer(std::uint64_t timer) noexcept override;

 private:
  struct Timer {
    Time due;
    std::uint64_t number;
    Waiter* waiter;
  };
  // The earliest timer is at the front of a heap.
  static bool later(const Timer& a, const Timer& b) { return a.due != b.due ? a.due > b.due : a.number > b.number; }

  void poll();
  void poll_receives(ibv_cq* completions);
  /// Gives each completion to its queue pair, if that still exists.
  template <void (VerbsQueuePair::*Give)(const ibv_wc&)>
  void poll(ibv_cq* completions);
  [[nodiscard]] bool awaits_message() const noexcept;
  void fire_timers();
  void report_refused();
  void close_flushed();
  void take_mail();
  void look_around();
  void look_for_stalled();

  const Port* port_;
  CompletionQueue completions_;
  // Receives have completion queues of their own: how many are posted is not bounded by the requests in flight.
  struct ReceiveCompletions {
    CompletionQueue queue;
    std::uint32_t free;  // entries that belong to no queue pair
  };
  std::vector<ReceiveCompletions> receive_completions_;
  std::chrono::steady_clock::time_point began_;
  struct Place {
    VerbsQueuePair* queue_pair = nullptr;
    std::uint32_t connections = 0;  // connections that began here
    std::uint64_t completed = 0;    // requests completed by its queue pair at the last look
    Duration stalled{};             // how long a completion has been due since then
  };
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_places_;
  std::vector<VerbsQueuePair*> refused_;
  std::vector<VerbsQueuePair*> flushed_;
  std::vector<VerbsCpu*> watching_;
  std::vector<Posting> posting_;
  std::vector<Timer> timers_;
  std::uint64_t next_timer_ = 1;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::uint32_t errands_awaited_ = 0;
  bool delivers_receives_ = false;
  std::uint64_t forgotten_ = 0;  // since detach() has polled last
  std::uint32_t idle_polls_ = 0;
  std::uint32_t polls_until_look_;
  Duration longest_stall_;
  Time last_look_{};
};

}  // namespace sidelatch::fabric::verbs
