// Operations whose tasks are destroyed at any moment, by a client that lives on: no latch stays, and all is whole.
#include "btree_fixture.h"
#include "hash_table_rig.h"
#include "tests/sync/victim.h"

#include <sidelatch/structures/client.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::structures {
namespace {

namespace destroyed_operation {

using namespace fabric;
using namespace sync;
using ::testing::IsEmpty;

constexpr std::uint64_t kKeys = 40;

const std::array<const Scheme*, 3>& schemes() {
  static const ExclusiveLatch latch(LatchLevel::async);
  static const RwLatch rw(Acquire::basic, Release::basic);
  static const TwoReadVersion two_read;
  static const std::array<const Scheme*, 3> all = {&latch, &rw, &two_read};
  return all;
}

Task<void> close(Client& client) { co_await client.close(); }

Task<void> fill_and_empty_tree(const BTree& tree, BTree::Worker& worker) {
  for (;;) {
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      (void)co_await tree.put(worker, key, Word(key).bytes());
    }
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      (void)co_await tree.remove(worker, key);
    }
  }
}

Task<void> fill_tree(const BTree& tree, BTree::Worker& worker) {
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
    EXPECT_EQ(outcome, Outcome::done);
  }
}

TEST(DestroyedOperation, OfATreeLeavesNoLatch) {
  for (const Scheme* const scheme : schemes()) {
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE(std::string(scheme->name()) + " " + std::to_string(i));
      Forest forest(*scheme);
      BTree::Worker& worker = forest.add_worker();
      BTree::Worker& other = forest.add_worker();
      {
        Victim victim(fill_and_empty_tree(*forest.tree, worker));
        forest.world.reactor().run_for(from_ns(3'000 + 7'919.0 * i));
        victim.destroy();
      }
      forest.run(close(worker));
      forest.run(fill_tree(*forest.tree, other));
      forest.run(close(other));
      const BTreeReport report = forest.check();
      ASSERT_THAT(report.problems, IsEmpty());
      ASSERT_EQ(report.entries, kKeys);
    }
  }
}

Task<void> come_and_go(const HashTable& table, Client& client) {
  const std::vector<std::byte> value = value_of(1, table.options().value_bytes);
  for (;;) {
    for (std::uint64_t key = 0; key < 12; ++key) {
      (void)co_await table.put(client, key, value);
    }
    for (std::uint64_t key = 0; key < 12; ++key) {
      (void)co_await table.remove(client, key);
    }
  }
}

Task<void> fill_table(const HashTable& table, Client& client) {
  const std::vector<std::byte> value = value_of(2, table.options().value_bytes);
  for (std::uint64_t key = 0; key < 12; ++key) {
    const Outcome outcome = co_await table.put(client, key, value);
    EXPECT_EQ(outcome, Outcome::done);
  }
}

TEST(DestroyedOperation, OfATableLeavesNoLatch) {
  for (const Scheme* const scheme : schemes()) {
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE(std::string(scheme->name()) + " " + std::to_string(i));
      HashTableRig rig(*scheme, crowded());
      Client& client = rig.add_client();
      Client& other = rig.add_client();
      {
        Victim victim(come_and_go(*rig.table, client));
        rig.world.reactor().run_for(from_ns(3'000 + 1'919.0 * i));
        victim.destroy();
      }
      rig.run(close(client));
      rig.run(fill_table(*rig.table, other));
      rig.run(close(other));
      const HashTableReport report = rig.run(rig.table->check(other));
      ASSERT_THAT(report.problems, IsEmpty());
      ASSERT_EQ(report.entries, 12U);
    }
  }
}

}  // namespace destroyed_operation
}  // namespace
}  // namespace sidelatch::structures
