#include "device.h"

#include "queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sidelatch::softnic::nic {

void Device::wake(QueuePair& queue_pair) noexcept {
  if (queue_pair.is_awake) {
    return;
  }
  queue_pair.is_awake = true;
  queue_pair.next_awake = nullptr;
  (last_awake_ == nullptr ? first_awake_ : last_awake_->next_awake) = &queue_pair;
  last_awake_ = &queue_pair;
}

QueuePair* Device::next_awake() noexcept {
  QueuePair* const first = first_awake_;
  if (first != nullptr) {
    first->is_awake = false;
    first_awake_ = std::exchange(first->next_awake, nullptr);
    if (first_awake_ == nullptr) {
      last_awake_ = nullptr;
    }
  }
  return first;
}

void Device::wait_for_memory(QueuePair& queue_pair) {
  if (!std::exchange(queue_pair.waits_for_memory, true)) {
    waiting_.push_back(&queue_pair);
  }
}

void Device::poll_waiting() {
  // Polling may add others, or the same queue pair again, at the end.
  const std::size_t count = waiting_.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    QueuePair* const queue_pair = waiting_[i];
    queue_pair->poll();
    if (queue_pair->needs_memory()) {
      waiting_[kept++] = queue_pair;
    } else {
      queue_pair->waits_for_memory = false;
    }
  }
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(kept),
                 waiting_.begin() + static_cast<std::ptrdiff_t>(count));
}

void Device::forget(QueuePair& queue_pair) noexcept {
  std::erase(waiting_, &queue_pair);
  queue_pair.waits_for_memory = false;
  if (!queue_pair.is_awake) {
    return;
  }
  QueuePair* before = nullptr;
  QueuePair* found = first_awake_;
  while (found != &queue_pair) {
    before = std::exchange(found, found->next_awake);
  }
  (before == nullptr ? first_awake_ : before->next_awake) = queue_pair.next_awake;
  if (last_awake_ == &queue_pair) {
    last_awake_ = before;
  }
  queue_pair.is_awake = false;
}

std::string Device::describe_gone(const std::byte* gone) const {
  constexpr std::uintptr_t kPageBytes = 4096;
  return fmt::format(
      "the page at {:#x} of the region with the key {:#x} may not be touched any more: deregister memory before you "
      "unmap it, protect it or truncate its file",
      reinterpret_cast<std::uintptr_t>(gone) / kPageBytes * kPageBytes, table.key_of(gone));
}

Sample& Device::take_sample() {
  if (free_samples_.empty()) {
    samples_.push_back(std::make_unique<Sample>());
    free_samples_.push_back(samples_.back().get());
  }
  Sample& sample = *free_samples_.back();
  free_samples_.pop_back();
  sample.begin();
  return sample;
}

}  // namespace sidelatch::softnic::nic
