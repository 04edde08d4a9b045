// ReceiveQueue: the buffers that one end of a connected pair of queue pairs has posted for its peer's SENDs, and the
// messages that have arrived in them. Programs use it through QueuePair::post_receive() and receive().
//
// A buffer is posted, taken by the NIC for the next SEND, filled, and handed to a waiting task, always in posting
// order. There is room for `depth` buffers. A buffer is free again when receive() has returned its message, so the
// completions of receives cannot overrun either.
//
// Guarantees: each message is handed out once; a task destroyed while it waits loses no message; a buffer is not
// touched after its message was returned, nor after the queue was closed.
//
// Thread-safety: belongs to its reactor's thread.
#pragma once

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/fabric/wait_list.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sidelatch::fabric {

class Reactor;

/// A message of the peer.
struct Received {
  std::uint64_t number = 0;  ///< of its receive buffer: 1 for the first that was posted
  LocalSpan message;         ///< the beginning of that buffer, as many bytes as were sent; none of a WRITE
  std::optional<std::uint32_t> immediate = {};  ///< of a SEND or WRITE with immediate
  bool is_write = false;                        ///< a WRITE with immediate: its payload is where the peer has put it
  std::uint64_t written = 0;                    ///< length of that payload
};

class ReceiveQueue {
 public:
  ReceiveQueue(Reactor& reactor, std::uint32_t depth) : reactor_(&reactor), depth_(depth) {}

  /// The awaiter of a waiting task; lies in the task's frame.
  class [[nodiscard]] Awaiter : public Waiter {
   public:
    explicit Awaiter(std::shared_ptr<ReceiveQueue> queue) noexcept : queue_(std::move(queue)) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    ~Awaiter() {
      if (woken_) {
        queue_->wake_instead();
      }
    }
    [[nodiscard]] bool await_ready() const noexcept { return queue_->answers_at_once(); }
    void await_suspend(std::coroutine_handle<> awaiter) noexcept {
      handle = awaiter;
      queue_->waiting_.push_back(*this);
    }
    /// Throws the FabricError that ended the queue, once all messages received before it have been handed out.
    Received await_resume() { return queue_->hand_out(std::exchange(woken_, false)); }

   private:
    friend class ReceiveQueue;
    std::shared_ptr<ReceiveQueue> queue_;  // the queue pair may be destroyed before this is resumed
    bool woken_ = false;                   // a message, or the end, is kept for this task
  };

  // For the queue pair.
  [[nodiscard]] bool has_room() const noexcept { return posted_ - handed_ < depth_; }
  /// There must be room, and the queue must be open.
  void post(const LocalSpan& buffer);
  /// Nothing arrives any more: waiting tasks get `error`. Only the first call counts.
  void close(std::shared_ptr<const FabricError> error);
  /// Why the queue was closed, or null.
  [[nodiscard]] const FabricError* error() const noexcept { return error_.get(); }
  /// Whether the NIC may still write into buffers of that region.
  [[nodiscard]] bool uses(LKey key) const noexcept;

  // For the NIC.
  [[nodiscard]] bool has_buffer() const noexcept { return taken_ < posted_ && error_ == nullptr; }
  /// The buffer for the next message; there must be one.
  [[nodiscard]] LocalSpan take_buffer() noexcept { return at(++taken_).buffer; }
  /// What the NIC tells of a message.
  struct Arrival {
    std::uint64_t bytes = 0;  ///< of the payload
    std::optional<std::uint32_t> immediate = {};
    bool is_write = false;
  };
  /// The oldest buffer that was taken but not filled now holds a message.
  void fill(const Arrival& arrival);
  /// Buffers that were posted and not filled.
  [[nodiscard]] std::uint64_t unfilled() const noexcept { return posted_ - filled_; }
  /// The oldest of them; there must be one.
  [[nodiscard]] const LocalSpan& oldest_unfilled() noexcept { return at(filled_ + 1).buffer; }
  /// Messages that no task has been handed yet.
  [[nodiscard]] std::uint64_t unread() const noexcept { return filled_ - handed_; }
  /// Whether a task waits for a message.
  [[nodiscard]] bool is_awaited() const noexcept { return !waiting_.empty(); }

 private:
  struct Place {
    LocalSpan buffer;
    Arrival arrival;  // once it is filled
  };
  [[nodiscard]] Place& at(std::uint64_t number) noexcept { return ring_[number % depth_]; }
  [[nodiscard]] bool answers_at_once() const noexcept { return filled_ - handed_ > woken_ || error_ != nullptr; }
  [[nodiscard]] Received hand_out(bool was_woken);
  void wake_one();
  void wake_instead();

  Reactor* reactor_;
  std::uint32_t depth_;
  std::vector<Place> ring_;  // by number
  // Numbers of the last buffer that was posted, taken by the NIC, filled, and handed to a task.
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t handed_ = 0;
  std::uint64_t woken_ = 0;  // tasks that are about to resume
  WaitList waiting_;
  std::shared_ptr<const FabricError> error_;
};

}  // namespace sidelatch::fabric
