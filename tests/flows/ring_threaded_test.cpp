// A producer and a consumer in two threads, and a mover between two rings as the switch is one.
#include <sidelatch/flows/ring.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace threaded {

constexpr std::uint32_t kItems = 20'000;
constexpr std::size_t kItemBytes = 20;

struct alignas(64) Line {
  std::array<std::byte, 64> bytes{};
};

void fill(std::span<std::byte> item, std::uint32_t number) {
  for (std::size_t at = 0; at < item.size(); at += sizeof number) {
    std::memcpy(item.data() + at, &number, sizeof number);
  }
}

// The first item that is not as it must be, or kItems.
std::uint32_t pop_all(Consumer& consumer) {
  std::vector<std::byte> item(kItemBytes);
  std::vector<std::byte> expected(kItemBytes);
  std::uint32_t right = 0;
  while (consumer.pop(item)) {
    fill(expected, right);
    if (item != expected) {
      return right;
    }
    ++right;
  }
  return right;
}

void push_all(Producer& producer) {
  std::vector<std::byte> item(kItemBytes);
  for (std::uint32_t i = 0; i < kItems; ++i) {
    fill(item, i);
    producer.push(item);
  }
  producer.end();
}

TEST(ThreadedRing, EveryItemArrivesOnceAndWhole) {
  const RingShape shape{.slots = 16, .item_bytes = kItemBytes};
  std::vector<Line> lines(shape.bytes() / 64 + 1);
  const std::span<std::byte> memory = std::as_writable_bytes(std::span(lines));
  clear_ring(memory, shape);
  Producer producer(memory, shape);
  Consumer consumer(memory, shape);
  std::thread other([&] { push_all(producer); });
  EXPECT_EQ(pop_all(consumer), kItems);
  other.join();
}

TEST(ThreadedRing, BatchesThroughTwoRings) {
  const RingShape small{.slots = 8, .item_bytes = kItemBytes};
  const RingShape large{.slots = 64, .item_bytes = kItemBytes, .alignment = 32};
  std::vector<Line> first(small.bytes() / 64 + 1);
  std::vector<Line> second(large.bytes() / 64 + 1);
  clear_ring(std::as_writable_bytes(std::span(first)), small);
  clear_ring(std::as_writable_bytes(std::span(second)), large);
  Producer producer(std::as_writable_bytes(std::span(first)), small);
  Consumer out(std::as_writable_bytes(std::span(first)), small);
  Producer in(std::as_writable_bytes(std::span(second)), large);
  Consumer consumer(std::as_writable_bytes(std::span(second)), large);
  std::thread unit([&] { push_all(producer); });
  std::thread mover([&] {
    std::vector<std::byte> batch(5 * kItemBytes);
    while (!out.has_ended()) {
      const std::size_t n = out.try_pop_batch(batch);
      in.push_batch(std::span(batch).first(n * kItemBytes));
      if (n == 0) {
        std::this_thread::yield();
      }
    }
    in.end();
  });
  EXPECT_EQ(pop_all(consumer), kItems);
  unit.join();
  mover.join();
}

}  // namespace threaded
}  // namespace
}  // namespace sidelatch::flows
