#include "event_queue.h"

#include <bit>

namespace sidelatch::fabric::sim {

void EventQueue::make_nodes() {
  constexpr std::size_t kAtATime = 64;
  nodes_.push_back(std::make_unique<Node[]>(kAtATime));
  for (std::size_t i = 0; i < kAtATime; ++i) {
    nodes_.back()[i].after = free_;
    free_ = &nodes_.back()[i];
  }
}

void EventQueue::add_to_heap(const Event& event) {
  heap_.push_back({event, inserted_++});
  std::ranges::push_heap(heap_, Later{});
}

// The next bucket in use after the due one, or the due one if there is none.
std::int64_t EventQueue::next_used_bucket() const {
  const std::size_t start = slot_of(due_bucket_ + 1);
  std::size_t word = start / 64;
  std::uint64_t bits = used_[word] & (~std::uint64_t{0} << (start % 64));
  for (std::size_t seen = 0; bits == 0; ++seen) {
    if (seen == used_.size()) {
      return due_bucket_;
    }
    word = (word + 1) % used_.size();
    bits = used_[word];
  }
  const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  const std::size_t ahead = (slot + kBuckets - start) % kBuckets;
  return due_bucket_ + 1 + static_cast<std::int64_t>(ahead);
}

void EventQueue::move_from_heap() {
  while (!heap_.empty() && (heap_.front().event.time >> kBucketBits) < due_bucket_ + kBuckets) {
    std::ranges::pop_heap(heap_, Later{});
    const Event event = heap_.back().event;
    heap_.pop_back();
    add_to_wheel(event.time, event.payload, std::max(event.time >> kBucketBits, due_bucket_));
  }
}

// The due bucket is empty.
bool EventQueue::find_due() {
  const std::int64_t next = next_used_bucket();
  if (next != due_bucket_) {
    due_bucket_ = next;
  } else if (!heap_.empty()) {
    due_bucket_ = heap_.front().event.time >> kBucketBits;
  } else {
    return false;
  }
  due_slot_ = slot_of(due_bucket_);
  if (!heap_.empty()) {
    move_from_heap();
  }
  return true;
}

}  // namespace sidelatch::fabric::sim
