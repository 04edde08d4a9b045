// Rings: how a unit meets a zero-sided flow. A unit pushes items into a ring in its own registered memory, or pops them
// from one; the switch moves them (p4/zero_sided.p4). To the unit all is local memory: no RDMA. It makes no system call
// either, but where it waits: push() and pop() yield the CPU after a while, and push_for() and pop_for() read the
// clock.
//
//   const RingShape shape{.slots = 1024, .item_bytes = 100};
//   Producer producer(region.bytes(), shape);          // of a cleared ring
//   if (!producer.try_push(item)) { ... }              // full: the consumer is behind
//   producer.push(item);                               // waits for room
//   producer.end();                                    // nothing more comes
//
//   Consumer consumer(region.bytes(), shape);
//   while (consumer.pop(item)) { use(item); }          // false: the flow has ended, and all has been popped
//
// In memory: `head`, 4 bytes: items pushed so far; behind it at a consumer 16 bytes of the switch (RingState); `tail`,
// 4 bytes, in another cache line: items popped so far, at a producer items delivered; then the slots. Counters run
// freely modulo 2^30, and the number of slots is a power of two. Bit 31 of a counter means that the flow has ended
// here, bit 30 that it is broken.
//
// At a producer the unit writes `head` and the switch `tail`; at a consumer it is the other way round. So a Producer
// and a Consumer on the same memory, which is in no flow, are a queue between two threads; is_drained() never comes
// true there, because a Consumer does not write that it has seen the end.
//
// Guarantees, where memory does as docs/flows.md says:
// - what was committed is delivered whole, once, and in order, unless the flow breaks. What was delivered is in a
//   consumer's ring, and nobody may have popped it;
// - a slot is not read by the switch before it was committed, nor written by it before it was released;
// - a counter is looked at when what is known of it is used up, and by room(), is_drained() and shall_ring(). So a flow
//   that breaks is seen by room() and is_drained() at once, by what pushes when it needs room, and by a Consumer when
//   it has popped all that it knows of.
//
// Fences: items are written before the head that covers them (release), and read after it (acquire); a slot is given
// back (release) after it has been read. On x86 C++'s release and acquire are enough, because a NIC takes part in cache
// coherence. On ARM a NIC is outside the inner shareable domain, and this code adds `dmb osh`. A GPU needs volatile
// counters and `__threadfence_system()`. That is not enough
// - for items that were written with non-temporal or write-combining stores: put an `sfence` before commit();
// - for a Consumer in a GPU's own memory: the NIC's WRITEs of items and of head may become visible in another order,
//   whatever the GPU does. Keep the ring in the host's memory.
// This code was run on x86 only.
//
// Thread-safety: one thread at a time uses a Producer or a Consumer, and a ring has one of a kind.
#pragma once

#include <sidelatch/fabric/reactor.h>
#include <sidelatch/fabric/task.h>
#include <sidelatch/fabric/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace sidelatch::flows {

/// In a counter: the flow has ended. At a consumer: no item comes after these. At a producer: all has been delivered.
inline constexpr std::uint32_t kEnded = 0x8000'0000;
/// In a counter: the flow is broken. A unit died, or did what it must not.
inline constexpr std::uint32_t kBroken = 0x4000'0000;
/// The bits that count.
inline constexpr std::uint32_t kCount = 0x3fff'ffff;

/// The flow is broken. What a Consumer has popped before is right and complete up to there.
class FlowBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The order of the bytes of head and tail, that of the unit's processor. Items are bytes.
enum class ByteOrder : std::uint8_t { little, big };

struct RingShape {
  std::uint32_t slots = 0;       ///< a power of two, 1 to 2^29
  std::uint32_t item_bytes = 0;  ///< 1 to 2^30
  /// Items begin at multiples of this from the beginning of the memory: a power of two, 1 to 4096. Producers and
  /// consumers of a flow have the same.
  std::uint32_t alignment = 1;
  ByteOrder order = ByteOrder::little;

