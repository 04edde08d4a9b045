#include <sidelatch/flows/ring.h>

#include "common/full_fence.h"
#include "flows/patience.h"
#include "flows/unit_fence.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace sidelatch::flows {

namespace {

constexpr std::uint32_t kMostSlots = 1U << 29;
constexpr std::uint32_t kLongestItem = 1U << 30;
constexpr std::uint32_t kLargestAlignment = 4096;
constexpr std::uintptr_t kRingAlignment = 64;
constexpr std::size_t kJournalOffset = 4;    // behind the head
constexpr std::uint32_t kTriesPerLook = 64;  // at the clock, which may be a system call

static_assert(std::endian::native == std::endian::little);

// From the unit's order to ours, or back.
std::uint32_t turned(std::uint32_t value, ByteOrder order) noexcept {
  return order == ByteOrder::little ? value : __builtin_bswap32(value);
}

void check_memory(std::span<std::byte> memory, const RingShape& shape) {
  shape.check();
  if (memory.size() < shape.bytes()) {
    throw std::invalid_argument(fmt::format("{} bytes of memory for a ring of {} slots: it needs {}", memory.size(),
                                            shape.slots, shape.bytes()));
  }
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % kRingAlignment != 0) {
    throw std::invalid_argument(fmt::format("the memory of a ring begins at {}: align it to {} bytes",
                                            static_cast<const void*>(memory.data()), kRingAlignment));
  }
}

void check_item(std::size_t bytes, const RingShape& shape) {
  if (bytes != shape.item_bytes) {
    throw std::invalid_argument(
        fmt::format("an item of {} bytes: those of this ring have {}", bytes, shape.item_bytes));
  }
}

std::size_t check_items(std::size_t bytes, const RingShape& shape) {
  if (bytes % shape.item_bytes != 0) {
    throw std::invalid_argument(
        fmt::format("a batch of {} bytes: it is no multiple of the {} of an item", bytes, shape.item_bytes));
  }
  return bytes / shape.item_bytes;
}

[[noreturn]] void throw_wrong_counter(const char* name, std::uint32_t value, const char* other, std::uint32_t beside,
                                      std::uint32_t slots) {
  throw FlowBroken(fmt::format(
      "the {} of the ring is {}, and its {} {}: more than {} slots apart. Something else has written to the ring's "
      "memory, or it was not cleared before the flow began",
      name, value, other, beside, slots));
}

}  // namespace

void RingShape::check() const {
  if (!std::has_single_bit(slots) || slots > kMostSlots) {
    throw std::invalid_argument(fmt::format("slots {}: a power of two, 1 to {}", slots, kMostSlots));
  }
  if (item_bytes == 0 || item_bytes > kLongestItem) {
    throw std::invalid_argument(fmt::format("item_bytes {}: 1 to {}", item_bytes, kLongestItem));
  }
  if (!std::has_single_bit(alignment) || alignment > kLargestAlignment) {
    throw std::invalid_argument(fmt::format("alignment {}: a power of two, 1 to {}", alignment, kLargestAlignment));
  }
}

void clear_ring(std::span<std::byte> memory, const RingShape& shape) {
  check_memory(memory, shape);
  std::memset(memory.data(), 0, shape.items_offset());
}

Ring::Ring(std::span<std::byte> memory, const RingShape& shape) : memory_(memory.data()), shape_(shape) {
  check_memory(memory, shape);
}

std::uint32_t Ring::load(std::uint64_t offset) const noexcept {
  auto& counter = *reinterpret_cast<std::uint32_t*>(memory_ + offset);
  const std::uint32_t value = std::atomic_ref(counter).load(std::memory_order_acquire);
  fence_behind_counter();
  return turned(value, shape_.order);
}

void Ring::store(std::uint64_t offset, std::uint32_t value) const noexcept {
  auto& counter = *reinterpret_cast<std::uint32_t*>(memory_ + offset);
  fence_before_counter();
  std::atomic_ref(counter).store(turned(value, shape_.order), std::memory_order_release);
}

RingState Ring::state() const noexcept {
  RingState state{.head = load(RingShape::head_offset()), .tail = load(RingShape::tail_offset())};
  const std::byte* at = memory_ + kJournalOffset;
  for (std::uint32_t* const word :
       {&state.last_producer, &state.last_tail, &state.silent_producer, &state.silent_tail}) {
    std::memcpy(word, at, sizeof *word);
    *word = __builtin_bswap32(*word);  // as the switch has it
    at += sizeof *word;
  }
  return state;
}

Producer::Producer(std::span<std::byte> memory, const RingShape& shape)
    : Ring(memory, shape), head_(load(RingShape::head_offset())), tail_(load(RingShape::tail_offset())) {
  has_ended_ = (head_ & kEnded) != 0;
  head_ &= kCount;
}

