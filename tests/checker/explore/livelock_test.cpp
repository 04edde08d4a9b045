// Clients that raise a flag, look at the other's, and take their own back if both are up: each gets on alone, together
// they may go on for ever.
#include <sidelatch/explore/gtest.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sidelatch::explore {
namespace {

using namespace fabric;

// `polite`: the first client goes in although both flags are up, so it never makes itself fail.
Task<void> enter(World* world, Node* node, QueuePair* qp, MemoryRegion* flags, std::uint32_t own, bool polite) {
  const std::uint32_t other = 1 - own;
  auto& buffer = world->make<MemoryRegion>(node->allocate(64, Access::local_write));
  const auto loop = node->reactor().begin_retries();
  for (;;) {
    co_await qp->fetch_add(flags->remote(own * 64, 8), 1);
    co_await qp->read(buffer.local(0, 8), flags->remote(other * 64, 8));
    const bool alone = buffer.bytes()[0] == std::byte{0};
    if (alone || (polite && own == 0)) {
      break;
    }
    co_await qp->fetch_add(flags->remote(own * 64, 8), ~std::uint64_t{0});
    co_await node->reactor().retry(loop, Duration::zero());
  }
  co_await qp->fetch_add(flags->remote(own * 64, 8), ~std::uint64_t{0});
}

Program two_flags(bool polite) {
  return [polite](World& world) {
    Node& memory = world.add_node("memory");
    auto& flags = world.make<MemoryRegion>(memory.allocate(128, Access::remote_all));
    for (std::uint32_t i = 0; i < 2; ++i) {
      Node& node = world.add_node(fmt::format("client {}", i));
      auto& qp = world.make<std::unique_ptr<QueuePair>>(node.connect(memory));
      world.spawn(node, enter(&world, &node, qp.get(), &flags, i, polite));
    }
  };
}

TEST(Livelock, IsToldFromADeadlock) { EXPECT_TRUE(is_broken(two_flags(false), {}, Kind::livelock)); }

TEST(Livelock, IsNotSeenWhereOneOfThemGetsOn) { EXPECT_TRUE(is_safe(two_flags(true), {})); }

}  // namespace
}  // namespace sidelatch::explore
