#include "softnic/nic/completion_queue.h"

#include <gtest/gtest.h>

#include <array>

namespace sidelatch::softnic::nic {
namespace {

using Arm = CompletionQueue::Arm;

Completion completion(std::uint64_t id, std::uint32_t queue_pair = 1) { return {.id = id, .queue_pair = queue_pair}; }

TEST(CompletionQueue, KeepsTheOrderAroundItsEnd) {
  CompletionQueue queue(1, 3);
  std::array<Completion, 2> two;
  std::uint64_t next = 0;
  std::uint64_t expected = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(queue.add(completion(next++), false));
    EXPECT_TRUE(queue.add(completion(next++), false));
    ASSERT_EQ(queue.poll(two), 2U);
    EXPECT_EQ(two[0].id, expected++);
    EXPECT_EQ(two[1].id, expected++);
    EXPECT_EQ(queue.poll(two), 0U);
  }
}

TEST(CompletionQueue, AnOverrunBreaksItForGoodAndKeepsWhatItHad) {
  CompletionQueue queue(1, 2);
  EXPECT_TRUE(queue.add(completion(1), false));
  EXPECT_TRUE(queue.add(completion(2), false));
  EXPECT_FALSE(queue.has_overrun());
  EXPECT_FALSE(queue.add(completion(3), false));
  EXPECT_TRUE(queue.has_overrun());
  std::array<Completion, 4> all;
  EXPECT_EQ(queue.poll(all), 2U);
  EXPECT_FALSE(queue.add(completion(4), false));
}

TEST(CompletionQueue, NotifiesOnceForWhatItWasArmedFor) {
  CompletionQueue queue(1, 16);
  EXPECT_TRUE(queue.add(completion(1), true));
  EXPECT_FALSE(queue.take_notification());
  queue.arm(Arm::any);
  EXPECT_FALSE(queue.take_notification());  // what was there before does not count
  EXPECT_TRUE(queue.add(completion(2), false));
  EXPECT_TRUE(queue.take_notification());
  EXPECT_TRUE(queue.add(completion(3), false));
  EXPECT_FALSE(queue.take_notification());
  queue.arm(Arm::solicited);
  EXPECT_TRUE(queue.add(completion(4), false));
  EXPECT_FALSE(queue.take_notification());
  EXPECT_TRUE(queue.add(completion(5), true));
  EXPECT_TRUE(queue.take_notification());
  queue.arm(Arm::solicited);
  Completion failed = completion(6);
  failed.status = CompletionStatus::flushed;
  EXPECT_TRUE(queue.add(failed, false));
  EXPECT_TRUE(queue.take_notification());
  queue.arm(Arm::any);
  queue.arm(Arm::solicited);  // does not take back
  EXPECT_TRUE(queue.add(completion(7), false));
  EXPECT_TRUE(queue.take_notification());
}

TEST(CompletionQueue, ForgetsAQueuePair) {
  CompletionQueue queue(1, 8);
  std::array<Completion, 8> all;
  EXPECT_TRUE(queue.add(completion(0), false));
  EXPECT_EQ(queue.poll(all), 1U);
  for (std::uint64_t id = 0; id < 8; ++id) {
    EXPECT_TRUE(queue.add(completion(id, id % 3 == 0 ? 1 : 2), false));
  }
  queue.forget(1);
  ASSERT_EQ(queue.poll(all), 5U);
  EXPECT_EQ(all[0].id, 1U);
  EXPECT_EQ(all[1].id, 2U);
  EXPECT_EQ(all[2].id, 4U);
  EXPECT_EQ(all[4].id, 7U);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
