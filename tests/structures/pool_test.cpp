// The pool: what a client leaves of an object that it has just taken and dies, or cannot give back.
#include <sidelatch/structures/pool.h>

#include "structures/seal.h"

#include <sidelatch/explore/check.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/lease.h>
#include <sidelatch/sync/rw_latch.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sidelatch::structures {
namespace {

namespace explored_pool {

using namespace fabric;
using namespace sync;
using fabric::model::Preset;

constexpr std::uint64_t kObjects = 4;

struct Place {
  Place(const Scheme& scheme, explore::World& world, bool is_linked)
      : node(&world.add_node("memory")),
        region(node->allocate(Pool::bytes_needed(scheme, kObjects), Access::remote_all)),
        control(scheme.shape(24, scheme.default_layout()), scheme.default_layout(), 1),
        pool(scheme, region.remote(), 0, kObjects) {
    if (is_linked) {  // object 0 was given back
      const std::span<std::byte> payload = region.bytes().subspan(control.payload(0), 24);
      const std::array<std::uint64_t, 3> words = {0, 1, 1};  // seal, head, mark
      std::memcpy(payload.data(), words.data(), payload.size());
      seal(payload);
    }
  }
  Node* node;
  MemoryRegion region;
  Layout control;
  Pool pool;
};

Task<void> take(const Place& place, Client& client) {
  const Pool::Taken taken = co_await place.pool.take(client, 2);
  EXPECT_EQ(taken.outcome, Outcome::done);
  EXPECT_EQ(taken.object, 0U);
}

// Another client revokes the first one here, and sees what is there from then on.
Task<void> look(explore::World& world, const Place& place, QueuePair& qp, const MemoryRegion& buffer) {
  const std::uint64_t links = RecordShape::whole_lines(place.control.total_bytes());
  co_await qp.read(buffer.local(0, 8), place.region.remote(links, 8));
  co_await qp.read(buffer.local(8, 16), place.region.remote(place.control.payload(0) + 8, 16));
  std::array<std::uint64_t, 3> seen{};
  std::memcpy(seen.data(), buffer.bytes().data(), sizeof seen);
  const auto [link, head, mark] = seen;
  const bool is_marked = link >> 63 != 0;
  world.require(!is_marked || (head != 1 && mark >= 1), "an object is marked, and the pool would hand it out");
}

explore::Verdict explore_take(const Scheme& scheme, bool is_linked) {
  const explore::Program program = [&scheme, is_linked](explore::World& world) {
    const Place& place = world.make<Place>(scheme, world, is_linked);
    Node& taker = world.add_node("taker");
    const std::array<Node*, 1> memory_nodes = {place.node};
    Client& client =
        world.make<Client>(taker, memory_nodes, Pool::buffer_bytes(scheme),
                           SessionOptions{.buffers = 3, .owner = 1, .lease = {from_ns(1e6), from_ns(1e5)}});
    world.spawn(taker, take(place, client));
    Node& other = world.add_node("other");
    const MemoryRegion& buffer = world.make<MemoryRegion>(other.allocate(64, Access::local_write));
    QueuePair& qp = *world.make<std::unique_ptr<QueuePair>>(other.connect(*place.node));
    world.spawn(other, look(world, place, qp, buffer));
  };
  return explore::check(program, {.rules = model::rules_of(Preset::relaxed)});
}

TEST(PoolExplored, WhoeverSeesAnOwnersMarkSeesThatThePoolHasGivenTheObjectAway) {
  const ExclusiveLatch latch(LatchLevel::async);
  const RwLatch rw(LatchLevel::async);
  for (const Scheme* const scheme : std::initializer_list<const Scheme*>{&latch, &rw}) {
    for (const bool is_linked : {false, true}) {
      const explore::Verdict verdict = explore_take(*scheme, is_linked);
      EXPECT_EQ(verdict.outcome, explore::Outcome::safe) << scheme->name() << is_linked << explore::to_text(verdict);
    }
  }
}

}  // namespace explored_pool

namespace simulated_pool {

using namespace fabric;
using namespace sync;

Task<Pool::Taken> take_one(const Pool& pool, Client& client) {
  const Pool::Taken taken = co_await pool.take(client);
  co_await client.drain();
  co_return taken;
}

// Its link is written before the control record: if the lease ends between the two, the pool does not have the object,
// and a sweep must find it.
TEST(Pool, WhatALeaseWasTooShortToGiveBackStaysItsClients) {
  const ExclusiveLatch latch;
  int refused = 0;
  for (double lease = 2'000; lease <= 20'000; lease += 250) {
    sim::Simulation world({.profile = sim::load_profile("connectx5")});
    Node& storage = world.add_node("storage");
    const MemoryRegion memory = storage.allocate(Pool::bytes_needed(latch, 4), Access::remote_all);
    const Pool pool(latch, memory.remote(), 0, 4);
    const std::array<Node*, 1> memory_nodes = {&storage};
    Client client(world.add_node("client"), memory_nodes, Pool::buffer_bytes(latch),
                  {.buffers = 3, .owner = 1, .lease = {from_ns(lease), from_ns(500)}});
    Client other(world.add_node("other"), memory_nodes, Pool::buffer_bytes(latch), {.buffers = 3});
    try {
      const Pool::Taken taken = world.reactor().run(take_one(pool, client));
      ASSERT_EQ(taken.object, 0U);
    } catch (const LatchError&) {
      continue;  // too short to take one
    }
    try {
      (void)world.reactor().run(pool.give_back(client, 0));
      continue;
    } catch (const LatchError& error) {
      EXPECT_EQ(error.kind(), LatchError::Kind::lease_expired);
    }
    ++refused;
    world.reactor().run(client.drain());
    world.reactor().run_for(from_ns(1e5));
    EXPECT_EQ(world.reactor().run(pool.marked(other, 1)), std::vector<std::uint64_t>{0}) << lease;
    EXPECT_EQ(world.reactor().run(take_one(pool, other)).object, 1U) << lease;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace simulated_pool
}  // namespace
}  // namespace sidelatch::structures
