// Clients of the B-tree that die: whatever they were at, the others go on, and find a right tree.
#include "btree_fixture.h"

#include "tests/sync/victim.h"

#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/lease.h>
#include <sidelatch/sync/rw_latch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::IsEmpty;

void ignore_dropped_guard(const DroppedGuard& /*dropped*/) {}

BTreeWorkerOptions leased(std::uint16_t owner, Revoker* revoker) {
  BTreeWorkerOptions options;
  options.session.owner = owner;
  options.session.lease = {from_ns(100'000), from_ns(10'000)};
  options.session.revoker = revoker;
  options.session.seed = owner;
  options.session.dropped_guard = ignore_dropped_guard;
  return options;
}

struct Known {
  std::set<std::uint64_t> there;               // an operation that ended says so
  std::optional<std::uint64_t> in_doubt = {};  // the key of the operation that was under way
};

// Fills a range of keys and empties it again, so that its last step may be any of a split or a merge.
Task<void> fill_and_empty(const BTree& tree, BTree::Worker& worker, std::uint64_t first, Known& known) {
  for (;;) {
    for (std::uint64_t key = first; key < first + 60; ++key) {
      known.in_doubt = key;
      const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
      EXPECT_EQ(outcome, Outcome::done);
      known.there.insert(key);
    }
    for (std::uint64_t key = first; key < first + 60; ++key) {
      known.in_doubt = key;
      const Outcome outcome = co_await tree.remove(worker, key);
      EXPECT_EQ(outcome, Outcome::done);
      known.there.erase(key);
    }
  }
}

Task<void> expect_known(const BTree& tree, BTree::Worker& worker, std::uint64_t first, Known known) {
  for (std::uint64_t key = first; key < first + 60; ++key) {
    Word value;
    const Outcome outcome = co_await tree.get(worker, key, value.bytes());
    if (key != known.in_doubt) {
      EXPECT_EQ(outcome, known.there.contains(key) ? Outcome::done : Outcome::absent) << key;
    }
    if (outcome == Outcome::done) {
      EXPECT_EQ(value.number(), key);
    }
  }
  // And the tree can be changed everywhere.
  for (std::uint64_t key = first; key < first + 60; ++key) {
    const Outcome outcome = co_await tree.put(worker, key, Word(key + 1).bytes());
    EXPECT_EQ(outcome, Outcome::done);
  }
  for (std::uint64_t key = first; key < first + 60; ++key) {
    const Outcome outcome = co_await tree.remove(worker, key);
    EXPECT_EQ(outcome, Outcome::done);
  }
}

bool is_about_a_dead_node(const std::string& problem) { return problem.find("dead") != std::string::npos; }

// Works beside the heir, on keys that lie in the same nodes as the dead client's.
Task<void> work_beside(const BTree& tree, BTree::Worker& worker, std::uint64_t first) {
  for (std::uint64_t key = first; key < first + 60; ++key) {
    const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
    EXPECT_EQ(outcome, Outcome::done);
  }
  for (std::uint64_t key = first; key < first + 60; ++key) {
    const Outcome outcome = co_await tree.remove(worker, key);
    EXPECT_EQ(outcome, Outcome::done);
  }
}

void kill_at_many_moments(const Scheme& scheme, Traversal traversal, std::uint64_t node_bytes, double first_kill_us) {
  constexpr int kKills = 400;
  std::uint64_t takeovers = 0;
  int half_merged = 0;
  for (int i = 0; i < kKills; ++i) {
    BTreeOptions options = small_nodes();
    options.node_bytes = node_bytes;
    options.traversal = traversal;
    Forest forest(scheme, options, 1, static_cast<std::uint64_t>(i) + 1);
    RevocationService service(*forest.nodes[0]);
    BTree::Worker& dead = forest.add_worker(leased(1, &service));
    BTree::Worker& heir = forest.add_worker(leased(2, &service));
    service.enlist(1, dead.session(0).qp());
    BTree::Worker& third = forest.add_worker(leased(3, &service));
    service.enlist(2, heir.session(0).qp());
    service.enlist(3, third.session(0).qp());
    Known known;
    Victim victim(fill_and_empty(*forest.tree, dead, 1000, known));
    // An odd step, so that the kills fall on all parts of the operations, and over the time when nodes are merged.
    forest.world.reactor().run_for(from_ns(first_kill_us * 1e3 + 2'931.0 * i));
    victim.kill();
    // A dead node that is still linked: a merge was begun, and somebody else has to end it.
    const BTreeReport at_death = forest.run(forest.tree->check(heir));
    half_merged += std::ranges::any_of(at_death.problems, is_about_a_dead_node) ? 1 : 0;
    // A third one, which sees the heir wait for the dead client's leases to end, and must not take it for dead, too.
    forest.spawn(expect_known(*forest.tree, heir, 1000, known));
    forest.spawn(work_beside(*forest.tree, third, 1060));
    forest.run_all();
    const BTreeReport report = forest.run(forest.tree->check(heir));
    EXPECT_THAT(report.problems, IsEmpty()) << "kill " << i;
    EXPECT_EQ(report.entries, 0U);
    EXPECT_FALSE(service.revoked(2) || service.revoked(3)) << "kill " << i;
    takeovers += heir.statistics().takeovers + third.statistics().takeovers;
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
  EXPECT_GT(half_merged, 0);
  EXPECT_GT(takeovers, static_cast<std::uint64_t>(kKills) / 10) << "most kills fell where nothing was latched";
}

TEST(BTreeCrash, CopyOnWrite) { kill_at_many_moments(CopyOnWrite(), Traversal::fences, 640, 900); }
TEST(BTreeCrash, FarmLineVersions) { kill_at_many_moments(FarmLineVersions(), Traversal::fences, 320, 450); }
TEST(BTreeCrash, FarmLineVersionsCoupled) { kill_at_many_moments(FarmLineVersions(), Traversal::coupled, 320, 450); }

}  // namespace
}  // namespace sidelatch::structures
