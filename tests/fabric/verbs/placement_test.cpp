// Huge pages, NUMA nodes and pinned threads, on a stub of a machine with two nodes; then on this machine.
#include "fabric/verbs/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t k2M = 2 << 20;
constexpr std::uint64_t k1G = 1 << 30;

std::string error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no DeviceError";
}

// Two nodes; mlx5_0 is at node 1, with CPUs 8 to 15; the thread may use 6 to 9.
class StubPlatform final : public Platform {
 public:
  [[nodiscard]] std::optional<std::string> read_file(const std::string& path) const override {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::vector<std::string> list_folder(const std::string& path) const override {
    const auto found = folders.find(path);
    return found == folders.end() ? std::vector<std::string>{} : found->second;
  }
  [[nodiscard]] int map(std::uint64_t bytes, std::uint64_t page, std::byte*& where) const override {
    calls.emplace_back("map", bytes, page);
    where = memory.data();
    return map_error;
  }
  void unmap(std::byte* where, std::uint64_t bytes) const noexcept override {
    calls.emplace_back("unmap", bytes, where == memory.data() ? 0 : 1);
  }
  [[nodiscard]] int bind(std::byte* /*where*/, std::uint64_t bytes, std::uint32_t node) const override {
    calls.emplace_back("bind", bytes, node);
    return bind_error;
  }
  [[nodiscard]] int populate(std::byte* /*where*/, std::uint64_t bytes) const override {
    calls.emplace_back("populate", bytes, 0);
    return populate_error;
  }
  [[nodiscard]] int get_affinity(NumberList& cpus) const override {
    cpus = allowed;
    return get_affinity_error;
  }
  [[nodiscard]] int set_affinity(const NumberList& cpus) const override {
    pinned = cpus;
    return set_affinity_error;
  }

  std::map<std::string, std::string> files = {
      {"/sys/devices/system/node/has_memory", "0-1\n"},
      {"/sys/class/infiniband/mlx5_0/device/numa_node", "1\n"},
      {"/sys/class/infiniband/mlx5_0/device/local_cpulist", "8-15\n"},
      {"/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "7\n"},
      {"/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "5\n"},
      {"/sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "3\n"},
  };
  std::map<std::string, std::vector<std::string>> folders = {
      {"/sys/class/infiniband", {"mlx5_0", "rxe0"}},
      {"/sys/kernel/mm/hugepages", {"hugepages-1048576kB", "hugepages-2048kB"}},
  };
  NumberList allowed = {6, 7, 8, 9};
  int map_error = 0;
  int bind_error = 0;
  int populate_error = 0;
  int get_affinity_error = 0;
  int set_affinity_error = 0;
  // A recorded call: the function, bytes, and its other argument.
  using Call = std::tuple<std::string, std::uint64_t, std::uint64_t>;
  mutable std::vector<Call> calls;
  mutable NumberList pinned;
  mutable std::array<std::byte, 16> memory{};
};

using Call = StubPlatform::Call;

class PlacementOnAStub : public ::testing::Test {
 protected:
  [[nodiscard]] Placement place(std::uint64_t huge_pages, NumaNode numa, const std::string& device = "mlx5_0") const {
    DeviceOptions options;
    options.huge_pages = huge_pages;
    options.numa = numa;
    return {options, device, platform};
  }
  [[nodiscard]] std::string error_of_place(std::uint64_t huge_pages, NumaNode numa) const {
    return error_of([&] { static_cast<void>(place(huge_pages, numa)); });
  }
  [[nodiscard]] std::string error_of_obtain(const Placement& placement, std::uint64_t bytes) const {
    return error_of([&] { static_cast<void>(placement.obtain(bytes)); });
  }
  StubPlatform platform;
};

TEST(KernelLists, AreNumbersAndRanges) {
  EXPECT_THAT(parse_list("0-3,8,10-11\n", "f"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_list("5", "f"), ElementsAre(5));
  EXPECT_THAT(parse_list("7-7\n", "f"), ElementsAre(7));
  EXPECT_THAT(parse_list("\n", "f"), IsEmpty());  // a node without CPUs
  EXPECT_THAT(parse_list("", "f"), IsEmpty());
}

TEST(KernelLists, OthersAreQuotedWithTheirFile) {
  for (const char* text :
       {",",    "1,", ",1",  "1,,2", "1-",  "-1",  "3-1",   "1--2",  "1-2-3",        "+1",         " 1",     "1 ",
        "1, 2", "a",  "0x1", "1.5",  "2,1", "1,1", "1-3,2", "65536", "0-4294967295", "4294967296", "0-3:2/4"}) {
    EXPECT_THAT(error_of([&] { static_cast<void>(parse_list(text, "/sys/list")); }),
                AllOf(HasSubstr("/sys/list"), HasSubstr("'" + std::string(text) + "'")))
        << text;
  }
  EXPECT_THAT(error_of([] { static_cast<void>(parse_list("1\n\n", "/sys/list")); }), HasSubstr("/sys/list"));
}

TEST(KernelLists, AreWrittenAsTheKernelDoes) {
  EXPECT_EQ(format_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(format_list({}), "");
  EXPECT_EQ(format_list({4}), "4");
}

// ---- Nodes.

TEST_F(PlacementOnAStub, AnyNodeBindsNothing) {
  const Placement placement = place(0, NumaNode::any());
  EXPECT_EQ(placement.node(), std::nullopt);
  EXPECT_EQ(placement.obtain(100), platform.memory.data());
  EXPECT_THAT(platform.calls, ElementsAre(Call("map", 100, 0)));
}

TEST_F(PlacementOnAStub, MemoryIsAtTheNodeOfTheNic) {
  const Placement placement = place(0, NumaNode::nic());
  EXPECT_EQ(placement.node(), 1U);
  static_cast<void>(placement.obtain(100));
  EXPECT_THAT(platform.calls, ElementsAre(Call("map", 100, 0), Call("bind", 100, 1)));
}

TEST_F(PlacementOnAStub, MemoryIsAtTheNodeThatWasAskedFor) {
  EXPECT_EQ(place(0, NumaNode::number(0)).node(), 0U);
  EXPECT_EQ(place(0, NumaNode::number(1)).node(), 1U);
}

TEST_F(PlacementOnAStub, ANicWhoseNodeIsUnknownBindsNothing) {
  EXPECT_EQ(place(0, NumaNode::nic(), "rxe0").node(), std::nullopt);  // no file
  platform.files["/sys/class/infiniband/mlx5_0/device/numa_node"] = "-1\n";
  EXPECT_EQ(place(0, NumaNode::nic()).node(), std::nullopt);
}

TEST_F(PlacementOnAStub, OneNodeOrAKernelWithoutNodesBindsNothing) {
  platform.files["/sys/devices/system/node/has_memory"] = "0\n";
  EXPECT_EQ(place(0, NumaNode::nic()).node(), std::nullopt);
  EXPECT_EQ(place(0, NumaNode::number(0)).node(), std::nullopt);
  platform.files.erase("/sys/devices/system/node/has_memory");
  EXPECT_EQ(place(0, NumaNode::nic()).node(), std::nullopt);
}

TEST_F(PlacementOnAStub, ANodeThatDoesNotExistIsAnErrorThatListsTheNodes) {
  EXPECT_THAT(error_of_place(0, NumaNode::number(2)), AllOf(HasSubstr("no node 2"), HasSubstr("0-1")));
  platform.files["/sys/devices/system/node/has_memory"] = "0\n";
  EXPECT_THAT(error_of_place(0, NumaNode::number(1)), AllOf(HasSubstr("no node 1"), HasSubstr("memory: 0")));
  platform.files.erase("/sys/devices/system/node/has_memory");
  EXPECT_THAT(error_of_place(0, NumaNode::number(0)), HasSubstr("a kernel without NUMA"));
}

TEST_F(PlacementOnAStub, ANicAtANodeWithoutMemoryIsAnError) {
  platform.files["/sys/devices/system/node/has_memory"] = "0,2\n";
  EXPECT_THAT(error_of_place(0, NumaNode::nic()), AllOf(HasSubstr("mlx5_0 is at node 1"), HasSubstr("0,2")));
}

TEST_F(PlacementOnAStub, NonsenseOfTheKernelIsNamed) {
  for (const char* text : {"", "\n", "-2\n", "one\n", "1 \n"}) {
    platform.files["/sys/class/infiniband/mlx5_0/device/numa_node"] = text;
    EXPECT_THAT(error_of_place(0, NumaNode::nic()), HasSubstr("/sys/class/infiniband/mlx5_0/device/numa_node")) << text;
  }
  platform.files["/sys/devices/system/node/has_memory"] = "0-x\n";
  EXPECT_THAT(error_of_place(0, NumaNode::nic()), HasSubstr("has_memory contains '0-x'"));
}

TEST_F(PlacementOnAStub, MemoryThatCannotBeBoundIsGivenBack) {
  const Placement placement = place(k2M, NumaNode::nic());
  const std::array cases = {std::pair(EPERM, "SYS_NICE"), std::pair(EINVAL, "cpuset"), std::pair(ENOMEM, "numa = any")};
  for (const auto& [error, advice] : cases) {
    platform.calls.clear();
    platform.bind_error = error;
    EXPECT_THAT(error_of_obtain(placement, 100), AllOf(HasSubstr("node 1"), HasSubstr(advice)));
    EXPECT_THAT(platform.calls, ElementsAre(Call("map", k2M, k2M), Call("bind", k2M, 1), Call("unmap", k2M, 0)));
  }
}

// ---- Huge pages.

TEST_F(PlacementOnAStub, HugePagesAreWholeAndAreGivenBackWhole) {
  const Placement placement = place(k2M, NumaNode::any());
  const std::map<std::uint64_t, std::uint64_t> cases = {{1, k2M}, {k2M - 1, k2M}, {k2M, k2M}, {k2M + 1, 2 * k2M}};
  for (const auto& [asked, taken] : cases) {
    platform.calls.clear();
    placement.give_back(placement.obtain(asked), asked);
    EXPECT_THAT(platform.calls,
                ElementsAre(Call("map", taken, k2M), Call("populate", taken, 0), Call("unmap", taken, 0)))
        << asked;
  }
}

TEST_F(PlacementOnAStub, OrdinaryMemoryIsAsLongAsAskedFor) {
  const Placement placement = place(0, NumaNode::any());
  placement.give_back(placement.obtain(5000), 5000);
  EXPECT_THAT(platform.calls, ElementsAre(Call("map", 5000, 0), Call("unmap", 5000, 0)));
}

TEST_F(PlacementOnAStub, PagesAreBoundBeforeTheyAreTaken) {
  static_cast<void>(place(k1G, NumaNode::nic()).obtain(1));
  EXPECT_THAT(platform.calls, ElementsAre(Call("map", k1G, k1G), Call("bind", k1G, 1), Call("populate", k1G, 0)));
}

TEST_F(PlacementOnAStub, APageSizeThatTheKernelLacksIsAnErrorThatListsTheSizes) {
  EXPECT_THAT(error_of_place(4 << 20, NumaNode::any()),
              AllOf(HasSubstr("huge_pages is 4194304"), HasSubstr("hugepages-1048576kB, hugepages-2048kB")));
  platform.folders.clear();
  EXPECT_THAT(error_of_place(k2M, NumaNode::any()), HasSubstr("it has none"));
}

TEST_F(PlacementOnAStub, MissingHugePagesAreCountedAndTheErrorSaysWhereTheyComeFrom) {
  const Placement placement = place(k2M, NumaNode::any());
  platform.map_error = ENOMEM;
  EXPECT_THAT(error_of_obtain(placement, 3 * k2M),
              AllOf(HasSubstr("6291456 bytes"), HasSubstr("7 are free"), HasSubstr("5 of them"),
                    HasSubstr("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")));
  EXPECT_THAT(platform.calls, ElementsAre(Call("map", 3 * k2M, k2M)));
  platform.files.clear();
  EXPECT_THAT(error_of_obtain(placement, 1), HasSubstr("unknown are free"));
}

TEST_F(PlacementOnAStub, HugePagesThatTheNodeLacksAreCountedThere) {
  const Placement placement = place(k2M, NumaNode::nic());
  platform.populate_error = EFAULT;
  EXPECT_THAT(error_of_obtain(placement, k2M),
              AllOf(HasSubstr("from node 1"), HasSubstr("3 of them are free"),
                    HasSubstr("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages")));
  EXPECT_EQ(platform.calls.back(), Call("unmap", k2M, 0));
}

TEST_F(PlacementOnAStub, AKernelThatCannotPopulateLeavesItToTheRegistration) {
  platform.populate_error = EINVAL;
  EXPECT_EQ(place(k2M, NumaNode::any()).obtain(1), platform.memory.data());
}

TEST_F(PlacementOnAStub, MoreThanThereIsAddressSpaceIsAnError) {
  EXPECT_THAT(error_of_obtain(place(k2M, NumaNode::any()), ~std::uint64_t{0}), HasSubstr("18446744073709551615 bytes"));
  EXPECT_THAT(platform.calls, IsEmpty());
  platform.map_error = ENOMEM;
  EXPECT_THAT(error_of_obtain(place(0, NumaNode::any()), ~std::uint64_t{0}), HasSubstr("18446744073709551615 bytes"));
}

TEST(PlacementOptions, WrongPageSizesAreNamed) {
  for (const std::uint64_t wrong : {std::uint64_t{1}, std::uint64_t{4096}, k2M + 1, 3 * k2M, std::uint64_t{1} << 35}) {
    DeviceOptions options;
    options.huge_pages = wrong;
    try {
      options.validate();
      ADD_FAILURE() << wrong;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("huge_pages is " + std::to_string(wrong)));
    }
  }
  for (const std::uint64_t right : {std::uint64_t{0}, std::uint64_t{1} << 16, k2M, k1G}) {
    DeviceOptions options;
    options.huge_pages = right;
    EXPECT_NO_THROW(options.validate());
  }
}

// ---- Threads.

TEST_F(PlacementOnAStub, AThreadKeepsThoseOfItsCpusThatAreNear) {
  const std::optional<NumberList> cpus = near_cpus("mlx5_0", platform);
  ASSERT_TRUE(cpus);
  EXPECT_THAT(*cpus, ElementsAre(8, 9));
  pin_thread(*cpus, platform);
  EXPECT_THAT(platform.pinned, ElementsAre(8, 9));
}

TEST_F(PlacementOnAStub, ADeviceThatIsNotHardwareIsNearToNothing) {
  EXPECT_EQ(near_cpus("rxe0", platform), std::nullopt);
}

TEST_F(PlacementOnAStub, ADeviceThatDoesNotExistIsAnErrorThatListsTheDevices) {
  for (const char* device : {"mlx5_1", "", "../infiniband/mlx5_0"}) {
    EXPECT_THAT(error_of([&] { static_cast<void>(near_cpus(device, platform)); }),
                AllOf(HasSubstr("'" + std::string(device) + "'"), HasSubstr("mlx5_0, rxe0")));
  }
}

TEST_F(PlacementOnAStub, AThreadThatMayUseNoneOfTheNearCpusIsAnError) {
  platform.allowed = {0, 1, 2, 7};
  EXPECT_THAT(error_of([&] { static_cast<void>(near_cpus("mlx5_0", platform)); }),
              AllOf(HasSubstr("mlx5_0 (8-15)"), HasSubstr("(0-2,7)")));
  platform.files["/sys/class/infiniband/mlx5_0/device/local_cpulist"] = "\n";
  EXPECT_THAT(error_of([&] { static_cast<void>(near_cpus("mlx5_0", platform)); }), HasSubstr("mlx5_0 (none)"));
}

TEST_F(PlacementOnAStub, WhatTheSystemRefusesIsSaid) {
  platform.set_affinity_error = EINVAL;
  EXPECT_THAT(error_of([&] { pin_thread({8, 9}, platform); }), AllOf(HasSubstr("8-9"), HasSubstr("Invalid argument")));
  platform.get_affinity_error = EPERM;
  EXPECT_THAT(error_of([&] { static_cast<void>(near_cpus("mlx5_0", platform)); }), HasSubstr("not permitted"));
}

// ---- This machine.

TEST(PlacementHere, PinsAThreadToOneOfItsCpus) {
  const Platform& platform = system_platform();
  NumberList before;
  ASSERT_EQ(platform.get_affinity(before), 0);
  ASSERT_THAT(before, ::testing::Not(IsEmpty()));
  pin_thread({before.back()});
  cpu_set_t now;
  CPU_ZERO(&now);
  const int result = ::sched_getaffinity(0, sizeof now, &now);
  pin_thread(before);
  ASSERT_EQ(result, 0);
  EXPECT_EQ(CPU_COUNT(&now), 1);
  EXPECT_TRUE(CPU_ISSET(before.back(), &now));
  NumberList after;
  ASSERT_EQ(platform.get_affinity(after), 0);
  EXPECT_EQ(after, before);
  EXPECT_THAT(error_of([] { pin_thread({}); }), HasSubstr("cannot pin"));
}

TEST(PlacementHere, ReadsFilesAndFolders) {
  const Platform& platform = system_platform();
  EXPECT_EQ(platform.read_file("/proc/sys/kernel/ostype"), "Linux\n");
  EXPECT_EQ(platform.read_file("/proc/no/such/file"), std::nullopt);
  EXPECT_EQ(platform.read_file("/proc/sys/kernel/ostype/below"), std::nullopt);
  EXPECT_EQ(platform.read_file("/dev/null"), "");
  EXPECT_THAT(error_of([&] { static_cast<void>(platform.read_file("/proc")); }), HasSubstr("cannot read /proc"));
  EXPECT_THAT(platform.list_folder("/proc/sys"), ::testing::Contains("kernel"));
  EXPECT_THAT(platform.list_folder("/no/such/folder"), IsEmpty());
}

TEST(PlacementHere, MemoryIsZeroedAndAligned) {
  const Placement placement({}, "none");
  std::byte* const memory = placement.obtain(10'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0U);
  EXPECT_TRUE(std::all_of(memory, memory + 10'000, [](std::byte byte) { return byte == std::byte{0}; }));
  memory[9'999] = std::byte{1};
  placement.give_back(memory, 10'000);
}

TEST(PlacementHere, BindsMemoryToANode) {
  const Platform& platform = system_platform();
  const std::optional<std::string> nodes = platform.read_file("/sys/devices/system/node/has_memory");
  if (!nodes || numa_available() < 0) {
    GTEST_SKIP() << "a kernel without NUMA, or a container that forbids get_mempolicy(2)";
  }
  const std::uint32_t node = parse_list(*nodes, "has_memory").back();
  std::byte* memory = nullptr;
  ASSERT_EQ(platform.map(8192, 0, memory), 0);
  const int error = platform.bind(memory, 8192, node);
  memory[0] = std::byte{1};
  int policy = -1;
  int is_at = -1;
  const long read_policy = ::get_mempolicy(&policy, nullptr, 0, memory, MPOL_F_ADDR);
  const long read_node = ::get_mempolicy(&is_at, nullptr, 0, memory, MPOL_F_ADDR | MPOL_F_NODE);
  // More nodes than any kernel has.
  const int wrong = platform.bind(memory, 8192, 1 << 15);
  platform.unmap(memory, 8192);
  if (error == EPERM) {
    GTEST_SKIP() << "a container that forbids mbind(2)";
  }
  EXPECT_EQ(error, 0);
  EXPECT_EQ(read_policy, 0);
  EXPECT_EQ(policy, MPOL_BIND);
  EXPECT_EQ(read_node, 0);
  EXPECT_EQ(is_at, static_cast<int>(node));
  EXPECT_EQ(wrong, EINVAL);
}

// If there are free huge pages, one is taken; otherwise the error counts them.
TEST(PlacementHere, TakesHugePagesIfThereAreAny) {
  const Platform& platform = system_platform();
  const std::string folder = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  const auto count = [&](const char* file) {
    const std::optional<std::string> text = platform.read_file(folder + file);
    return text ? std::stoul(*text) : 0;
  };
  DeviceOptions options;
  options.huge_pages = k2M;
  if (!platform.read_file(folder + "free_hugepages")) {
    EXPECT_THAT(error_of([&] { const Placement placement(options, "none"); }), HasSubstr("hugepages-2048kB"));
    return;
  }
  const Placement placement(options, "none");
  const unsigned long free_before = count("free_hugepages");
  if (free_before == count("resv_hugepages") && count("nr_overcommit_hugepages") == 0) {
    EXPECT_THAT(error_of([&] { static_cast<void>(placement.obtain(1)); }),
                AllOf(HasSubstr(std::to_string(free_before) + " are free"), HasSubstr(folder + "nr_hugepages")));
    return;
  }
  std::byte* const memory = placement.obtain(1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % k2M, 0U);
  memory[k2M - 1] = std::byte{1};
  placement.give_back(memory, 1);
  EXPECT_EQ(count("free_hugepages"), free_before);
}

TEST(PlacementHere, NoThreadIsPinnedNearADeviceThatDoesNotExist) {
  EXPECT_THAT(error_of([] { pin_thread_near("nosuch0"); }), HasSubstr("'nosuch0'"));
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
