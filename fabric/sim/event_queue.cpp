#include "event_queue.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace sidelatch::fabric::sim {

void EventQueue::insert_due(const Event& event) {
  // Few events are due at a time, and a new one is usually among the last: search from the far end.
  auto place = due_.begin();
  while (place != due_.end() && place->time > event.time) {
    ++place;
  }
  due_.insert(place, event);
}

void EventQueue::add_to_heap(const Event& event) {
  heap_.push_back({event, inserted_++});
  std::ranges::push_heap(heap_, Later{});
}

// The next bucket in use after the due one; the wheel must not be empty.
std::int64_t EventQueue::next_used_bucket() const {
  const std::size_t start = slot_of(due_bucket_ + 1);
  std::size_t word = start / 64;
  std::uint64_t bits = used_[word] & (~std::uint64_t{0} << (start % 64));
  while (bits == 0) {
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
    const std::int64_t bucket = event.time >> kBucketBits;
    if (bucket <= due_bucket_) {
      insert_due(event);
    } else {
      add_to_wheel(event, bucket);
    }
  }
}

void EventQueue::empty_bucket(std::int64_t bucket) {
  const std::size_t slot = slot_of(bucket);
  used_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  // The list has the latest insertion first, the order that due_ needs for equal times, so a stable sort by time is
  // enough. Sorting by insertion costs little for the few events of 16 ns.
  constexpr std::size_t kFew = 24;
  std::uint32_t node = heads_[slot];
  heads_[slot] = kNone;
  while (node != kNone) {
    const Event event = nodes_[node].event;
    const std::uint32_t next = nodes_[node].next;
    nodes_[node].next = free_;
    free_ = node;
    node = next;
    --in_wheel_;
    due_.push_back(event);
    std::size_t i = due_.size() - 1;
    for (; i > 0 && i < kFew && due_[i - 1].time < event.time; --i) {
      due_[i] = due_[i - 1];
    }
    due_[i] = event;
  }
  if (due_.size() > kFew) {
    std::ranges::stable_sort(due_, std::greater<>{}, &Event::time);
  }
}

bool EventQueue::load_due() {
  while (due_.empty()) {
    if (in_wheel_ != 0) {
      due_bucket_ = next_used_bucket();
      empty_bucket(due_bucket_);
    } else if (!heap_.empty()) {
      due_bucket_ = heap_.front().event.time >> kBucketBits;
    } else {
      return false;
    }
    move_from_heap();
  }
  return true;
}

}  // namespace sidelatch::fabric::sim
