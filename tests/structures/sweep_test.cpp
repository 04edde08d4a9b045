// What dead clients had taken and not linked comes back.
#include "btree_fixture.h"
#include "hash_table_rig.h"

#include "tests/sync/victim.h"

#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/lease.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

BTreeWorkerOptions owning(std::uint16_t owner, Revoker* revoker) {
  BTreeWorkerOptions options;
  options.revokers = {revoker};
  options.session.owner = owner;
  options.session.lease = {from_ns(100'000), from_ns(10'000)};
  options.session.seed = owner;
  options.session.lost_work = ignore_lost_work;
  return options;
}

Task<void> grow_and_shrink(const BTree& tree, BTree::Worker& worker) {
  for (;;) {
    for (std::uint64_t key = 0; key < 60; ++key) {
      (void)co_await tree.put(worker, key, Word(key).bytes());
    }
    for (std::uint64_t key = 0; key < 60; ++key) {
      (void)co_await tree.remove(worker, key);
    }
  }
}

Task<void> work_on(const BTree& tree, BTree::Worker& worker, std::uint64_t first) {
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t key = first; key < first + 120; ++key) {
      const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
      EXPECT_EQ(outcome, Outcome::done);
    }
    for (std::uint64_t key = first; key < first + 120; ++key) {
      const Outcome outcome = co_await tree.remove(worker, key);
      EXPECT_EQ(outcome, Outcome::done);
    }
  }
}

Task<void> sweep_beside(const BTree& tree, BTree::Worker& worker, std::uint16_t dead, std::uint64_t& count) {
  const std::uint64_t swept = co_await tree.sweep(worker, dead);
  count += swept;
}

