// Splits of the B-tree's nodes that do not come to their end: no node is lost.
#include "btree_fixture.h"
#include "tests/sync/victim.h"

#include <sidelatch/fabric/sim/network_device.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/lease.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>

namespace sidelatch::structures {
namespace {
namespace btree_balance {

using namespace fabric;
using namespace sync;
using ::testing::IsEmpty;

constexpr double kStep = 400;  // ns

Task<void> put(const BTree& tree, BTree::Worker& worker, std::uint64_t key) {
  const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
  EXPECT_EQ(outcome, Outcome::done);
}
Task<void> remove(const BTree& tree, BTree::Worker& worker, std::uint64_t key) {
  const Outcome outcome = co_await tree.remove(worker, key);
  EXPECT_EQ(outcome, Outcome::done);
}
Task<void> put_if_connected(const BTree& tree, BTree::Worker& worker, std::uint64_t key) {
  try {
    co_await put(tree, worker, key);
    co_await worker.drain();
  } catch (const FabricError&) {  // the connection was lost
  }
}
Task<void> put_if_in_time(const BTree& tree, BTree::Worker& worker, std::uint64_t key, bool& in_time) {
  try {
    co_await put(tree, worker, key);
  } catch (const LatchError& error) {
    EXPECT_EQ(error.kind(), LatchError::Kind::lease_expired);
    in_time = false;
  }
}
Task<void> put_many(const BTree& tree, BTree::Worker& worker) {
  for (std::uint64_t key = 1000; key < 1060; ++key) {
    co_await put(tree, worker, key);
  }
}
Task<void> drain(Client& client) { co_await client.drain(); }
Task<void> reconnect(Client& client) { co_await client.reconnect(); }
Task<void> close(Client& client) { co_await client.close(); }

// Before the memory nodes. What passes takes its time.
class Way final : public sim::NetworkDevice {
 public:
  [[nodiscard]] Duration cable() const override { return from_ns(100); }
  [[nodiscard]] Duration latency() const override { return delay; }
  [[nodiscard]] Verdict request(Message& /*message*/) override { return Verdict::forward; }
  void answer(Message& /*message*/) override {}

  Duration delay{};
};

// A tree on two memory nodes with one worker, whose next insert splits a node. The worker has the new nodes in hand: it
// has emptied a larger tree of `most` keys before, and this number decides at which memory node the first one is.
class Split {
 public:
  static constexpr std::uint64_t kMost = 40;
  explicit Split(std::uint64_t inserts, std::uint16_t owner = 1, std::uint64_t most = kMost)
      : worker_(add_worker(owner)), next_(most - inserts) {
    for (std::uint64_t key = 0; key < most; ++key) {
      forest_.run(put(*forest_.tree, worker_, key));
    }
    for (std::uint64_t key = 0; key < most; ++key) {
      forest_.run(remove(*forest_.tree, worker_, key));
    }
    for (std::uint64_t key = most; key > next_; --key) {
      forest_.run(put(*forest_.tree, worker_, key));
    }
    forest_.run(drain(worker_));
  }
  // Inserts into an empty tree, until one makes a tree of `nodes` nodes; without this last one.
  static std::uint64_t inserts_before(std::uint64_t nodes) {
    std::uint64_t inserts = 0;
    while (Split(inserts + 1).report().nodes < nodes) {
      ++inserts;
    }
    return inserts;
  }
  BTreeReport report() { return forest_.check(); }

