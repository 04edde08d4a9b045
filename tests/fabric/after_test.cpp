#include <sidelatch/fabric/after.h>

#include <gtest/gtest.h>

namespace sidelatch::fabric {
namespace {

TEST(After, AWaitWithoutEndIsNotOver) {
  EXPECT_EQ(after(Time{5}, Duration{7}), Time{12});
  EXPECT_EQ(after(Time{5}, Duration{-7}), Time{-2});
  EXPECT_EQ(after(Time{5}, Duration::max()), Time::max());
  EXPECT_EQ(after(Time::max(), Duration{1}), Time::max());
}

}  // namespace
}  // namespace sidelatch::fabric
