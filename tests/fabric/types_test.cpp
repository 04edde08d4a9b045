// Addresses, spans and time.
#include <sidelatch/fabric/types.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <stdexcept>

namespace sidelatch::fabric {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

TEST(Types, ASubspanKeepsTheKeyAndMovesTheAddress) {
  const RemoteSpan remote{{1000}, 100, {7}};
  const RemoteSpan part = remote.subspan(40, 60);
  EXPECT_EQ(part.address.value, 1040U);
  EXPECT_EQ(part.length, 60U);
  EXPECT_EQ(part.rkey, RKey{7});

  std::array<std::byte, 100> bytes{};
  const LocalSpan local{bytes.data(), bytes.size(), {9}};
  const LocalSpan middle = local.subspan(1, 2);
  EXPECT_EQ(middle.data, bytes.data() + 1);
  EXPECT_EQ(middle.bytes().size(), 2U);
  EXPECT_EQ(middle.lkey, LKey{9});
}

TEST(Types, ASubspanMayBeEmptyAtTheVeryEnd) {
  const RemoteSpan remote{{1000}, 100, {7}};
  EXPECT_EQ(remote.subspan(100, 0).length, 0U);
  EXPECT_EQ(remote.subspan(0, 100).length, 100U);
}

TEST(Types, ASubspanThatLeavesItsParentIsRefusedWithTheRangeAndTheLimit) {
  const RemoteSpan remote{{1000}, 100, {7}};
  EXPECT_THAT([&] { (void)remote.subspan(97, 4); },
              ThrowsMessage<std::out_of_range>(AllOf(HasSubstr("97"), HasSubstr("4"), HasSubstr("at most 100"))));
  const LocalSpan local{nullptr, 16, {9}};
  EXPECT_THAT([&] { (void)local.subspan(17, 0); },
              ThrowsMessage<std::out_of_range>(AllOf(HasSubstr("17"), HasSubstr("at most 16"))));
}

TEST(Types, ASubspanWhoseEndWrapsAroundIsRefused) {
  const RemoteSpan remote{{1000}, 100, {7}};
  EXPECT_THROW((void)remote.subspan(kHuge, 2), std::out_of_range);
  EXPECT_THROW((void)remote.subspan(2, kHuge), std::out_of_range);
  EXPECT_THROW((void)remote.subspan(kHuge, kHuge), std::out_of_range);
}

TEST(Types, RemoteAddressesCountBytes) {
  constexpr RemoteAddress base{4096};
  EXPECT_EQ((base + 64) - base, 64U);
  EXPECT_LT(base, base + 1);
}

TEST(Types, NanosecondsRoundToTheNearestPicosecond) {
  EXPECT_EQ(from_ns(1.5), Duration{1500});
  EXPECT_EQ(from_ns(0.0006), Duration{1});
  EXPECT_EQ(from_ns(0.0004), Duration{0});
  EXPECT_EQ(from_ns(-2.0), Duration{-2000});
  EXPECT_DOUBLE_EQ(to_ns(Duration{2500}), 2.5);
}

}  // namespace
}  // namespace sidelatch::fabric
