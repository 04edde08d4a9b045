// Regions as values, and the nodes that create them.
#include "two_nodes.h"

#include <stdexcept>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(AccessRights, CombineAndPrint) {
  EXPECT_EQ(to_string(Access::local_read), "local_read");
  EXPECT_EQ(to_string(Access::local_write), "local_write");
  EXPECT_EQ(to_string(Access::remote_read | Access::remote_atomic), "remote_read|remote_atomic");
  EXPECT_EQ(to_string(Access::remote_all), "local_write|remote_read|remote_write|remote_atomic");
}

TEST(AccessRights, AllowOnlyWhatIsContained) {
  constexpr Access kBoth = Access::remote_read | Access::remote_write;
  EXPECT_TRUE(allows(kBoth, Access::remote_read));
  EXPECT_TRUE(allows(kBoth, kBoth));
  EXPECT_TRUE(allows(kBoth, Access::local_read));
  EXPECT_FALSE(allows(kBoth, Access::remote_atomic));
  EXPECT_FALSE(allows(Access::remote_read, kBoth));
}

TEST(MemoryRegions, AreZeroedPageAlignedAndDescribeThemselves) {
  TwoNodes world;
  const MemoryRegion region = world.client.allocate(5000, Access::remote_read);
  EXPECT_EQ(region.length(), 5000U);
  EXPECT_EQ(region.access(), Access::remote_read);
  EXPECT_EQ(region.bytes().size(), 5000U);
  EXPECT_THAT(region.bytes(), Each(std::byte{0}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.bytes().data()) % 4096, 0U);
  EXPECT_EQ(region.remote().address.value % 4096, 0U);
  EXPECT_EQ(region.local(10, 20).data, region.bytes().data() + 10);
  EXPECT_EQ(region.remote(10, 20).address, region.remote().address + 10);
  EXPECT_EQ(region.remote(10, 20).rkey, region.rkey());
  EXPECT_EQ(region.local(10, 20).lkey, region.lkey());
}

TEST(MemoryRegions, RangesOutsideAreRefused) {
  TwoNodes world;
  const MemoryRegion region = world.client.allocate(100, Access::remote_read);
  EXPECT_THAT([&] { (void)region.local(93, 8); }, ThrowsMessage<std::out_of_range>(HasSubstr("at most 100")));
  EXPECT_THAT([&] { (void)region.remote(101, 0); }, ThrowsMessage<std::out_of_range>(HasSubstr("at most 100")));
}

TEST(MemoryRegions, OfNoBytesAreRefused) {
  TwoNodes world;
  EXPECT_THAT([&] { (void)world.client.allocate(0, Access::local_read); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("0 bytes"), HasSubstr("at least 1"))));
  EXPECT_THAT([&] { (void)world.client.register_memory({}, Access::local_read); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("0 bytes"), HasSubstr("at least 1"))));
  const std::span<std::byte> nowhere(static_cast<std::byte*>(nullptr), 64);
  EXPECT_THAT([&] { (void)world.client.register_memory(nowhere, Access::local_read); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("64 bytes"), HasSubstr("null pointer"))));
}

TEST(MemoryRegions, ThatNoMachineCanHoldAreRefusedWithTheirLength) {
  TwoNodes world;
  EXPECT_THAT([&] { (void)world.client.allocate(1ULL << 62, Access::local_read); },
              ThrowsMessage<std::runtime_error>(HasSubstr("4611686018427387904 bytes")));
}

TEST(MemoryRegions, MoveAndLeaveAnEmptyHandleBehind) {
  TwoNodes world;
  MemoryRegion first = world.client.allocate(64, Access::local_write);
  const LKey key = first.lkey();
  MemoryRegion second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(first.length(), 0U);
  EXPECT_EQ(second.lkey(), key);
  EXPECT_NE(world.client.find(key), nullptr);
  second = world.client.allocate(64, Access::local_write);
  EXPECT_EQ(world.client.find(key), nullptr);
  EXPECT_NE(world.client.find(second.lkey()), nullptr);
  second = MemoryRegion{};
  EXPECT_FALSE(second.valid());
}

TEST(MemoryRegions, KeysNameLiveRegionsOnly) {
  TwoNodes world;
  EXPECT_EQ(world.client.find(LKey{0}), nullptr);
  EXPECT_EQ(world.client.find(RKey{0xffffffff}), nullptr);
  std::vector<std::uint32_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const MemoryRegion region = world.client.allocate(64, Access::local_write);
    const Node::Registration* found = world.client.find(region.rkey());
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->length, 64U);
    seen.push_back(region.lkey().value);
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(world.client.find(LKey{seen.front()}), nullptr);
}

TEST(MemoryRegions, OfTheCallersMemoryShowItsBytes) {
  TwoNodes world;
  std::vector<std::byte> memory(100, std::byte{7});
  const MemoryRegion region = world.client.register_memory(memory, Access::local_write);
  EXPECT_EQ(region.bytes().data(), memory.data());
  EXPECT_EQ(region.bytes().size(), 100U);
  EXPECT_THAT(memory, Each(std::byte{7}));
}

TEST(Nodes, HaveTheNameTheyWereGiven) {
  TwoNodes world;
  EXPECT_EQ(world.client.name(), "client");
  EXPECT_EQ(world.storage.name(), "storage");
  EXPECT_EQ(world.simulation.kind(), "sim");
  EXPECT_EQ(&world.client.reactor(), &world.reactor());
  EXPECT_EQ(&world.qp->node(), &world.client);
}

TEST(Nodes, ForgetQueuePairsInAnyOrder) {
  // A region is free once no queue pair uses it, so destroyed queue pairs must not be asked.
  TwoNodes world;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  MemoryRegion region = world.client.allocate(64, Access::local_write);
  const WorkRequest in = read(region.local(), world.table.remote());
  for (int i = 0; i < 5; ++i) {
    queue_pairs.push_back(world.client.connect(world.storage));
    ASSERT_TRUE(queue_pairs.back()->post({&in, 1}));
  }
  for (const std::size_t i : {1UL, 4UL, 0UL, 2UL}) {
    queue_pairs[i].reset();
    EXPECT_THROW(region.deregister(), FabricError);
  }
  queue_pairs[3].reset();
  region.deregister();
  EXPECT_FALSE(region.valid());
}

}  // namespace
}  // namespace sidelatch::fabric
