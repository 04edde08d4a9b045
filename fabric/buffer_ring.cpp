#include <sidelatch/fabric/buffer_ring.h>

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <stdexcept>

namespace sidelatch::fabric {

// Waits until some holder drops its buffer.
class BufferRing::Returned : public Waiter {
 public:
  explicit Returned(BufferRing& ring) noexcept : ring_(&ring) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle = awaiter;
    ring_->holders_gone_.push_back(*this);
  }
  void await_resume() const noexcept {}

 private:
  BufferRing* ring_;
};

namespace {

constexpr std::uint64_t kMostBytes = 1ULL << 48;  // more than any address space, and sums below cannot overflow

std::uint64_t checked_stride(std::uint32_t count, std::uint64_t bytes) {
  if (count == 0 || bytes == 0) {
    throw std::invalid_argument(
        fmt::format("a BufferRing of {} buffers of {} bytes: both must be at least 1", count, bytes));
  }
  if (bytes > kMostBytes / count) {
    throw std::invalid_argument(fmt::format("a BufferRing of {} buffers of {} bytes: all together must be at most {}",
                                            count, bytes, kMostBytes));
  }
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

}  // namespace

BufferRing::BufferRing(QueuePair& qp, std::uint32_t count, std::uint64_t bytes)
    : qp_(&qp),
      bytes_(bytes),
      stride_(checked_stride(count, bytes)),
      memory_(qp.node().allocate(stride_ * count, Access::local_write)),
      count_(count),
      free_after_(count),
      free_(count),
      is_explored_(qp.reactor().explores()) {
  std::iota(free_.begin(), free_.end(), 0U);
  qp.reactor().keep_out_of_state(*this);
}

// What earlier holders have left in a buffer is nobody's knowledge (append_to()) only if nobody can look at it.
void BufferRing::overwrite(std::uint32_t index) const noexcept {
  std::memset(memory_.bytes().data() + index * stride_, 0xa5, bytes_);
}

void BufferRing::append_to(std::vector<std::span<const std::byte>>& out) const {
  out.push_back(std::as_bytes(std::span(free_after_)));
  out.push_back(std::as_bytes(std::span(free_)));
  out.push_back(std::as_bytes(std::span(&first_free_, 1)));
  for (std::uint32_t i = 0; i < count_ - held_; ++i) {
    out.emplace_back(memory_.bytes().subspan(free_[(first_free_ + i) % count_] * stride_, bytes_));
  }
}

std::uint32_t BufferRing::available() const {
  qp_->reactor().progress_is_read(qp_, true);
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < count_ - held_; ++i) {
    n += free_after_[free_[(first_free_ + i) % count_]] <= qp_->completed_so_far() ? 1U : 0U;
  }
  return n;
}

Task<RingBuffer> BufferRing::acquire() {
  for (;;) {
    RingBuffer buffer = begin_acquire();
    if (buffer.valid()) {
      co_return buffer;
    }
    if (held_ < count_) {
      co_await qp_->reach(free_after_[oldest_free()]);
    } else {
      co_await Returned(*this);
    }
  }
}

void BufferRing::give_back(std::uint32_t index) noexcept {
  free_after_[index] = qp_->posted_so_far();
  const std::uint32_t behind_the_free = first_free_ + (count_ - held_);
  free_[behind_the_free >= count_ ? behind_the_free - count_ : behind_the_free] = index;
  --held_;
  // Wake all waiters: the first may be destroyed, or get an error, before it takes the buffer.
  while (!holders_gone_.empty()) {
    qp_->reactor().ready(holders_gone_.front());
  }
}

void RingBuffer::give_back() noexcept {
  ring_->give_back(index_);
  ring_ = nullptr;
}

}  // namespace sidelatch::fabric
