// Clients that raise a flag, read the other's, and lower their own if both are up. Each alone makes progress; together
// they may repeat this for ever.
#include <sidelatch/explore/gtest.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sidelatch::explore {
namespace {

using namespace fabric;

// `polite`: the first client enters although both flags are up, so it never makes itself fail.
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

// Raises its flag and lowers it until the gate is open. Two such clients fail as often as they like while the gate's
// WRITE is in flight, but it arrives.
Task<void> wait_at_gate(World* world, Node* node, QueuePair* qp, MemoryRegion* words, std::uint32_t own) {
  auto& buffer = world->make<MemoryRegion>(node->allocate(64, Access::local_write));
  const auto loop = node->reactor().begin_retries();
  for (;;) {
    co_await qp->fetch_add(words->remote(own * 64, 8), 1);
    co_await qp->read(buffer.local(0, 8), words->remote(0, 8));
    if (buffer.bytes()[0] != std::byte{0}) {
      break;
    }
    co_await qp->fetch_add(words->remote(own * 64, 8), ~std::uint64_t{0});
    co_await node->reactor().retry(loop, Duration::zero());
  }
}

Task<void> open_gate(QueuePair* qp, MemoryRegion* words) {
  co_await qp->enqueue(fetch_add(words->remote(0, 8), 1));  // posts without waiting
}

Program gate(bool opens) {
  return [opens](World& world) {
    Node& memory = world.add_node("memory");
    auto& words = world.make<MemoryRegion>(memory.allocate(192, Access::remote_all));
    for (std::uint32_t i = 0; i < 3; ++i) {
      Node& node = world.add_node(fmt::format("client {}", i));
      auto& qp = world.make<std::unique_ptr<QueuePair>>(node.connect(memory));
      if (i != 0) {
        world.spawn(node, wait_at_gate(&world, &node, qp.get(), &words, i));
      } else if (opens) {
        world.spawn(node, open_gate(qp.get(), &words));
      }
    }
  };
}

TEST(Livelock, IsNotSeenWhereARequestOnItsWayEndsIt) {
  EXPECT_TRUE(is_safe_within_retries(gate(true), {}));
  EXPECT_TRUE(is_broken(gate(false), {}, Kind::deadlock));
}

Task<void> read_once(QueuePair* qp, LocalSpan buffer, RemoteSpan word) { co_await qp->read(buffer, word); }

// An unrelated client ends late.
TEST(Livelock, IsSeenBesideOthers) {
  const Program pair = two_flags(false);
  const Program program = [pair](World& world) {
    pair(world);
    Node& elsewhere = world.add_node("elsewhere");
    auto& word = world.make<MemoryRegion>(elsewhere.allocate(64, Access::remote_all));
    Node& node = world.add_node("reader");
    auto& buffer = world.make<MemoryRegion>(node.allocate(64, Access::local_write));
    auto& qp = world.make<std::unique_ptr<QueuePair>>(node.connect(elsewhere));
    world.spawn(node, read_once(qp.get(), buffer.local(0, 8), word.remote(0, 8)));
  };
  EXPECT_TRUE(is_broken(program, {}, Kind::livelock));
}

Task<void> enter_by_stores(Cpu* cpu, World* world, LocalSpan own, LocalSpan other) {
  const auto loop = world->reactor().begin_retries();
  for (;;) {
    co_await cpu->store(own, 1);
    co_await cpu->fence();
    const std::uint64_t up = co_await cpu->load(other);
    if (up == 0) {
      break;
    }
    co_await cpu->store(own, 0);
    co_await world->reactor().retry(loop, Duration::zero());
  }
  co_await cpu->store(own, 0);
}

TEST(Livelock, OfCpuThreadsIsSeenToo) {
  const Program program = [](World& world) {
    Node& memory = world.add_node("memory");
    auto& flags = world.make<MemoryRegion>(memory.allocate(128, Access::remote_all));
    for (std::uint32_t i = 0; i < 2; ++i) {
      Cpu& cpu = world.add_cpu(memory, fmt::format("cpu {}", i));
      world.spawn(cpu, enter_by_stores(&cpu, &world, flags.local(i * 64, 8), flags.local((1 - i) * 64, 8)));
    }
  };
  EXPECT_TRUE(is_broken(program, {}, Kind::livelock));
}

TEST(Livelock, IsToldFromADeadlock) { EXPECT_TRUE(is_broken(two_flags(false), {}, Kind::livelock)); }

// The same clients, which give up after some attempts.
Task<void> enter_or_give_up(QueuePair* qp, LocalSpan buffer, MemoryRegion* flags, std::uint32_t own, int attempts) {
  const auto loop = qp->reactor().begin_retries();
  for (int i = 0; i < attempts; ++i) {
    co_await qp->fetch_add(flags->remote(own * 64, 8), 1);
    co_await qp->read(buffer, flags->remote((1 - own) * 64, 8));
    co_await qp->fetch_add(flags->remote(own * 64, 8), ~std::uint64_t{0});
    if (*buffer.data == std::byte{0}) {
      break;
    }
    co_await qp->reactor().retry(loop, Duration::zero());
  }
}

TEST(Livelock, IsNotSeenWhereBothGiveUp) {
  for (const int attempts : {2, 3, 5}) {
    const Program program = [attempts](World& world) {
      Node& memory = world.add_node("memory");
      auto& flags = world.make<MemoryRegion>(memory.allocate(128, Access::remote_all));
      for (std::uint32_t i = 0; i < 2; ++i) {
        Node& node = world.add_node(fmt::format("client {}", i));
        auto& qp = world.make<std::unique_ptr<QueuePair>>(node.connect(memory));
        auto& buffer = world.make<MemoryRegion>(node.allocate(64, Access::local_write));
        world.spawn(node, enter_or_give_up(qp.get(), buffer.local(0, 8), &flags, i, attempts));
      }
    };
    EXPECT_TRUE(is_safe(program, {})) << attempts;
    Options by_executions;
    by_executions.states_for_loops = 0;
    EXPECT_TRUE(is_safe_within_retries(program, by_executions)) << attempts;
  }
}

TEST(Livelock, IsNotSeenWhereOneOfThemGetsOn) { EXPECT_TRUE(is_safe_within_retries(two_flags(true), {})); }

}  // namespace
}  // namespace sidelatch::explore
