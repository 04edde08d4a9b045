#include "softnic/nic/receive_queue.h"

#include <gtest/gtest.h>

#include <array>

namespace sidelatch::softnic::nic {
namespace {

TEST(ReceiveQueue, GivesRequestsInPostingOrderWithTheirParts) {
  ReceiveQueue queue(3, 2);
  ReceiveBuffer buffer;
  buffer.sges.resize(2);
  EXPECT_FALSE(queue.take(buffer));
  for (std::uint64_t id = 0; id < 10; ++id) {
    std::array parts{Sge{id, 10, 1}, Sge{id + 100, 20, 2}};
    ASSERT_EQ(queue.post({.id = id, .sges = std::span(parts).first(1 + id % 2)}), Post::done);
    parts = {};  // it has its own copy
    EXPECT_EQ(queue.first_length(), id % 2 == 0 ? 10U : 30U);
    ASSERT_TRUE(queue.take(buffer));
    EXPECT_EQ(buffer.id, id);
    ASSERT_EQ(buffer.parts().size(), 1 + id % 2);
    EXPECT_EQ(buffer.parts()[id % 2].address, id % 2 == 0 ? id : id + 100);
  }
}

TEST(ReceiveQueue, RefusesWhatHasNoRoom) {
  ReceiveQueue queue(1, 1);
  const std::array parts{Sge{}, Sge{}};
  EXPECT_EQ(queue.post({.id = 1, .sges = parts}), Post::too_many_sges);
  EXPECT_EQ(queue.post({.id = 1}), Post::done);
  EXPECT_EQ(queue.post({.id = 2}), Post::full);
  queue.clear();
  EXPECT_EQ(queue.post({.id = 3}), Post::done);
  ReceiveQueue none(0, 0);
  EXPECT_EQ(none.post({.id = 1}), Post::full);
}

TEST(ReceiveQueue, TellsOnceThatItsLimitIsReached) {
  ReceiveQueue queue(4, 1);
  ReceiveBuffer buffer;
  buffer.sges.resize(1);
  for (std::uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(queue.post({.id = id}), Post::done);
  }
  queue.set_limit(3);
  ASSERT_TRUE(queue.take(buffer));
  EXPECT_FALSE(queue.has_reached_limit());
  ASSERT_TRUE(queue.take(buffer));
  EXPECT_TRUE(queue.has_reached_limit());
  EXPECT_FALSE(queue.has_reached_limit());
  EXPECT_EQ(queue.limit(), 0U);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
