#include <sidelatch/fabric/receive_queue.h>

#include <sidelatch/fabric/reactor.h>

#include <algorithm>
#include <stdexcept>

namespace sidelatch::fabric {

void ReceiveQueue::post(const LocalSpan& buffer) {
  if (!has_room() || error_ != nullptr) {
    throw std::logic_error("a receive buffer was posted to a queue that is full or closed");
  }
  if (ring_.empty()) {
    ring_.resize(depth_);
  }
  at(++posted_) = {buffer, {}};
}

void ReceiveQueue::fill(const Arrival& arrival) {
  at(++filled_).arrival = arrival;
  wake_one();
}

void ReceiveQueue::close(std::shared_ptr<const FabricError> error) {
  if (error_ != nullptr) {
    return;
  }
  error_ = std::move(error);
  while (!waiting_.empty()) {
    wake_one();
  }
}

void ReceiveQueue::wake_one() {
  if (!waiting_.empty()) {
    auto& awaiter = static_cast<Awaiter&>(waiting_.front());
    awaiter.woken_ = true;
    ++woken_;
    reactor_->ready(awaiter);
  }
}

// A task was destroyed after it was woken: give its message to the next task.
void ReceiveQueue::wake_instead() {
  --woken_;
  if (filled_ - handed_ > woken_) {
    wake_one();
  }
}

Received ReceiveQueue::hand_out(bool was_woken) {
  if (was_woken) {
    --woken_;
  }
  if (handed_ == filled_) {
    throw FabricError(*error_);
  }
  const Place& place = at(++handed_);
  const Arrival& arrival = place.arrival;
  Received received{.number = handed_, .message = place.buffer, .immediate = arrival.immediate};
  received.message.length = arrival.is_write ? 0 : arrival.bytes;
  received.is_write = arrival.is_write;
  received.written = arrival.is_write ? arrival.bytes : 0;
  return received;
}

bool ReceiveQueue::uses(LKey key) const noexcept {
  if (error_ != nullptr) {
    return false;
  }
  for (std::uint64_t number = filled_ + 1; number <= posted_; ++number) {
    if (ring_[number % depth_].buffer.lkey == key) {
      return true;
    }
  }
  return false;
}

}  // namespace sidelatch::fabric