  /// Bytes from one item to the next.
  [[nodiscard]] std::uint32_t stride() const noexcept { return (item_bytes + alignment - 1) & ~(alignment - 1); }
  [[nodiscard]] static constexpr std::uint64_t head_offset() noexcept { return 0; }
  [[nodiscard]] static constexpr std::uint64_t tail_offset() noexcept { return 64; }
  [[nodiscard]] std::uint64_t items_offset() const noexcept { return alignment <= 128 ? 128 : alignment; }
  /// Bytes of memory that the ring needs, aligned to 64.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return items_offset() + std::uint64_t{slots} * stride(); }
  /// Throws std::invalid_argument that names the field, its value and the range.
  void check() const;
};

/// What a ring's memory says, with marks: what a switch that takes a flow over must know of it.
struct RingState {
  std::uint32_t head = 0;
  std::uint32_t tail = 0;
  /// At a consumer, written with its head: which producer the last items are of, from 1 on, and the tail of that
  /// producer's ring with them. 0: none have come.
  std::uint32_t last_producer = 0;
  std::uint32_t last_tail = 0;
  /// The same of an earlier producer, which had not acknowledged its tail by then. 0: there was none.
  std::uint32_t silent_producer = 0;
  std::uint32_t silent_tail = 0;
  friend bool operator==(const RingState&, const RingState&) = default;
};

/// Both counters become 0, and so does what a switch has left between them. Items remain. Call it before the flow is
/// set up. Throws std::invalid_argument for a wrong shape, and for memory that is too short or not aligned to 64 bytes.
void clear_ring(std::span<std::byte> memory, const RingShape& shape);

/// The counters and the slots, for either side.
class Ring {
 public:
  Ring(std::span<std::byte> memory, const RingShape& shape);
  [[nodiscard]] const RingShape& shape() const noexcept { return shape_; }
  /// From memory. Nothing may be on its way there: end the queue pair first.
  [[nodiscard]] RingState state() const noexcept;

 protected:
  [[nodiscard]] std::uint32_t load(std::uint64_t offset) const noexcept;  // acquires
  void store(std::uint64_t offset, std::uint32_t value) const noexcept;   // releases
  [[nodiscard]] std::byte* slot(std::uint32_t count) const noexcept {
    return memory_ + shape_.items_offset() + std::uint64_t{count & (shape_.slots - 1)} * shape_.stride();
  }

 private:
  std::byte* memory_;
  RingShape shape_;
};

class Producer : public Ring {
 public:
  /// Goes on from the head that is in the memory. Throws as clear_ring().
  Producer(std::span<std::byte> memory, const RingShape& shape);

  /// How many items could be pushed now: it looks. Throws FlowBroken if the flow is broken, or if the counters are more
  /// slots apart than there are: something else has written there.
  [[nodiscard]] std::uint32_t room();
  /// Copies an item of item_bytes. False: the ring is full. Throws std::invalid_argument for another size, and
  /// std::logic_error after end(); so do all that push. They throw as room() when they look, which is when they know of
  /// no room: before that they push into a broken flow, too.
  bool try_push(std::span<const std::byte> item);
  /// Pushes as many of these items, which lie one after the other, as there is room for. Returns how many. Throws
  /// std::invalid_argument for what is no multiple of item_bytes. If the flow turns out to be broken after some were
  /// pushed, the next call throws.
  std::size_t try_push_batch(std::span<const std::byte> items);
  /// Waits for room. It spins; after some microseconds without room it yields the CPU between attempts.
  void push(std::span<const std::byte> item);
  /// All of them. If it throws FlowBroken, pushed() says how far it has come. More than the ring has room for wait here
  /// for the switch, before anybody can ring: where polls are rare, use try_push_batch() and ring.
  void push_batch(std::span<const std::byte> items);
  /// The same for a task: looks again each `interval`.
  fabric::Task<void> push(fabric::Reactor& reactor, std::span<const std::byte> item,
                          fabric::Duration interval = fabric::from_ns(1000));

  /// The same, but not much longer than this: false if there was no room. It tries some times at least, also for 0. A
  /// unit that the switch has given up wrongly sees nothing else of it.
  bool push_for(std::span<const std::byte> item, std::chrono::nanoseconds at_most);

