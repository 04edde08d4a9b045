#include "rpc_latch_load.h"

#include <sidelatch/fabric/sim/simulation.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace sidelatch::bench {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

// A server, and clients that have a one-sided queue pair to its memory besides their RPCs.
struct World {
  struct Client {
    std::unique_ptr<RpcLatchClient> latches;
    std::unique_ptr<QueuePair> data;
    MemoryRegion buffer;
  };

  explicit World(std::size_t clients_wanted, const RpcLatchServerOptions& options = {.latches = 4},
                 const sim::Profile& profile = sim::load_profile("bluefield2"), std::uint64_t seed = 1)
      : simulation({.profile = profile, .seed = seed}), server(server_node, options) {
    for (std::size_t c = 0; c < clients_wanted; ++c) {
      clients.push_back({std::make_unique<RpcLatchClient>(server, client_node, c + 1), client_node.connect(server_node),
                         client_node.allocate(64, Access::local_write)});
    }
  }
  [[nodiscard]] Reactor& reactor() { return simulation.reactor(); }
  template <class T>
  T run(Task<T> task) {
    return reactor().run(std::move(task));
  }
  /// Ends the clients, and with them the server's tasks.
  void close() {
    clients.clear();
    reactor().run();
  }
  [[nodiscard]] std::uint64_t counter() const {
    std::uint64_t value = 0;
    std::memcpy(&value, table.bytes().data(), 8);
    return value;
  }

  sim::Simulation simulation;
  Node& server_node = simulation.add_node("server");
  Node& client_node = simulation.add_node("client");
  MemoryRegion table = server_node.allocate(64, Access::remote_all);
  RpcLatchServer server;
  std::vector<Client> clients;
};

TEST(RpcLatch, IsHeldByOneUntilThatOneUnlatches) {
  World world(2);
  RpcLatchClient& one = *world.clients[0].latches;
  RpcLatchClient& two = *world.clients[1].latches;
  EXPECT_TRUE(world.run(one.latch(3)));
  EXPECT_EQ(world.server.holder(3), 1U);
  EXPECT_FALSE(world.run(one.latch(3)));  // whoever holds it
  EXPECT_FALSE(world.run(two.latch(3)));
  EXPECT_FALSE(world.run(two.unlatch(3)));
  EXPECT_EQ(world.server.holder(3), 1U);
  EXPECT_TRUE(world.run(two.latch(2)));  // another latch
  EXPECT_TRUE(world.run(one.unlatch(3)));
  EXPECT_FALSE(world.run(one.unlatch(3)));
  EXPECT_TRUE(world.run(two.latch(3)));
  EXPECT_EQ(world.server.holder(3), 2U);
}

struct Increments {
  std::uint64_t counted = 0;
  std::uint64_t lost = 0;  // a client was no longer the holder when it unlatched
};

constexpr std::uint64_t kTimes = 40;

Increments increments(std::size_t clients, const RpcLatchServerOptions& options, std::uint64_t seed) {
  World world(clients, options, sim::load_profile("bluefield2"), seed);
  Increments result;
  for (World::Client& client : world.clients) {
    world.reactor().spawn(increment(client.latches.get(), client.data.get(), client.buffer.local(0, 8),
                                    world.table.remote(0, 8), kTimes, &result.lost));
  }
  const std::uint64_t served = clients;  // their tasks wait for more
  while (world.reactor().spawned() > served) {
    world.reactor().run_for(from_ns(1e6));
  }
  result.counted = world.counter();
  EXPECT_EQ(world.server.holder(0), 0U);
  world.close();
  return result;
}

TEST(RpcLatch, NoIncrementUnderItIsLost) {
  for (const std::uint32_t cores : {0U, 1U, 3U}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const Increments result = increments(7, {.latches = 1, .cores = cores}, seed);
      EXPECT_EQ(result.counted, 7U * kTimes) << cores << " cores, seed " << seed;
      EXPECT_EQ(result.lost, 0U);
    }
  }
}

TEST(RpcLatch, ACoreThatDoesNotLookLosesIncrements) {
  EXPECT_LT(increments(7, {.latches = 1, .cores = 3, .operation = take_without_looking}, 1).counted, 7U * kTimes);
}

Task<void> ask(RpcLatchClient* latches, int times) {
  for (int i = 0; i < times; ++i) {
    const bool mine = co_await latches->latch(0);
    (void)mine;
  }
}

Duration time_of_requests(std::uint32_t cores) {
  sim::Profile profile = sim::load_profile("bluefield2");
  profile.cpu.rpc_ns = 10'000;
  World world(8, {.latches = 1, .cores = cores}, profile);
  for (World::Client& client : world.clients) {
    world.reactor().spawn(ask(client.latches.get(), 10));
  }
  while (world.reactor().spawned() > 8) {
    world.reactor().run_for(from_ns(1000));
  }
  return world.reactor().now();
}

TEST(RpcLatch, ACoreServesOneRequestAtATime) {
  // 80 requests of 10 us each. A round trip is small beside that while others queue; otherwise it is added.
  EXPECT_NEAR(to_ns(time_of_requests(1)), 800e3, 10e3);
  EXPECT_NEAR(to_ns(time_of_requests(4)), 200e3, 10e3);
  EXPECT_NEAR(to_ns(time_of_requests(0)), 100e3, 40e3);  // one core for each client
}

TEST(RpcLatch, TheServerOutlivesItsClients) {
  World world(3);
  EXPECT_TRUE(world.run(world.clients[0].latches->latch(0)));
  world.clients.erase(world.clients.begin());
  world.reactor().run_for(from_ns(1e6));
  EXPECT_EQ(world.reactor().spawned(), 2U);
  EXPECT_FALSE(world.run(world.clients[0].latches->latch(0)));  // it went with the latch
  world.close();
  EXPECT_EQ(world.reactor().spawned(), 0U);
}

TEST(RpcLatch, ClientsThatGoAtAnyMomentHarmNobody) {
  for (int ns = 0; ns < 8000; ns += 100) {
    World world(2);
    world.reactor().spawn(ask(world.clients[1].latches.get(), 3));
    Task<bool> doomed = world.clients[0].latches->latch(1);
    auto awaiter = doomed.operator co_await();
    awaiter.await_suspend(std::noop_coroutine());
    world.reactor().run_for(from_ns(ns));
    doomed = Task<bool>{};
    world.clients[0] = {};
    while (world.reactor().spawned() > 1) {
      world.reactor().run_for(from_ns(1e5));
    }
    world.close();
  }
}

TEST(RpcLatch, WhatIsWrongIsNamed) {
  World world(1);
  EXPECT_THROW((void)world.run(world.clients[0].latches->latch(4)), std::out_of_range);
  EXPECT_THROW((void)world.server.holder(4), std::out_of_range);
  EXPECT_THROW(RpcLatchServer(world.server_node, {.latches = 0}), std::invalid_argument);
  EXPECT_THROW(RpcLatchClient(world.server, world.client_node, 0), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::bench
