// The time to spin, derived from earlier waits.
#include "roce/wire/spin_time.h"

#include <gtest/gtest.h>

namespace sidelatch::roce {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(SpinTime, ShrinksWhenNothingComesAndGrowsWhenSpinningWouldHavePaid) {
  SpinTime time(2);
  for (int i = 0; i < 20; ++i) {
    time.learn(milliseconds(10), true);
  }
  EXPECT_EQ(time.now(), SpinTime::kLeast);
  for (int i = 0; i < 20; ++i) {
    time.learn(SpinTime::kMost / 2, true);
  }
  EXPECT_EQ(time.now(), SpinTime::kMost);
}

TEST(SpinTime, StaysAsItIsWhenItPaid) {
  SpinTime time(2);
  time.learn(milliseconds(10), true);
  const nanoseconds before = time.now();
  time.learn(nanoseconds(100), false);
  EXPECT_EQ(time.now(), before);
}

TEST(SpinTime, IsZeroWithOneCpu) {
  SpinTime time(1);
  EXPECT_EQ(time.now(), nanoseconds(0));
  time.learn(nanoseconds(100), true);
  EXPECT_EQ(time.now(), nanoseconds(0));
}

}  // namespace
}  // namespace sidelatch::roce