  // Returns how long it takes.
  Duration insert() {
    const Time begin = forest_.world.reactor().now();
    forest_.run(put(*forest_.tree, worker_, next_));
    return forest_.world.reactor().now() - begin;
  }
  // The task of the insert is destroyed after that time.
  void destroy_after(double ns) {
    Victim victim(put(*forest_.tree, worker_, next_));
    forest_.world.reactor().run_for(from_ns(ns));
    victim.destroy();
  }
  // A connection is lost after that time, and comes back. False: the insert had ended before.
  bool lose_connection_after(double ns, std::size_t memory_node) {
    forest_.spawn(put_if_connected(*forest_.tree, worker_, next_));
    forest_.world.reactor().run_for(from_ns(ns));
    const bool is_under_way = forest_.world.reactor().spawned() > 0;
    static_cast<void>(forest_.world.lose_connection(worker_.session(memory_node).qp()));
    forest_.run_all();
    forest_.run(reconnect(worker_));
    return is_under_way;
  }
  // A connection is lost and comes back. True: the worker may hold latches at that memory node for ever.
  bool leaves_latches_in_doubt(std::size_t memory_node) {
    static_cast<void>(forest_.world.lose_connection(worker_.session(memory_node).qp()));
    forest_.run(reconnect(worker_));
    return !worker_.session(memory_node).in_doubt().empty();
  }
  // Inserts that split nodes again. False: they wait for ever.
  bool goes_on() {
    forest_.spawn(put_many(*forest_.tree, worker_));
    forest_.world.reactor().run_for(from_ns(1e8));
    const bool is_done = forest_.world.reactor().spawned() == 0;
    forest_.world.reactor().destroy_spawned();
    return is_done;
  }
  // The memory nodes answer after that time no more until a lease has ended. False: the insert did not fail.
  bool outlast_a_lease_after(double ns) {
    bool in_time = true;
    forest_.spawn(put_if_in_time(*forest_.tree, worker_, next_, in_time));
    forest_.world.reactor().run_for(from_ns(ns));
    way_.delay = kLease;
    forest_.world.reactor().run_for(from_ns(5'000));
    way_.delay = {};
    forest_.run_all();
    return !in_time;
  }
  void expect_that_no_node_is_lost() {
    forest_.run(close(worker_));
    const BTreeReport after = report();
    EXPECT_THAT(after.problems, IsEmpty());
    EXPECT_EQ(after.unlinked_nodes, 0U);
  }

 private:
  static const Scheme& latch() {
    static const ExclusiveLatch latch(LatchLevel::combined);
    return latch;
  }
  static constexpr Duration kLease = from_ns(1e6);
  BTree::Worker& add_worker(std::uint16_t owner) {
    for (Node* const node : forest_.nodes) {
      forest_.world.put_before(*node, way_);
    }
    BTreeWorkerOptions options;
    options.session.owner = owner;
    options.session.lease = owner == 0 ? Lease{} : Lease{kLease, kLease / 10};
    options.session.lost_work = ignore_lost_work;
    return forest_.add_worker(options);
  }

  Way way_;
  Forest forest_{latch(), small_nodes(), 2};
  BTree::Worker& worker_;
  std::uint64_t next_;
};

// A split of the root makes three nodes of one, another split four of three.
class SplitsThatFail : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static std::uint64_t inserts_before(std::uint64_t nodes) {
    static std::map<std::uint64_t, std::uint64_t> known;
    const auto [at, is_new] = known.try_emplace(nodes);
    at->second = is_new ? Split::inserts_before(nodes) : at->second;
    return at->second;
  }
  const std::uint64_t inserts_ = inserts_before(GetParam());
};
INSTANTIATE_TEST_SUITE_P(BTree, SplitsThatFail, ::testing::Values(3U, 4U),
                         [](const auto& one) { return one.param == 3 ? "OfTheRoot" : "OfALeaf"; });

TEST_P(SplitsThatFail, BeginWithNodesInHand) {
  Split split(inserts_);
  const BTreeReport before = split.report();
  static_cast<void>(split.insert());
  const BTreeReport after = split.report();
  EXPECT_EQ(after.nodes, GetParam());
  EXPECT_LT(before.nodes, after.nodes);
  EXPECT_EQ(before.nodes + before.unlinked_nodes, after.nodes + after.unlinked_nodes) << "no pool is asked";
}

TEST_P(SplitsThatFail, ByALostConnectionLoseNoNode) {
  for (const std::size_t memory_node : {0U, 1U}) {
    bool is_under_way = true;
    for (double ns = 0; is_under_way; ns += kStep) {
      SCOPED_TRACE(testing::Message() << ns << " ns, memory node " << memory_node);
      Split split(inserts_);
      is_under_way = split.lose_connection_after(ns, memory_node);
      split.expect_that_no_node_is_lost();
    }
  }
}

TEST_P(SplitsThatFail, BecauseTheirTaskIsDestroyedLoseNoNode) {
  const double longest = to_ns(Split(inserts_).insert());
  for (const std::uint16_t owner : {std::uint16_t{1}, std::uint16_t{0}}) {
    for (double ns = 0; ns < longest; ns += kStep) {
      SCOPED_TRACE(testing::Message() << ns << " ns, owner " << owner);
      Split split(inserts_, owner);
      split.destroy_after(ns);
      split.expect_that_no_node_is_lost();
    }
  }
}

// The root is at the first memory node, so what is latched at the other one is a new node. Without an owner id nobody
// can tell whose latch that is.
TEST(SplitsWithoutOwner, DoNotWaitForNewNodesWhoseLatchesAreInDoubt) {
  const std::uint64_t inserts = Split::inserts_before(3);
  for (const std::uint64_t most : {Split::kMost, Split::kMost + 16}) {
    const double longest = to_ns(Split(inserts, 0, most).insert());
    int in_doubt = 0;
    for (double ns = 0; ns < longest; ns += kStep) {
      SCOPED_TRACE(testing::Message() << ns << " ns, after " << most << " keys");
      Split split(inserts, 0, most);
      split.destroy_after(ns);
      if (split.leaves_latches_in_doubt(1)) {
        ++in_doubt;
        EXPECT_TRUE(split.goes_on());
      }
    }
    EXPECT_GT(in_doubt, 0) << most;
  }
}

TEST_P(SplitsThatFail, BecauseTheLeaseEndsLoseNoNode) {
  const double longest = to_ns(Split(inserts_).insert());
  int failures = 0;
  for (double ns = 0; ns < longest; ns += kStep) {
    SCOPED_TRACE(testing::Message() << ns << " ns");
    Split split(inserts_);
    failures += split.outlast_a_lease_after(ns) ? 1 : 0;
    split.expect_that_no_node_is_lost();
  }
  EXPECT_GT(failures, 0);
}

}  // namespace btree_balance
}  // namespace
}  // namespace sidelatch::structures