bool Producer::look() noexcept {
  tail_ = load(RingShape::tail_offset());
  return (tail_ & kBroken) == 0 && ((head_ - tail_) & kCount) <= shape().slots;
}

std::uint32_t Producer::room() {
  static_cast<void>(look());
  if ((tail_ & kBroken) != 0) {
    throw FlowBroken(fmt::format(
        "the flow is broken: {} items were delivered, and {} more were pushed. Set up another flow for them",
        tail_ & kCount, (head_ - tail_) & kCount));
  }
  const std::uint32_t used = (head_ - tail_) & kCount;
  if (used > shape().slots) {
    throw_wrong_counter("tail", tail_ & kCount, "head", head_, shape().slots);
  }
  return shape().slots - used;
}

void Producer::check_not_ended() const {
  if (has_ended_) {
    throw std::logic_error("the flow's end has been declared by end(): nothing can be pushed after it");
  }
}

std::span<std::byte> Producer::reserve() {
  check_not_ended();
  const std::uint32_t first = head_ & (shape().slots - 1);
  std::uint32_t free = shape().slots - ((head_ - tail_) & kCount);
  // The counter is another processor's cache line: look at it only when the slots that are known to be free run out.
  if (free == 0 || free > shape().slots || (tail_ & kBroken) != 0) {
    free = room();
  }
  return {slot(head_), std::size_t{std::min(free, shape().slots - first)} * shape().stride()};
}

void Producer::commit(std::uint32_t count) {
  check_not_ended();  // the head would lose its mark
  if (count > shape().slots - ((head_ - tail_) & kCount)) {
    throw std::logic_error(
        fmt::format("commit of {} items: only {} slots are free", count, shape().slots - ((head_ - tail_) & kCount)));
  }
  first_before_ = before_ = head_;
  head_ = (head_ + count) & kCount;
  store(RingShape::head_offset(), head_);
}

bool Producer::try_push(std::span<const std::byte> item) {
  check_item(item.size(), shape());
  const std::span<std::byte> free = reserve();
  if (free.empty()) {
    return false;
  }
  std::memcpy(free.data(), item.data(), item.size());
  commit(1);
  return true;
}

std::size_t Producer::try_push_batch(std::span<const std::byte> items) {
  const std::size_t wanted = check_items(items.size(), shape());
  const std::uint32_t first = head_;
  std::size_t done = 0;
  while (done < wanted) {
    // What has been pushed is told before the flow's end is.
    if (done != 0 && ((head_ - tail_) & kCount) == shape().slots && !look()) {
      break;
    }
    const std::span<std::byte> free = reserve();
    const std::size_t now = std::min(free.size() / shape().stride(), wanted - done);
    if (now == 0) {
      break;
    }
    for (std::size_t i = 0; i < now; ++i) {
      std::memcpy(free.data() + i * shape().stride(), items.data() + (done + i) * shape().item_bytes,
                  shape().item_bytes);
    }
    commit(static_cast<std::uint32_t>(now));
    done += now;
  }
  if (done != 0) {
    first_before_ = first;
  }
  return done;
}

void Producer::push(std::span<const std::byte> item) {
  Patience patience;
  while (!try_push(item)) {
    patience.wait();
  }
}

void Producer::push_batch(std::span<const std::byte> items) {
  Patience patience;
  while (!items.empty()) {
    const std::size_t done = try_push_batch(items);
    items = items.subspan(done * shape().item_bytes);
    if (done == 0) {
      patience.wait();
    } else {
      patience = {};
    }
  }
}

namespace {

// Tries until it has worked or the time has passed. Returns whether it has.
template <class Try>
bool try_for(std::chrono::nanoseconds at_most, const Try& attempt) {
  const auto begun = std::chrono::steady_clock::now();
  Patience patience;
  for (;;) {
    for (std::uint32_t i = 0; i < kTriesPerLook; ++i) {
      if (attempt()) {
        return true;
      }
      patience.wait();
    }
    if (std::chrono::steady_clock::now() - begun >= at_most) {
      return false;
    }
  }
}

}  // namespace

bool Producer::push_for(std::span<const std::byte> item, std::chrono::nanoseconds at_most) {
  return try_for(at_most, [&] { return try_push(item); });
}

// The head was stored before the tail is loaded. So either this sees that all had been delivered, or the switch, which
// looks at the head after it has written the tail, sees the new items.
bool Producer::shall_ring() noexcept {
  full_fence();
  fence_before_counter();  // the other party is a NIC
  static_cast<void>(look());
  const std::uint32_t tail = tail_ & kCount;
  const bool is_end_untold = has_ended_ && (tail_ & kEnded) == 0;
  // It may have gone to sleep before the last call, or between two parts of a batch.
  const bool is_behind = ((tail - first_before_) & kCount) <= ((before_ - first_before_) & kCount);
  return (is_behind && head_ != before_) || (tail == head_ && is_end_untold);
}

