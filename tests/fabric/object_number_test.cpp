#include <sidelatch/fabric/object_number.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace sidelatch::fabric {
namespace {

TEST(ObjectNumber, DiffersFromAllOthers) {
  const std::uint64_t first = next_object_number();
  EXPECT_NE(first, 0U);
  EXPECT_NE(next_object_number(), first);
}

TEST(ObjectNumber, IsTheSameEachTimeObjectsAreCountedAnew) {
  const auto make = [] {
    const CountAnew numbers;
    const std::uint64_t first = next_object_number();
    {
      const CountAnew inner;
      EXPECT_EQ(next_object_number(), 1U);
    }
    return std::pair{first, next_object_number()};
  };
  const std::uint64_t before = next_object_number();
  EXPECT_EQ(make(), make());
  EXPECT_EQ(make(), (std::pair{std::uint64_t{1}, std::uint64_t{2}}));
  EXPECT_EQ(next_object_number(), before + 1) << "others are counted on";
}

}  // namespace
}  // namespace sidelatch::fabric
