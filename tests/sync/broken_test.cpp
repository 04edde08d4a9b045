#include <sidelatch/sync/broken.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace sidelatch::sync {
namespace {

using ::testing::HasSubstr;

TEST(Specimens, AnUnknownNameListsTheKnownOnes) {
  try {
    (void)make_specimen("broken/none");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("broken/naive, broken/bookend"));
  }
}

}  // namespace
}  // namespace sidelatch::sync