  /// The free slots that lie one after the other from the next one on, `stride` bytes each, to be filled in place:
  /// those that are known to be free, to the end of the ring at most. Empty if the ring is full. Throws as try_push().
  [[nodiscard]] std::span<std::byte> reserve();
  /// Publishes the first `count` of them. Throws std::logic_error for more than are known to be free, and after end().
  void commit(std::uint32_t count);

  /// Whether the switch may be asleep, because all that was pushed before the last commit(), push or batch has been
  /// delivered, or because all has been and it does not know of end(): the moment to ring, if the unit can (an empty
  /// SEND or WRITE on the ring's queue pair). Else the switch looks by itself. Without bells do not call it: it costs a
  /// fence and a look at the tail. It may be true when nobody sleeps.
  [[nodiscard]] bool shall_ring() noexcept;

  /// No more items come. A second call changes nothing.
  void end();
  /// All items were delivered, and the switch has seen the end: the memory is the unit's again. Whoever dies afterwards
  /// with items in its ring, this remains true. Throws as room().
  [[nodiscard]] bool is_drained();
  /// Items pushed, modulo 2^30.
  [[nodiscard]] std::uint32_t pushed() const noexcept { return head_; }

 private:
  void check_not_ended() const;
  bool look() noexcept;  // at the tail. False: the flow is broken

  std::uint32_t head_;
  std::uint32_t tail_;              // as last seen
  std::uint32_t before_ = 0;        // the head before the last commit
  std::uint32_t first_before_ = 0;  // and before the first one of the last call
  bool has_ended_ = false;
};

class Consumer : public Ring {
 public:
  enum class Popped : std::uint8_t { item, empty, ended };

  /// Goes on from the tail that is in the memory. Throws as clear_ring().
  Consumer(std::span<std::byte> memory, const RingShape& shape);

  /// How many items are known to be there: it looks for more only if there are none. So it is 0 only if the ring was
  /// empty. Throws FlowBroken if there are none and the flow is broken, or if the counters are more slots apart than
  /// there are; so do has_ended(), peek() and all that pop.
  [[nodiscard]] std::uint32_t available();
  /// Copies the oldest item to `item`, of item_bytes. Throws std::invalid_argument for another size.
  Popped try_pop(std::span<std::byte> item);
  /// Pops as many items as there are and fit. Returns how many. Throws std::invalid_argument for room that is no
  /// multiple of item_bytes. If the flow turns out to be broken behind them, the next call throws.
  std::size_t try_pop_batch(std::span<std::byte> items);
  /// Waits for an item, as Producer::push(). False: the flow has ended.
  bool pop(std::span<std::byte> item);
  fabric::Task<bool> pop(fabric::Reactor& reactor, std::span<std::byte> item,
                         fabric::Duration interval = fabric::from_ns(1000));

  /// The same, but not much longer than this: Popped::empty if nothing came. It tries some times at least, also for 0.
  Popped pop_for(std::span<std::byte> item, std::chrono::nanoseconds at_most);

  /// Whether the switch may be asleep, because the ring was full before the last release(), pop or batch: as
  /// Producer::shall_ring().
  [[nodiscard]] bool shall_ring() noexcept;

  /// The items that lie one after the other from the oldest one on, `stride` bytes each, to be used in place: those
  /// that are known to be there, to the end of the ring at most. Empty only if the ring was.
  [[nodiscard]] std::span<const std::byte> peek();
  /// Gives the first `count` of them back. Throws std::logic_error for more than are known to be there.
  void release(std::uint32_t count);

  /// Nothing is left, and nothing more comes. Of a flow that broke it is never true: it throws.
  [[nodiscard]] bool has_ended();
  /// Items popped, modulo 2^30.
  [[nodiscard]] std::uint32_t popped() const noexcept { return tail_; }

 private:
  bool look() noexcept;  // at the head, if no item is known to be there. False: the flow is broken

  std::uint32_t tail_;
  std::uint32_t head_;        // as last seen, with its marks
  std::uint32_t before_ = 0;  // the tail before the last release
};

}  // namespace sidelatch::flows
