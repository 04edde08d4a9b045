#include "fabric/sim/requester_queue.h"

#include <gtest/gtest.h>

namespace sidelatch::fabric::sim {
namespace {

constexpr Time kDoorbell{250};
constexpr Time kService{40};

Time ring(RequesterQueue& queue, std::int64_t now) { return queue.serve(Time{now}, Time{now} + kDoorbell, kService); }
Time at_once(RequesterQueue& queue, std::int64_t now) { return queue.serve(Time{now}, Time{now}, kService); }

TEST(RequesterQueue, WorkIsServedInTheOrderOfItsArrival) {
  RequesterQueue queue;
  EXPECT_EQ(ring(queue, 0), Time{290});
  EXPECT_EQ(ring(queue, 0), Time{330});
  EXPECT_EQ(ring(queue, 20), Time{370});
  EXPECT_EQ(ring(queue, 1000), Time{1290});
}

TEST(RequesterQueue, WorkThatIsHereDoesNotWaitForADoorbellThatIsNotSeenYet) {
  RequesterQueue queue;
  EXPECT_EQ(ring(queue, 0), Time{290});
  EXPECT_EQ(at_once(queue, 100), Time{140});
  EXPECT_EQ(at_once(queue, 110), Time{180});
  // From the doorbell's arrival on it does.
  EXPECT_EQ(at_once(queue, 250), Time{330});
}

TEST(RequesterQueue, WorkInBetweenDelaysWhatIsGivenLater) {
  RequesterQueue queue;
  EXPECT_EQ(ring(queue, 0), Time{290});
  EXPECT_EQ(at_once(queue, 240), Time{280});
  EXPECT_EQ(ring(queue, 240), Time{530});
  EXPECT_EQ(at_once(queue, 250), Time{360});  // after 280 and the doorbell's 40
}

TEST(RequesterQueue, WorkMayArriveBetweenTwoDoorbellsThatAreNotSeenYet) {
  RequesterQueue queue;
  EXPECT_EQ(ring(queue, 0), Time{290});
  EXPECT_EQ(ring(queue, 100), Time{390});
  EXPECT_EQ(queue.serve(Time{100}, Time{300}, kService), Time{340});
  EXPECT_EQ(queue.serve(Time{100}, Time{320}, kService), Time{380});
  EXPECT_EQ(ring(queue, 110), Time{460}) << "it forgot what came in between";
}

TEST(RequesterQueue, ManyDoorbellsInARowKeepTheRate) {
  RequesterQueue queue;
  Time last{};
  for (std::int64_t i = 0; i < 100000; ++i) {
    last = ring(queue, i * 10);
  }
  EXPECT_EQ(last, kDoorbell + kService * 100000);
}

}  // namespace
}  // namespace sidelatch::fabric::sim