fabric::Task<void> Producer::push(fabric::Reactor& reactor, std::span<const std::byte> item,
                                  fabric::Duration interval) {
  while (!try_push(item)) {
    co_await reactor.sleep(interval);
  }
}

void Producer::end() {
  has_ended_ = true;
  store(RingShape::head_offset(), head_ | kEnded);
}

bool Producer::is_drained() { return room() == shape().slots && (tail_ & kEnded) != 0; }

Consumer::Consumer(std::span<std::byte> memory, const RingShape& shape)
    : Ring(memory, shape), tail_(load(RingShape::tail_offset()) & kCount), head_(load(RingShape::head_offset())) {}

bool Consumer::look() noexcept {
  if (((head_ - tail_) & kCount) == 0) {
    head_ = load(RingShape::head_offset());
  }
  const std::uint32_t count = (head_ - tail_) & kCount;
  return count <= shape().slots && (count != 0 || (head_ & kBroken) == 0);
}

std::uint32_t Consumer::available() {
  static_cast<void>(look());
  const std::uint32_t count = (head_ - tail_) & kCount;
  if (count > shape().slots) {
    throw_wrong_counter("head", head_ & kCount, "tail", tail_, shape().slots);
  }
  if (count == 0 && (head_ & kBroken) != 0) {
    throw FlowBroken(fmt::format("the flow is broken after {} items: a producer died, or its ring was spoilt", tail_));
  }
  return count;
}

bool Consumer::has_ended() { return available() == 0 && (head_ & kEnded) != 0; }

std::span<const std::byte> Consumer::peek() {
  const std::uint32_t first = tail_ & (shape().slots - 1);
  return {slot(tail_), std::size_t{std::min(available(), shape().slots - first)} * shape().stride()};
}

void Consumer::release(std::uint32_t count) {
  if (count > ((head_ - tail_) & kCount)) {
    throw std::logic_error(
        fmt::format("release of {} items: only {} were seen by peek()", count, (head_ - tail_) & kCount));
  }
  before_ = tail_;
  tail_ = (tail_ + count) & kCount;
  store(RingShape::tail_offset(), tail_);
}

Consumer::Popped Consumer::try_pop(std::span<std::byte> item) {
  check_item(item.size(), shape());
  if (available() == 0) {
    return (head_ & kEnded) != 0 ? Popped::ended : Popped::empty;
  }
  std::memcpy(item.data(), slot(tail_), item.size());
  release(1);
  return Popped::item;
}

std::size_t Consumer::try_pop_batch(std::span<std::byte> items) {
  const std::size_t wanted = check_items(items.size(), shape());
  const std::uint32_t first = tail_;
  std::size_t done = 0;
  while (done < wanted) {
    // What has been popped is handed over before the flow's end is.
    if (done != 0 && !look()) {
      break;
    }
    const std::span<const std::byte> present = peek();
    const std::size_t now = std::min(present.size() / shape().stride(), wanted - done);
    if (now == 0) {
      break;
    }
    for (std::size_t i = 0; i < now; ++i) {
      std::memcpy(items.data() + (done + i) * shape().item_bytes, present.data() + i * shape().stride(),
                  shape().item_bytes);
    }
    release(static_cast<std::uint32_t>(now));
    done += now;
  }
  if (done != 0) {
    before_ = first;
  }
  return done;
}

bool Consumer::pop(std::span<std::byte> item) {
  Patience patience;
  for (;;) {
    switch (try_pop(item)) {
      case Popped::item:
        return true;
      case Popped::ended:
        return false;
      case Popped::empty:
        patience.wait();
    }
  }
}

Consumer::Popped Consumer::pop_for(std::span<std::byte> item, std::chrono::nanoseconds at_most) {
  Popped popped = Popped::empty;
  try_for(at_most, [&] {
    popped = try_pop(item);
    return popped != Popped::empty;
  });
  return popped;
}

bool Consumer::shall_ring() noexcept {
  full_fence();
  fence_before_counter();
  const std::uint32_t head = load(RingShape::head_offset());
  return ((head - before_) & kCount) >= shape().slots && tail_ != before_;
}

fabric::Task<bool> Consumer::pop(fabric::Reactor& reactor, std::span<std::byte> item, fabric::Duration interval) {
  for (;;) {
    const Popped popped = try_pop(item);
    if (popped != Popped::empty) {
      co_return popped == Popped::item;
    }
    co_await reactor.sleep(interval);
  }
}

}  // namespace sidelatch::flows
