// Memory in huge pages and at one of the guest's two nodes, under a device that is no hardware.
#include "requests.h"

#include "fabric/verbs/placement.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numaif.h>

#include <cstring>
#include <fstream>
#include <string>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kHugePages = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
constexpr std::uint64_t kHugePage = 2 << 20;

std::uint64_t counter(const std::string& file) { return std::stoull(*system_platform().read_file(kHugePages + file)); }

void reserve_huge_pages(int count) { std::ofstream(std::string(kHugePages) + "nr_hugepages") << count << std::flush; }

// That requests reach the first and the last word of a region of `storage`.
void expect_works(VerbsFabric& fabric, const MemoryRegion& region, Node& storage) {
  Node& client = fabric.add_node("client");
  auto qp = client.connect(storage);
  for (const std::uint64_t offset : {std::uint64_t{0}, region.length() - 8}) {
    EXPECT_EQ(fabric.reactor().run(add(qp.get(), region.remote(offset, 8), 7)), 0U);
    std::uint64_t word = 0;
    std::memcpy(&word, region.bytes().data() + offset, sizeof word);
    EXPECT_EQ(word, 7U);
  }
}

int node_of(const MemoryRegion& region) {
  int node = -1;
  EXPECT_EQ(::get_mempolicy(&node, nullptr, 0, region.bytes().data(), MPOL_F_ADDR | MPOL_F_NODE), 0);
  return node;
}

// The operating system does not know the place of rxe0, so nothing is bound or pinned, and all works.
TEST(VerbsPlacement, NearADeviceThatIsNoHardwareIsEverywhere) {
  NumberList before;
  ASSERT_EQ(system_platform().get_affinity(before), 0);
  VerbsFabric fabric({.device = "rxe0", .numa = NumaNode::nic(), .pin_thread = true});
  NumberList after;
  ASSERT_EQ(system_platform().get_affinity(after), 0);
  EXPECT_EQ(after, before);
  EXPECT_FALSE(pin_thread_near("rxe0"));
  Node& storage = fabric.add_node("storage");
  const MemoryRegion region = storage.allocate(4096, Access::remote_all);
  expect_works(fabric, region, storage);
  EXPECT_THROW(pin_thread_near("rxe1"), DeviceError);
}

TEST(VerbsPlacement, MemoryIsAtTheNodeThatWasAskedFor) {
  for (const std::uint32_t node : {0U, 1U}) {
    VerbsFabric fabric({.numa = NumaNode::number(node)});
    Node& storage = fabric.add_node("storage");
    const MemoryRegion region = storage.allocate(4096, Access::remote_all);
    EXPECT_EQ(node_of(region), static_cast<int>(node));
    expect_works(fabric, region, storage);
  }
}

TEST(VerbsPlacement, ANodeThatDoesNotExistIsAnError) {
  try {
    const VerbsFabric fabric({.numa = NumaNode::number(2)});
    ADD_FAILURE();
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("no node 2"), HasSubstr("0-1")));
  }
}

TEST(VerbsPlacement, RegionsTakeHugePagesAndGiveThemBack) {
  reserve_huge_pages(3);
  ASSERT_EQ(counter("free_hugepages"), 3U);
  {
    VerbsFabric fabric({.huge_pages = kHugePage});
    Node& storage = fabric.add_node("storage");
    {
      const MemoryRegion region = storage.allocate(kHugePage + 4096, Access::remote_all);
      EXPECT_EQ(region.length(), kHugePage + 4096);
      EXPECT_EQ(counter("free_hugepages"), 1U);
      expect_works(fabric, region, storage);
      EXPECT_THROW(static_cast<void>(storage.allocate(2 * kHugePage, Access::remote_all)), DeviceError);
    }
    EXPECT_EQ(counter("free_hugepages"), 3U);
    const MemoryRegion all = storage.allocate(3 * kHugePage, Access::remote_all);
    EXPECT_EQ(counter("free_hugepages"), 0U);
  }
  EXPECT_EQ(counter("free_hugepages"), 3U);
  reserve_huge_pages(0);
  VerbsFabric fabric({.huge_pages = kHugePage});
  Node& storage = fabric.add_node("storage");
  try {
    static_cast<void>(storage.allocate(1, Access::remote_all));
    ADD_FAILURE();
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("0 are free"), HasSubstr("nr_hugepages")));
  }
}

// More pages than one node has, although the machine has enough: an error, not a signal.
TEST(VerbsPlacement, HugePagesThatOnlyTheOtherNodeHasAreAnError) {
  reserve_huge_pages(0);
  std::ofstream("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages") << 2 << std::flush;
  ASSERT_EQ(counter("free_hugepages"), 2U);
  VerbsFabric fabric({.huge_pages = kHugePage, .numa = NumaNode::number(1)});
  Node& storage = fabric.add_node("storage");
  try {
    static_cast<void>(storage.allocate(1, Access::remote_all));
    ADD_FAILURE();
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("node 1"), HasSubstr("0 of them are free")));
  }
  EXPECT_EQ(counter("free_hugepages"), 2U);
  reserve_huge_pages(0);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