void sweep_after_deaths(const Scheme& scheme, std::uint64_t node_bytes) {
  std::uint64_t swept = 0;
  std::uint64_t left = 0;
  for (int i = 0; i < 40; ++i) {
    BTreeOptions options = small_nodes();
    options.node_bytes = node_bytes;
    Forest forest(scheme, options, 1, static_cast<std::uint64_t>(i) + 1);
    RevocationService service(*forest.nodes[0]);
    BTree::Worker& dead = forest.add_worker(owning(1, &service));
    BTree::Worker& heir = forest.add_worker(owning(2, &service));
    BTree::Worker& third = forest.add_worker(owning(3, &service));
    service.enlist(1, dead.session(0).qp());
    service.enlist(2, heir.session(0).qp());
    service.enlist(3, third.session(0).qp());
    Victim victim(grow_and_shrink(*forest.tree, dead));
    forest.world.reactor().run_for(from_ns(400e3 + 29'311.0 * i));
    victim.kill(forest.world.reactor());
    // The other clients split and merge meanwhile.
    forest.spawn(work_on(*forest.tree, third, 1000));
    forest.spawn(sweep_beside(*forest.tree, heir, 1, swept));
    forest.run_all();
    forest.run(work_on(*forest.tree, heir, 0));
    forest.run(forest.tree->retire(heir));
    forest.run(forest.tree->retire(third));
    const BTreeReport report = forest.run(forest.tree->check(heir));
    ASSERT_THAT(report.problems, IsEmpty()) << i;
    EXPECT_FALSE(service.revoked(2) || service.revoked(3));
    left += report.unlinked_nodes;
  }
  EXPECT_GT(swept, 40U);
  // A client that dies between taking a node and marking it leaks that one.
  EXPECT_LE(left, 2U);
}

TEST(Sweep, NodesOfDeadClientsComeBackOverCopyOnWrite) { sweep_after_deaths(CopyOnWrite(), 640); }
TEST(Sweep, NodesOfDeadClientsComeBackOverALatch) { sweep_after_deaths(ExclusiveLatch(), 320); }

Task<void> fill_until_killed(const BTree& tree, BTree::Worker& worker, std::uint64_t first) {
  for (std::uint64_t key = first;; ++key) {
    (void)co_await tree.put(worker, key, Word(key).bytes());
  }
}

// Many clients die, each with spare nodes in hand: without a sweep the pool would be empty soon.
TEST(Sweep, ATreeOutlivesMoreDeathsThanItHasNodes) {
  const CopyOnWrite scheme;
  BTreeOptions options{.node_bytes = 640, .nodes = 60};
  Forest forest(scheme, options);
  RevocationService service(*forest.nodes[0]);
  BTree::Worker& heir = forest.add_worker(owning(1000, &service));
  service.enlist(1000, heir.session(0).qp());
  for (std::uint16_t owner = 1; owner <= 30; ++owner) {
    BTree::Worker& dead = forest.add_worker(owning(owner, &service));
    service.enlist(owner, dead.session(0).qp());
    Victim victim(fill_until_killed(*forest.tree, dead, 0));
    forest.world.reactor().run_for(from_ns(150e3));
    victim.kill(forest.world.reactor());
    EXPECT_NO_THROW((void)forest.run(forest.tree->sweep(heir, owner)));
  }
  forest.run(work_on(*forest.tree, heir, 5000));
  EXPECT_THAT(forest.run(forest.tree->check(heir)).problems, IsEmpty());
}

TEST(Sweep, NeedsOwnersAndRevokers) {
  const CopyOnWrite scheme;
  Forest forest(scheme, {.node_bytes = 640, .nodes = 60});
  BTree::Worker& nobody = forest.add_worker();
  EXPECT_THROW((void)forest.run(forest.tree->sweep(nobody, 4)), std::invalid_argument);
  BTreeWorkerOptions options = owning(2, nullptr);
  options.revokers.clear();
  BTree::Worker& alone = forest.add_worker(options);
  EXPECT_THROW((void)forest.run(forest.tree->sweep(alone, 4)), LatchError);
  EXPECT_THROW((void)forest.run(forest.tree->sweep(alone, 2)), std::invalid_argument);
  EXPECT_THROW((void)forest.run(forest.tree->sweep(alone, 0)), std::invalid_argument);
}

Task<void> come_and_go(const HashTable& table, Client& client, std::uint64_t first, int rounds) {
  std::vector<std::byte> value(table.options().value_bytes);
  for (int round = 0; round != rounds; ++round) {
    for (std::uint64_t key = first; key < first + 12; ++key) {
      (void)co_await table.insert(client, key, value);
    }
    for (std::uint64_t key = first; key < first + 12; ++key) {
      (void)co_await table.remove(client, key);
    }
  }
}

Task<void> sweep_table(const HashTable& table, Client& client, std::uint16_t dead, std::uint64_t& count) {
  const std::uint64_t swept = co_await table.sweep(client, dead);
  count += swept;
}

TEST(Sweep, OverflowBucketsOfDeadClientsComeBack) {
  const CopyOnWrite scheme;
  std::uint64_t swept = 0;
  std::uint64_t leaked = 0;
  for (int i = 0; i < 60; ++i) {
    HashTableRig rig(scheme, crowded());
    RevocationService service(*rig.storage[0]);
    const auto add = [&](std::uint16_t owner) -> Client& {
      SessionOptions options = owning(owner, nullptr).session;
      options.revoker = &service;
      Client& client = rig.add_client(options);
      service.enlist(owner, client.session(0).qp());
      return client;
    };
    Client& dead = add(1);
    Client& heir = add(2);
    Client& third = add(3);
    Victim victim(come_and_go(*rig.table, dead, 0, -1));
    rig.world.reactor().run_for(from_ns(200e3 + 3'171.0 * i));
    victim.kill(rig.world.reactor());
    rig.world.reactor().spawn(come_and_go(*rig.table, third, 100, 3));
    rig.world.reactor().spawn(sweep_table(*rig.table, heir, 1, swept));
    rig.world.reactor().run();
    rig.run(come_and_go(*rig.table, heir, 0, 1));  // takes over what the dead client had latched
    rig.run(heir.drain());
    rig.run(third.drain());
    const HashTableReport report = rig.run(rig.table->check(heir));
    ASSERT_THAT(report.problems, IsEmpty()) << i;
    leaked += report.leaked_overflow_buckets;
    EXPECT_FALSE(service.revoked(2) || service.revoked(3));
  }
  EXPECT_GT(swept, 5U);
  EXPECT_LE(leaked, 3U);
}

}  // namespace
}  // namespace sidelatch::structures
