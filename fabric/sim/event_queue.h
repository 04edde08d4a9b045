// The simulator's agenda: events by time, and by order of insertion if times are equal.
//
// It is a timing wheel: an event within the next 67 us goes into one of 4096 buckets of 16 ns, a later event into a
// heap, from which it moves to the wheel when its time comes near. Only the due bucket is sorted. With hundreds of NIC
// operations in flight a push and a pop cost some 20 ns together, and the order is the same on every machine.
#pragma once

#include <sidelatch/fabric/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace sidelatch::fabric::sim {

class EventQueue {
 public:
  struct Event {
    std::int64_t time;       // picoseconds
    std::uintptr_t payload;  // its meaning is up to the queue's user
  };

  EventQueue() { heads_.fill(kNone); }

  /// `time` must not lie before the last event popped.
  void push(Time time, std::uintptr_t payload) {
    const Event event{time.count(), payload};
    const std::int64_t bucket = event.time >> kBucketBits;
    if (bucket <= due_bucket_) {
      insert_due(event);
    } else if (bucket < due_bucket_ + kBuckets) {
      add_to_wheel(event, bucket);
    } else {
      add_to_heap(event);
    }
  }
  /// Makes the next event accessible; false if there is none.
  [[nodiscard]] bool prepare() { return !due_.empty() || load_due(); }
  /// Time of the next event; prepare() must have returned true.
  [[nodiscard]] Time next_time() const { return Time{due_.back().time}; }
  /// Removes the next event; prepare() must have returned true.
  Event pop() {
    const Event event = due_.back();
    due_.pop_back();
    return event;
  }

 private:
  static constexpr unsigned kBucketBits = 14;  // 2^14 ps = 16.384 ns
  static constexpr std::int64_t kBuckets = 4096;
  static constexpr std::size_t slot_of(std::int64_t bucket) { return static_cast<std::size_t>(bucket) % kBuckets; }
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // An event in the wheel. Nodes are kept for reuse, and buckets are lists of them.
  struct Node {
    Event event;
    std::uint32_t next;
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

  void insert_due(const Event& event);
  void add_to_wheel(const Event& event, std::int64_t bucket) {
    const std::size_t slot = slot_of(bucket);
    std::uint32_t node = free_;
    if (node == kNone) {
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    nodes_[node] = {event, heads_[slot]};
    heads_[slot] = node;
    used_[slot / 64] |= std::uint64_t{1} << (slot % 64);
    ++in_wheel_;
  }
  void add_to_heap(const Event& event);
  bool load_due();
  void empty_bucket(std::int64_t bucket);
  void move_from_heap();
  [[nodiscard]] std::int64_t next_used_bucket() const;

  // Events of bucket `due_bucket_` and before, latest first, so the next event is at the back. Among equal times, the
  // event inserted first is nearer to the back.
  std::vector<Event> due_;
  std::int64_t due_bucket_ = 0;
  std::array<std::uint32_t, kBuckets> heads_;  // latest insertion first
  std::array<std::uint64_t, kBuckets / 64> used_{};
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;
  std::size_t in_wheel_ = 0;
  std::vector<Far> heap_;
  std::uint64_t inserted_ = 0;
};

}  // namespace sidelatch::fabric::sim
