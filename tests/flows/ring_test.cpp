// Rings as units use them, without a network: a Producer and a Consumer on the same memory are a queue.
#include "tests/message_of.h"

#include <sidelatch/flows/ring.h>

#include <sidelatch/fabric/sim/simulation.h>

#include <gtest/gtest.h>

#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {

class RingMemory {
 public:
  explicit RingMemory(const RingShape& shape) : lines_(shape.bytes() / 64 + 1) { clear_ring(bytes(), shape); }
  [[nodiscard]] std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(lines_)); }
  // As the bytes of its memory say, lowest first.
  [[nodiscard]] std::uint32_t counter(std::uint64_t offset) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes().data() + offset, sizeof value);
    return value;
  }
  void set(std::uint64_t offset, std::uint32_t value) { std::memcpy(bytes().data() + offset, &value, sizeof value); }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes{};
  };
  std::vector<Line> lines_;
};

std::vector<std::byte> item_of(std::uint32_t number, std::size_t bytes) {
  std::vector<std::byte> item(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    item[i] = static_cast<std::byte>(number * 31 + i);
  }
  return item;
}

// The switch is played by setting the counters that it writes.
TEST(Ring, AProducerRingsIfAllBeforeItsLastCallWasDelivered) {
  const RingShape shape{.slots = 8, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  const std::vector<std::byte> items(6 * 8);
  EXPECT_FALSE(producer.shall_ring());  // nothing has been pushed
  EXPECT_EQ(producer.try_push_batch(items), 6U);
  EXPECT_TRUE(producer.shall_ring());
  ASSERT_TRUE(producer.try_push(std::span(items).first(8)));
  EXPECT_FALSE(producer.shall_ring());  // it looks for the batch anyhow
  memory.set(RingShape::tail_offset(), 7);
  EXPECT_EQ(producer.try_push_batch(items), 6U);  // around the ring's end, in two parts
  EXPECT_TRUE(producer.shall_ring());
  memory.set(RingShape::tail_offset(), 8);  // the first part was moved before there was a second one
  EXPECT_TRUE(producer.shall_ring());
  memory.set(RingShape::tail_offset(), 12);
  EXPECT_FALSE(producer.shall_ring());
  memory.set(RingShape::tail_offset(), 13);
  EXPECT_FALSE(producer.shall_ring());
  producer.end();
  EXPECT_TRUE(producer.shall_ring());
  memory.set(RingShape::tail_offset(), 13 | kEnded);
  EXPECT_FALSE(producer.shall_ring());
}
TEST(Ring, AnEndThatIsDeclaredBehindItemsIsToldWithThem) {
  const RingShape shape{.slots = 8, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  ASSERT_TRUE(producer.try_push(std::vector<std::byte>(8)));
  producer.end();
  EXPECT_TRUE(producer.shall_ring());
}
TEST(Ring, AConsumerRingsIfItsRingWasFullBeforeItsLastCall) {
  const RingShape shape{.slots = 8, .item_bytes = 8};
  RingMemory memory(shape);
  Consumer consumer(memory.bytes(), shape);
  std::vector<std::byte> items(3 * 8);
  memory.set(RingShape::head_offset(), 6);
  EXPECT_EQ(consumer.try_pop_batch(items), 3U);
  EXPECT_FALSE(consumer.shall_ring());
  EXPECT_EQ(consumer.try_pop_batch(items), 3U);
  memory.set(RingShape::head_offset(), 14);
  EXPECT_EQ(consumer.try_pop_batch(items), 3U);  // around the ring's end, in two parts
  EXPECT_TRUE(consumer.shall_ring());
}

TEST(Ring, ItemsComeOutInTheirOrder) {
  for (const std::uint32_t bytes : {1U, 4U, 63U, 100U}) {
    for (const std::uint32_t alignment : {1U, 8U, 256U}) {
      const RingShape shape{.slots = 4, .item_bytes = bytes, .alignment = alignment};
      RingMemory memory(shape);
      Producer producer(memory.bytes(), shape);
      Consumer consumer(memory.bytes(), shape);
      std::vector<std::byte> seen(bytes);
      std::uint32_t pushed = 0;
      for (std::uint32_t popped = 0; popped < 50; ++popped) {
        while (producer.try_push(item_of(pushed, bytes))) {
          ++pushed;
        }
        EXPECT_EQ(pushed, popped + 4);
        ASSERT_EQ(consumer.try_pop(seen), Consumer::Popped::item);
        EXPECT_EQ(seen, item_of(popped, bytes));
      }
    }
  }
}

TEST(Ring, AFullRingIsSeenByTheProducer) {
  const RingShape shape{.slots = 2, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  Consumer consumer(memory.bytes(), shape);
  EXPECT_EQ(producer.room(), 2U);
  EXPECT_TRUE(producer.try_push(item_of(0, 8)));
  EXPECT_TRUE(producer.try_push(item_of(1, 8)));
  EXPECT_EQ(producer.room(), 0U);
  EXPECT_FALSE(producer.try_push(item_of(2, 8)));
  EXPECT_TRUE(producer.reserve().empty());
  std::vector<std::byte> seen(8);
  EXPECT_EQ(consumer.try_pop(seen), Consumer::Popped::item);
  EXPECT_EQ(producer.room(), 1U);
}

TEST(Ring, CountersWrapAround) {
  const RingShape shape{.slots = 4, .item_bytes = 8};
  RingMemory memory(shape);
  memory.set(RingShape::head_offset(), kCount - 1);
  memory.set(RingShape::tail_offset(), kCount - 1);
  Producer producer(memory.bytes(), shape);
  Consumer consumer(memory.bytes(), shape);
  std::vector<std::byte> seen(8);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(producer.try_push(item_of(i, 8)));
  }
  EXPECT_FALSE(producer.try_push(item_of(4, 8)));
  EXPECT_EQ(memory.counter(RingShape::head_offset()), 2U);  // without a mark
  for (std::uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(consumer.try_pop(seen), Consumer::Popped::item);
    EXPECT_EQ(seen, item_of(i, 8));
  }
  EXPECT_EQ(consumer.try_pop(seen), Consumer::Popped::empty);
}

TEST(Ring, BatchesGoAroundTheEnd) {
  const RingShape shape{.slots = 8, .item_bytes = 12, .alignment = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  Consumer consumer(memory.bytes(), shape);
  std::vector<std::byte> batch(5 * 12);
  std::vector<std::byte> seen(5 * 12);
  for (std::uint32_t round = 0; round < 10; ++round) {
    for (std::uint32_t i = 0; i < 5; ++i) {
      std::ranges::copy(item_of(5 * round + i, 12), batch.begin() + 12 * i);
    }
    ASSERT_EQ(producer.try_push_batch(batch), 5U);
    ASSERT_EQ(consumer.try_pop_batch(seen), 5U);
    EXPECT_EQ(seen, batch);
  }
  EXPECT_EQ(producer.try_push_batch(batch), 5U);
  EXPECT_EQ(producer.try_push_batch(batch), 3U);  // as many as there is room for
}

TEST(Ring, AnItemThatIsFilledInPlaceIsSeenWhenItIsCommitted) {
  const RingShape shape{.slots = 4, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  Consumer consumer(memory.bytes(), shape);
  const std::span<std::byte> free = producer.reserve();
  ASSERT_EQ(free.size(), 32U);
  std::ranges::copy(item_of(7, 8), free.begin());
  EXPECT_TRUE(consumer.peek().empty());
  producer.commit(1);
  const auto seen = consumer.peek();
  ASSERT_EQ(seen.size(), 8U);
  EXPECT_TRUE(std::ranges::equal(seen, item_of(7, 8)));
  EXPECT_EQ(message_of([&] { consumer.release(2); }), "release of 2 items: only 1 were seen by peek()");
  EXPECT_EQ(message_of([&] { producer.commit(4); }), "commit of 4 items: only 3 slots are free");
  consumer.release(1);
  EXPECT_TRUE(consumer.peek().empty());
}

TEST(Ring, TheEndComesAfterTheLastItem) {
  const RingShape shape{.slots = 4, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  Consumer consumer(memory.bytes(), shape);
  producer.push(item_of(0, 8));
  producer.end();
  EXPECT_NE(message_of([&] { producer.try_push(item_of(1, 8)); }), "no error");
  std::vector<std::byte> seen(8);
  EXPECT_FALSE(consumer.has_ended());
  EXPECT_TRUE(consumer.pop(seen));
  EXPECT_TRUE(consumer.has_ended());
  EXPECT_FALSE(consumer.pop(seen));
  EXPECT_EQ(consumer.try_pop(seen), Consumer::Popped::ended);
  EXPECT_FALSE(producer.is_drained());  // only the switch says so
  memory.set(RingShape::tail_offset(), 1 | kEnded);
  EXPECT_TRUE(producer.is_drained());
}

TEST(Ring, ABrokenFlowIsAnErrorAtBothEnds) {
  const RingShape shape{.slots = 4, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  for (std::uint32_t i = 0; i < 4; ++i) {
    producer.push(item_of(i, 8));
  }
  memory.set(RingShape::tail_offset(), 3 | kBroken);
  EXPECT_THROW(producer.push(item_of(4, 8)), FlowBroken);
  EXPECT_THROW(static_cast<void>(producer.is_drained()), FlowBroken);
  memory.set(RingShape::tail_offset(), 3);
  memory.set(RingShape::head_offset(), 4 | kBroken | kEnded);
  Consumer consumer(memory.bytes(), shape);
  std::vector<std::byte> seen(8);
  EXPECT_TRUE(consumer.pop(seen));  // what came before is right
  EXPECT_THROW(consumer.pop(seen), FlowBroken);
}

// Failed: they were taken out of the ring, and then the error took them along.
TEST(Ring, TheLastItemsOfABrokenFlowComeInABatch) {
  const RingShape shape{.slots = 4, .item_bytes = 8};
  for (const std::uint32_t last : {2U | kEnded | kBroken, 100U}) {  // broken; spoilt
    RingMemory memory(shape);
    memory.set(RingShape::head_offset(), 2);
    Consumer consumer(memory.bytes(), shape);
    std::vector<std::byte> seen(8 * 4);
    EXPECT_EQ(consumer.available(), 2U);
    memory.set(RingShape::head_offset(), last);
    EXPECT_EQ(consumer.try_pop_batch(seen), 2U);
    EXPECT_THROW(static_cast<void>(consumer.try_pop_batch(seen)), FlowBroken);
    EXPECT_EQ(consumer.popped(), 2U);
  }
}

// Failed: the caller did not learn how many had been pushed.
TEST(Ring, ABatchIsPushedAsFarAsABrokenFlowTakesIt) {
  const RingShape shape{.slots = 4, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  producer.push(item_of(0, 8));
  memory.set(RingShape::tail_offset(), 1 | kBroken);
  const std::vector<std::byte> batch(8 * 5);
  EXPECT_EQ(producer.try_push_batch(batch), 3U);
  EXPECT_THROW(producer.try_push_batch(batch), FlowBroken);
  EXPECT_THROW(producer.push_batch(batch), FlowBroken);
  EXPECT_EQ(producer.pushed(), 4U);
}

// Failed: the mark was lost, and with it the item.
TEST(Ring, NothingIsCommittedAfterTheEnd) {
  const RingShape shape{.slots = 4, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  ASSERT_FALSE(producer.reserve().empty());
  producer.end();
  EXPECT_THROW(producer.commit(1), std::logic_error);
  EXPECT_THROW(producer.commit(0), std::logic_error);
  EXPECT_EQ(memory.counter(RingShape::head_offset()), kEnded);
}

TEST(Ring, AUnitOfTheOtherByteOrder) {
  const RingShape shape{.slots = 4, .item_bytes = 8, .order = ByteOrder::big};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  producer.push(item_of(0, 8));
  EXPECT_EQ(memory.counter(RingShape::head_offset()), 0x0100'0000U);
  Consumer consumer(memory.bytes(), shape);
  std::vector<std::byte> seen(8);
  EXPECT_TRUE(consumer.pop(seen));
  EXPECT_EQ(memory.counter(RingShape::tail_offset()), 0x0100'0000U);
}

TEST(Ring, WhatIsWrongIsNamed) {
  const auto refusal = [](const RingShape& shape) { return message_of([&] { shape.check(); }); };
  EXPECT_EQ(refusal({.slots = 3, .item_bytes = 8}), "slots 3: a power of two, 1 to 536870912");
  EXPECT_EQ(refusal({.slots = 0, .item_bytes = 8}), "slots 0: a power of two, 1 to 536870912");
  EXPECT_EQ(refusal({.slots = 4, .item_bytes = 0}), "item_bytes 0: 1 to 1073741824");
  EXPECT_EQ(refusal({.slots = 4, .item_bytes = 8, .alignment = 12}), "alignment 12: a power of two, 1 to 4096");
  const RingShape shape{.slots = 4, .item_bytes = 8};
  RingMemory memory(shape);
  EXPECT_EQ(message_of([&] { Producer(memory.bytes().first(159), shape); }),
            "159 bytes of memory for a ring of 4 slots: it needs 160");
  EXPECT_NE(
      message_of([&] { Producer(memory.bytes().subspan(8), {.slots = 1, .item_bytes = 8}); }).find("align it to 64"),
      std::string::npos);
  Producer producer(memory.bytes(), shape);
  EXPECT_EQ(message_of([&] { producer.try_push(item_of(0, 9)); }), "an item of 9 bytes: those of this ring have 8");
  EXPECT_EQ(message_of([&] { producer.try_push_batch(item_of(0, 12)); }),
            "a batch of 12 bytes: it is no multiple of the 8 of an item");
  memory.set(RingShape::tail_offset(), 17);
  EXPECT_THROW(static_cast<void>(producer.room()), FlowBroken);
}

// A child that may do nothing in the kernel but end. Returns its exit status, or -1 if the kernel killed it.
template <class Work>
int status_without_system_calls(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    work();
    ::syscall(SYS_exit, 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Ring, ItemsCostNoSystemCall) {
  const RingShape shape{.slots = 4, .item_bytes = 100};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  Consumer consumer(memory.bytes(), shape);
  std::vector<std::byte> item(100);
  EXPECT_EQ(status_without_system_calls([&] {
              for (int i = 0; i < 1000; ++i) {
                producer.push(item);
                producer.push(item);
                consumer.pop(item);
                consumer.pop(item);
              }
            }),
            0);
  EXPECT_EQ(status_without_system_calls([] { ::sched_yield(); }), -1);
}

fabric::Task<void> push_all(Producer& producer, fabric::Reactor& reactor, std::uint32_t items) {
  for (std::uint32_t i = 0; i < items; ++i) {
    const std::vector<std::byte> item = item_of(i, 8);
    co_await producer.push(reactor, item);
  }
  producer.end();
}

fabric::Task<std::uint32_t> pop_all(Consumer& consumer, fabric::Reactor& reactor) {
  std::uint32_t right = 0;
  std::vector<std::byte> item(8);
  for (;;) {
    const bool came = co_await consumer.pop(reactor, item);
    if (!came) {
      co_return right;
    }
    right += item == item_of(right, 8) ? 1U : 0U;
    co_await reactor.sleep(fabric::from_ns(5000));  // slower than the producer
  }
}

TEST(Ring, TasksWaitForRoomAndForItems) {
  fabric::sim::Simulation world({.profile = fabric::sim::load_profile("connectx5"), .seed = 1});
  const RingShape shape{.slots = 2, .item_bytes = 8};
  RingMemory memory(shape);
  Producer producer(memory.bytes(), shape);
  Consumer consumer(memory.bytes(), shape);
  world.reactor().spawn(push_all(producer, world.reactor(), 20));
  EXPECT_EQ(world.reactor().run(pop_all(consumer, world.reactor())), 20U);
}

}  // namespace
}  // namespace sidelatch::flows
