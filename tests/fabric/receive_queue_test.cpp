#include "two_nodes.h"

#include <sidelatch/fabric/receive_queue.h>

#include <optional>
#include <vector>

namespace sidelatch::fabric {
namespace {

struct Fixture {
  explicit Fixture(std::uint32_t depth) : queue(std::make_shared<ReceiveQueue>(nodes.reactor(), depth)) {}
  [[nodiscard]] LocalSpan buffer(std::uint64_t i) const { return nodes.buffer.local(i * 64, 64); }
  TwoNodes nodes;
  std::shared_ptr<ReceiveQueue> queue;
};

Task<Received> take(std::shared_ptr<ReceiveQueue> queue) {
  const Received received = co_await ReceiveQueue::Awaiter(queue);
  co_return received;
}

Task<void> take_into(std::shared_ptr<ReceiveQueue> queue, std::vector<std::uint64_t>* numbers) {
  const Received received = co_await ReceiveQueue::Awaiter(queue);
  numbers->push_back(received.number);
}

TEST(ReceiveQueue, HandsOutMessagesInPostingOrderWithTheirBuffersAndLengths) {
  Fixture f(4);
  f.queue->post(f.buffer(0));
  f.queue->post(f.buffer(1));
  EXPECT_EQ(f.queue->take_buffer().data, f.buffer(0).data);
  EXPECT_EQ(f.queue->take_buffer().data, f.buffer(1).data);
  EXPECT_FALSE(f.queue->has_buffer());
  f.queue->fill({.bytes = 8});
  f.queue->fill({.bytes = 0});
  const Received first = f.nodes.run(take(f.queue));
  EXPECT_EQ(first.number, 1U);
  EXPECT_EQ(first.message.data, f.buffer(0).data);
  EXPECT_EQ(first.message.length, 8U);
  const Received second = f.nodes.run(take(f.queue));
  EXPECT_EQ(second.number, 2U);
  EXPECT_EQ(second.message.length, 0U);
}

TEST(ReceiveQueue, HasRoomAgainWhenAMessageWasHandedOut) {
  Fixture f(2);
  for (std::uint64_t round = 0; round < 5; ++round) {
    while (f.queue->has_room()) {
      f.queue->post(f.buffer(0));
    }
    while (f.queue->has_buffer()) {
      (void)f.queue->take_buffer();
      f.queue->fill({.bytes = 8});
    }
    EXPECT_FALSE(f.queue->has_room());
    (void)f.nodes.run(take(f.queue));
    EXPECT_TRUE(f.queue->has_room());
  }
  EXPECT_THROW(
      {
        f.queue->post(f.buffer(0));
        f.queue->post(f.buffer(0));
      },
      std::logic_error);
}

TEST(ReceiveQueue, TasksThatWaitAreServedInTurn) {
  Fixture f(4);
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 3; ++i) {
    f.queue->post(f.buffer(0));
    f.nodes.reactor().spawn(take_into(f.queue, &numbers));
  }
  for (int i = 0; i < 3; ++i) {
    (void)f.queue->take_buffer();
    f.queue->fill({.bytes = 8});
  }
  f.nodes.reactor().run();
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST(ReceiveQueue, ATaskThatIsDestroyedAfterItWasWokenTakesNoMessageWithIt) {
  Fixture f(4);
  std::vector<std::uint64_t> first;
  std::vector<std::uint64_t> second;
  f.queue->post(f.buffer(0));
  std::optional<Task<>> doomed(take_into(f.queue, &first));
  Task<> other = take_into(f.queue, &second);
  start(*doomed);
  start(other);
  (void)f.queue->take_buffer();
  f.queue->fill({.bytes = 8});  // wakes the first
  doomed.reset();
  f.nodes.settle();
  EXPECT_TRUE(first.empty());
  EXPECT_EQ(second, (std::vector<std::uint64_t>{1}));
}

TEST(ReceiveQueue, AClosedOneHandsOutWhatItHasAndThenThrows) {
  Fixture f(4);
  f.queue->post(f.buffer(0));
  f.queue->post(f.buffer(1));
  (void)f.queue->take_buffer();
  f.queue->fill({.bytes = 8});
  EXPECT_TRUE(f.queue->uses(f.nodes.buffer.lkey()));
  f.queue->close(std::make_shared<const FabricError>(Status::disconnected, "first"));
  f.queue->close(std::make_shared<const FabricError>(Status::flushed, "second"));
  EXPECT_FALSE(f.queue->uses(f.nodes.buffer.lkey()));
  EXPECT_FALSE(f.queue->has_buffer());
  EXPECT_EQ(f.nodes.run(take(f.queue)).number, 1U);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(f.nodes.error_of(take(f.queue)).status(), Status::disconnected);
  }
}

}  // namespace
}  // namespace sidelatch::fabric
