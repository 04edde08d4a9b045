#include "completion_queue.h"

#include "receive_queue.h"
#include "send_queue.h"

#include <algorithm>
#include <utility>

namespace sidelatch::softnic::nic {

std::size_t CompletionQueue::poll(std::span<Completion> into) noexcept {
  const std::size_t count = std::min(size_, into.size());
  for (Completion& completion : into.first(count)) {
    completion = ring_[first_].completion;
    free(ring_[first_].held);
    first_ = first_ + 1 == ring_.size() ? 0 : first_ + 1;
  }
  size_ -= count;
  return count;
}

void CompletionQueue::free(const HeldEntry& held) noexcept {
  if (held.sends != nullptr) {
    held.sends->retire(held.number);
  }
  if (held.receives != nullptr) {
    held.receives->retire();
  }
}

void CompletionQueue::arm(Arm arm) noexcept { arm_ = std::max(arm_, arm); }

bool CompletionQueue::take_notification() noexcept { return std::exchange(has_notification_, false); }

bool CompletionQueue::add(const Completion& completion, bool is_solicited, const HeldEntry& held) noexcept {
  if (has_overrun_ || size_ == ring_.size()) {
    has_overrun_ = true;
    return false;
  }
  ring_[(first_ + size_) % ring_.size()] = {completion, held};
  ++size_;
  const bool is_wanted =
      arm_ == Arm::any || (arm_ == Arm::solicited && (is_solicited || completion.status != CompletionStatus::success));
  if (is_wanted) {
    arm_ = Arm::none;
    has_notification_ = true;
  }
  return true;
}

void CompletionQueue::forget(std::uint32_t queue_pair) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const Entry& entry = ring_[(first_ + i) % ring_.size()];
    if (entry.completion.queue_pair != queue_pair) {
      ring_[(first_ + kept++) % ring_.size()] = entry;
    } else {
      free(entry.held);
    }
  }
  size_ = kept;
}

void CompletionQueue::forget(const ReceiveQueue& queue) noexcept {
  for (std::size_t i = 0; i < size_; ++i) {
    HeldEntry& held = ring_[(first_ + i) % ring_.size()].held;
    if (held.receives == &queue) {
      held.receives = nullptr;
    }
  }
}

void CompletionQueue::resize(std::uint32_t depth) {
  std::vector<Entry> ring(depth);
  for (std::size_t i = 0; i < size_; ++i) {
    ring[i] = ring_[(first_ + i) % ring_.size()];
  }
  ring_ = std::move(ring);
  first_ = 0;
}

}  // namespace sidelatch::softnic::nic
