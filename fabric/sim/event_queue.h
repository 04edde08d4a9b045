// The simulator's agenda: events by time, and by order of insertion if times are equal.
//
// It is a timing wheel: an event within the next 67 us goes into one of 8192 buckets of 8 ns, a later event into a
// heap, from which it moves to the wheel when its time comes near. A bucket is a list in order, and few events share
// one. With hundreds of NIC operations in flight a push and a pop cost some 80 instructions together, and the order is
// the same on every machine.
#pragma once

#include <sidelatch/fabric/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace sidelatch::fabric::sim {

class EventQueue {
 public:
  struct Event {
    std::int64_t time;       // picoseconds
    std::uintptr_t payload;  // its meaning is up to the queue's user
  };

  /// `time` must not lie before the last event popped.
  void push(Time time, std::uintptr_t payload) {
    const std::int64_t bucket = time.count() >> kBucketBits;
    if (bucket < due_bucket_ + kBuckets) [[likely]] {
      add_to_wheel(time.count(), payload, std::max(bucket, due_bucket_));
    } else {
      add_to_heap({time.count(), payload});
    }
  }
  /// Makes the next event accessible; false if there is none.
  [[nodiscard]] bool prepare() { return first_[due_slot_] != nullptr || find_due(); }
  /// Time of the next event; prepare() must have returned true.
  [[nodiscard]] Time next_time() const { return Time{first_[due_slot_]->event.time}; }
  /// Removes the next event; prepare() must have returned true.
  Event pop() {
    Node* const node = first_[due_slot_];
    Node* const next = node->after;
    if (next == nullptr) {
      mark_unused(due_slot_);
    } else {
      next->before = node->before;
    }
    first_[due_slot_] = next;
    node->after = free_;
    free_ = node;
    return node->event;
  }

 private:
  static constexpr unsigned kBucketBits = 13;  // 2^13 ps = 8.192 ns
  static constexpr std::int64_t kBuckets = 8192;
  static constexpr std::size_t slot_of(std::int64_t bucket) { return static_cast<std::size_t>(bucket) % kBuckets; }

  // An event in the wheel, in the list of its bucket. Nodes are kept for reuse.
  struct Node {
    Event event;
    Node* before;  // of the first one: the last one
    Node* after;   // of the last one: null
  };
  // The heap loses the order of insertion, so its events carry it. In the wheel the lists keep that order: an event
  // leaves the heap before another can be pushed into its bucket.
  struct Far {
    Event event;
    std::uint64_t order;
  };
  struct Later {
    bool operator()(const Far& a, const Far& b) const {
      return a.event.time != b.event.time ? a.event.time > b.event.time : a.order > b.order;
    }
  };

  // Not an Event: the compiler would put its halves on the stack and load them as one. Such a load waits until all
  // stores before it have left the store buffer.
  void add_to_wheel(std::int64_t time, std::uintptr_t payload, std::int64_t bucket) {
    if (free_ == nullptr) [[unlikely]] {
      make_nodes();
    }
    Node* const node = free_;
    free_ = node->after;
    node->event.time = time;
    node->event.payload = payload;
    const std::size_t slot = slot_of(bucket);
    Node* const first = first_[slot];
    if (first == nullptr) {
      node->before = node;
      node->after = nullptr;
      first_[slot] = node;
      mark_used(slot);
      return;
    }
    // A new event is usually among the last, and it comes after all that have its time: search from the far end.
    Node* before = first->before;
    Node* after = nullptr;
    while (before->event.time > time) {
      after = before;
      before = before->before;
      if (after == first) {
        first_[slot] = node;
        break;
      }
    }
    node->before = before;
    node->after = after;
    (after == nullptr ? first : after)->before = node;
    if (after != first) {
      before->after = node;
    }
  }
  void mark_used(std::size_t slot) { used_[slot / 64] |= std::uint64_t{1} << (slot % 64); }
  void mark_unused(std::size_t slot) { used_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64)); }
  void make_nodes();
  void add_to_heap(const Event& event);
  bool find_due();
  void move_from_heap();
  [[nodiscard]] std::int64_t next_used_bucket() const;

  std::int64_t due_bucket_ = 0;          // that of the next event, or one before it
  std::size_t due_slot_ = 0;             // slot_of(due_bucket_)
  std::array<Node*, kBuckets> first_{};  // the list of a bucket; the due one's may also have events of earlier times
  std::array<std::uint64_t, kBuckets / 64> used_{};
  std::vector<std::unique_ptr<Node[]>> nodes_;
  Node* free_ = nullptr;
  std::vector<Far> heap_;
  std::uint64_t inserted_ = 0;
};

}  // namespace sidelatch::fabric::sim
