// What a node gives back that it could not use.
#include <sidelatch/fabric/node.h>

#include <sidelatch/fabric/queue_pair.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Counts the memory of its regions.
class CountingNode final : public Node {
 public:
  CountingNode() : Node("storage") {}
  CountingNode(const CountingNode&) = delete;
  CountingNode& operator=(const CountingNode&) = delete;
  ~CountingNode() override { release_memory(); }

  using Node::connect;
  [[nodiscard]] Reactor& reactor() override { throw std::logic_error("no reactor"); }
  [[nodiscard]] std::unique_ptr<QueuePair> connect(Node& /*target*/, const QueuePairOptions& /*options*/) override {
    throw std::logic_error("no queue pairs");
  }
  void revoke(QueuePair& /*queue_pair*/) override { throw std::logic_error("no queue pairs"); }

  std::uint64_t obtained = 0;  ///< bytes that were not returned
  bool places = true;

 private:
  void place_region(Registration& registration) override {
    if (!places) {
      throw std::runtime_error("the NIC takes no region");
    }
    registration.address = {reinterpret_cast<std::uintptr_t>(registration.data)};
  }
  void region_removed(Registration& /*registration*/, bool /*in_use*/) noexcept override {}
  [[nodiscard]] std::byte* obtain_memory(std::uint64_t bytes) override {
    std::byte* const memory = Node::obtain_memory(bytes);
    obtained += bytes;
    return memory;
  }
  void return_memory(std::byte* memory, std::uint64_t bytes) noexcept override {
    obtained -= bytes;
    Node::return_memory(memory, bytes);
  }
};

TEST(Nodes, KeepNoMemoryOfARegionThatTheNicDoesNotTake) {
  CountingNode node;
  node.places = false;
  EXPECT_THROW(static_cast<void>(node.allocate(4096, Access::remote_all)), std::runtime_error);
  EXPECT_EQ(node.obtained, 0U);
  node.places = true;
  const MemoryRegion region = node.allocate(4096, Access::remote_all);
  EXPECT_EQ(node.obtained, 4096U);
}

// A key has 20 bits for the number of its region.
TEST(Nodes, KeepNoMemoryOfARegionTooMany) {
  CountingNode node;
  std::array<std::byte, 8> memory{};
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::vector<MemoryRegion> regions;
  regions.reserve(kMost);
  while (regions.size() < kMost) {
    regions.push_back(node.register_memory(memory, Access::remote_all));
  }
  const auto one_more = [&] { static_cast<void>(node.allocate(4096, Access::remote_all)); };
  EXPECT_THAT(one_more, ThrowsMessage<std::length_error>(HasSubstr("1048576 regions already")));
  EXPECT_EQ(node.obtained, 0U);
  regions.pop_back();
  // What fails takes no number.
  node.places = false;
  EXPECT_THROW(static_cast<void>(node.allocate(4096, Access::remote_all)), std::runtime_error);
  EXPECT_THROW(static_cast<void>(node.register_memory(memory, Access::remote_all)), std::runtime_error);
  EXPECT_THROW(static_cast<void>(node.allocate(std::uint64_t{1} << 62, Access::remote_all)), std::runtime_error);
  node.places = true;
  const MemoryRegion last = node.allocate(4096, Access::remote_all);
  EXPECT_EQ(node.obtained, 4096U);
  EXPECT_THAT(one_more, ThrowsMessage<std::length_error>(HasSubstr("1048576 regions already")));
  EXPECT_EQ(node.obtained, 4096U);
}

}  // namespace
}  // namespace sidelatch::fabric
