// BufferRing: registered buffers for requests that nobody waits for (asynchronous unlatching).
//
//   BufferRing ring(qp, 8, 256);
//   RingBuffer buffer = co_await ring.acquire();          // waits while all buffers are in flight
//   fill(buffer.span());
//   co_await qp.enqueue(write(buffer.span(), object), fetch_add(latch, -1));
//   // buffer goes out of scope: it is reused only after everything posted on qp up to here has completed
//
// The NIC fetches a WRITE's payload some time after the post, so a buffer refilled too early sends the wrong bytes
// (memory model: `fetch`; TODS 2025, section 3.3: one buffer per outstanding request, free again when a later
// completion of the same queue pair shows that the request is done). Dropping a RingBuffer is therefore always safe. Do
// not use it for a request on another queue pair, whose completions say nothing about this one.
//
// Thread-safety: belongs to its queue pair's thread. The queue pair must outlive the ring, the ring its buffers.
#pragma once

#include <sidelatch/fabric/queue_pair.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace sidelatch::fabric {

class BufferRing;

/// A buffer that belongs to the caller until the caller drops it. Move-only.
class RingBuffer {
 public:
  RingBuffer() noexcept = default;
  RingBuffer(RingBuffer&& other) noexcept
      : ring_(std::exchange(other.ring_, nullptr)), index_(other.index_), span_(other.span_) {}
  RingBuffer& operator=(RingBuffer&& other) noexcept {
    if (this != &other) {
      drop();
      ring_ = std::exchange(other.ring_, nullptr);
      index_ = other.index_;
      span_ = other.span_;
    }
    return *this;
  }
  RingBuffer(const RingBuffer&) = delete;
  RingBuffer& operator=(const RingBuffer&) = delete;
  ~RingBuffer() { drop(); }

  [[nodiscard]] bool valid() const noexcept { return ring_ != nullptr; }
  [[nodiscard]] LocalSpan span() const noexcept { return span_; }
  /// Gives the buffer back now; it is reused after everything posted on the ring's queue pair so far has completed.
  void drop() noexcept {
    if (ring_ != nullptr) {
      give_back();
    }
  }

 private:
  friend class BufferRing;
  void give_back() noexcept;
  RingBuffer(BufferRing* ring, std::uint32_t index, LocalSpan span) noexcept
      : ring_(ring), index_(index), span_(span) {}

  BufferRing* ring_ = nullptr;
  std::uint32_t index_ = 0;
  LocalSpan span_;
};

class BufferRing final : private Reactor::Spares {
 public:
  /// `count` buffers (at least 1) of `bytes` each (at least 1), registered at the queue pair's node, line-aligned.
  /// Throws std::invalid_argument for none, for empty ones and for too many bytes, and as Node::allocate().
  BufferRing(QueuePair& qp, std::uint32_t count, std::uint64_t bytes);
  BufferRing(const BufferRing&) = delete;
  BufferRing& operator=(const BufferRing&) = delete;
  ~BufferRing() override { qp_->reactor().forget_spares(*this); }

  /// The buffer that has been free the longest; waits until there is one. Throws FabricError if the queue pair fails.
  [[nodiscard]] Task<RingBuffer> acquire();
  /// The same without waiting: an empty RingBuffer if none is free now.
  [[nodiscard]] RingBuffer try_acquire() {
    RingBuffer buffer = begin_acquire();
    if (!buffer.valid() && held_ < count_) [[unlikely]] {
      qp_->reactor().progress_is_read(qp_, true);
    }
    return buffer;
  }
  /// The same for the library, which waits if it gets none.
  [[nodiscard]] RingBuffer begin_acquire() noexcept {
    if (held_ == count_) {
      return {};
    }
    const std::uint32_t index = oldest_free();
    if (free_after_[index] > qp_->completed_so_far()) {
      return {};
    }
    ++held_;
    if (is_explored_) [[unlikely]] {
      overwrite(index);
    }
    first_free_ = first_free_ + 1 == count_ ? 0 : first_free_ + 1;
    return {this, index, {memory_.bytes().data() + index * stride_, bytes_, memory_.lkey()}};
  }

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t buffer_bytes() const noexcept { return bytes_; }
  /// Buffers that callers have not dropped yet.
  [[nodiscard]] std::uint32_t held() const noexcept { return held_; }
  /// Buffers that could be acquired now without waiting.
  [[nodiscard]] std::uint32_t available() const;

 private:
  friend class RingBuffer;
  class Returned;

  void give_back(std::uint32_t index) noexcept;
  void overwrite(std::uint32_t index) const noexcept;
  void append_to(std::vector<std::span<const std::byte>>& out) const override;

  QueuePair* qp_;
  std::uint64_t bytes_;
  std::uint64_t stride_;
  MemoryRegion memory_;
  [[nodiscard]] std::uint32_t oldest_free() const noexcept { return free_[first_free_]; }

  std::uint32_t count_;
  std::vector<std::uint64_t> free_after_;  // request number of the queue pair that must have completed, by buffer
  std::vector<std::uint32_t> free_;  // buffers that are not held, in the order in which they were given back: a circle
  std::uint32_t first_free_ = 0;
  std::uint32_t held_ = 0;
  bool is_explored_;
  WaitList holders_gone_;  // acquirers that wait for a held buffer to be dropped
};

}  // namespace sidelatch::fabric
