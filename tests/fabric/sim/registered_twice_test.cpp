// Memory that is registered more than once: each region has its own addresses, but a word has one lock slot (rule 8).
#include "../two_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>

namespace sidelatch::fabric {
namespace {
namespace registered_twice {

using ::testing::HasSubstr;

constexpr std::uint64_t kPage = 4096;
constexpr int kTimes = 500;

Task<void> add(QueuePair& qp, RemoteSpan word) {
  for (int i = 0; i < kTimes; ++i) {
    co_await qp.fetch_add(word, 1);
  }
}

sim::Profile with_bits(std::uint64_t address_bits) {
  sim::Profile profile;
  profile.lock_table.address_bits = address_bits;
  profile.lock_table.load_ns = 100;
  return profile;
}

// Pages that start at a page.
struct Pages {
  alignas(kPage) std::array<std::byte, 4 * kPage> bytes{};
  [[nodiscard]] std::span<std::byte> part(std::uint64_t first, std::uint64_t count) {
    return std::span(bytes).subspan(first * kPage, count * kPage);
  }
};

TEST(RegisteredTwice, AtomicsThroughBothRegionsExcludeEachOther) {
  for (const std::uint64_t bits : {12U, 13U, 16U, 21U}) {
    auto pages = std::make_unique<Pages>();
    TwoNodes world({.profile = with_bits(bits)});
    const MemoryRegion whole = world.storage.register_memory(pages->part(0, 4), Access::remote_all);
    const MemoryRegion between = world.storage.allocate(kPage, Access::remote_all);
    const MemoryRegion part = world.storage.register_memory(pages->part(1, 2), Access::remote_all);
    const MemoryRegion again = world.storage.register_memory(pages->part(0, 4), Access::remote_all);
    const std::uint64_t word = 2 * kPage + 8;
    const auto first = world.client.connect(world.storage);
    const auto second = world.client.connect(world.storage);
    const auto third = world.client.connect(world.storage);
    world.reactor().spawn(add(*first, whole.remote(word, 8)));
    world.reactor().spawn(add(*second, part.remote(word - kPage, 8)));
    world.reactor().spawn(add(*third, again.remote(word, 8)));
    world.reactor().run();
    EXPECT_EQ(TwoNodes::load(whole, word / 8), 3U * kTimes) << bits << " bits";
  }
}

TEST(RegisteredTwice, ThePartMayComeFirst) {
  auto pages = std::make_unique<Pages>();
  TwoNodes world({.profile = with_bits(16)});
  const MemoryRegion part = world.storage.register_memory(pages->part(3, 1), Access::remote_all);
  const MemoryRegion whole = world.storage.register_memory(pages->part(0, 4), Access::remote_all);
  const auto other = world.client.connect(world.storage);
  world.reactor().spawn(add(*world.qp, part.remote(0, 8)));
  world.reactor().spawn(add(*other, whole.remote(3 * kPage, 8)));
  world.reactor().run();
  EXPECT_EQ(TwoNodes::load(part, 0), 2U * kTimes);
}

// The parts' addresses were chosen before anybody knew that they belong together.
TEST(RegisteredTwice, AWholeWhosePartsDisagreeIsRefused) {
  auto pages = std::make_unique<Pages>();
  TwoNodes world({.profile = with_bits(16)});
  const MemoryRegion low = world.storage.register_memory(pages->part(0, 1), Access::remote_all);
  MemoryRegion high = world.storage.register_memory(pages->part(3, 1), Access::remote_all);
  try {
    (void)world.storage.register_memory(pages->part(0, 4), Access::remote_all);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("node storage overlaps two regions"));
  }
  high = MemoryRegion();
  EXPECT_NO_THROW((void)world.storage.register_memory(pages->part(0, 4), Access::remote_all));
}

TEST(RegisteredTwice, AWholeIsRegisteredAfterItsPartsIfOnlyTheOffsetInAPageChoosesTheSlot) {
  auto pages = std::make_unique<Pages>();
  TwoNodes world({.profile = with_bits(12)});
  const MemoryRegion low = world.storage.register_memory(pages->part(0, 1), Access::remote_all);
  const MemoryRegion high = world.storage.register_memory(pages->part(3, 1), Access::remote_all);
  EXPECT_NO_THROW((void)world.storage.register_memory(pages->part(0, 4), Access::remote_all));
}

}  // namespace registered_twice
}  // namespace
}  // namespace sidelatch::fabric
