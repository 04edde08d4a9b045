// Clients of the B-tree that die in the middle of any operation. The others continue and find a valid tree.
#include "btree_fixture.h"

#include "structures/tree_node.h"

#include "tests/sync/victim.h"

#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/lease.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kStep = 10;  // from key to key

BTreeWorkerOptions leased(std::uint16_t owner, std::vector<Revoker*> revokers) {
  BTreeWorkerOptions options;
  options.revokers = std::move(revokers);
  options.session.owner = owner;
  options.session.lease = {from_ns(100'000), from_ns(10'000)};
  options.session.seed = owner;
  options.session.lost_work = ignore_lost_work;
  return options;
}

struct Known {
  std::set<std::uint64_t> there;               // an operation that ended says so
  std::optional<std::uint64_t> in_doubt = {};  // the key of the operation that was under way
};

// Fills a range of keys and empties it again, so that its last step may be any step of a split or a merge.
Task<void> fill_and_empty(const BTree& tree, BTree::Worker& worker, std::uint64_t first, Known& known) {
  for (;;) {
    for (std::uint64_t key = first; key < first + 60 * kStep; key += kStep) {
      known.in_doubt = key;
      const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
      EXPECT_EQ(outcome, Outcome::done);
      known.there.insert(key);
    }
    for (std::uint64_t key = first; key < first + 60 * kStep; key += kStep) {
      known.in_doubt = key;
      const Outcome outcome = co_await tree.remove(worker, key);
      EXPECT_EQ(outcome, Outcome::done);
      known.there.erase(key);
    }
  }
}

Task<void> expect_known(const BTree& tree, BTree::Worker& worker, std::uint64_t first, Known known) {
  for (std::uint64_t key = first; key < first + 60 * kStep; key += kStep) {
    Word value;
    const Outcome outcome = co_await tree.get(worker, key, value.bytes());
    if (key != known.in_doubt) {
      EXPECT_EQ(outcome, known.there.contains(key) ? Outcome::done : Outcome::absent) << key;
    }
    if (outcome == Outcome::done) {
      EXPECT_EQ(value.number(), key);
    }
  }
  // The tree can also be changed everywhere.
  for (std::uint64_t key = first; key < first + 60 * kStep; key += kStep) {
    const Outcome outcome = co_await tree.put(worker, key, Word(key + 1).bytes());
    EXPECT_EQ(outcome, Outcome::done);
  }
  for (std::uint64_t key = first; key < first + 60 * kStep; key += kStep) {
    const Outcome outcome = co_await tree.remove(worker, key);
    EXPECT_EQ(outcome, Outcome::done);
  }
}

// Works on keys between the dead client's, in any order. Nodes around the ones that it left are split and merged before
// another client reaches them.
Task<void> work_beside(const BTree& tree, BTree::Worker& worker, std::uint64_t first, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<std::uint64_t> keys;
  while (keys.size() < 150) {
    const std::uint64_t key = first + random() % 60 * kStep + 1 + random() % (kStep - 1);
    keys.insert(key);
    const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
    EXPECT_EQ(outcome, Outcome::done);
  }
  for (const std::uint64_t key : keys) {
    Word value;
    const Outcome found = co_await tree.get(worker, key, value.bytes());
    EXPECT_EQ(found, Outcome::done) << key;
    EXPECT_EQ(value.number(), key);
    const Outcome removed = co_await tree.remove(worker, key);
    EXPECT_EQ(removed, Outcome::done) << key;
  }
}

// Services at each memory node that revoke clients.
class Services {
 public:
  explicit Services(std::span<Node* const> nodes) {
    for (Node* node : nodes) {
      services_.push_back(std::make_unique<RevocationService>(*node));
    }
  }
  [[nodiscard]] std::vector<Revoker*> revokers() const {
    std::vector<Revoker*> all;
    for (const auto& service : services_) {
      all.push_back(service.get());
    }
    return all;
  }
  void enlist(std::uint16_t owner, BTree::Worker& worker) {
    for (std::size_t i = 0; i < services_.size(); ++i) {
      services_[i]->enlist(owner, worker.session(i).qp());
    }
  }
  [[nodiscard]] bool revoked(std::uint16_t owner) const {
    return std::ranges::any_of(services_, [owner](const auto& service) { return service->revoked(owner); });
  }

 private:
  std::vector<std::unique_ptr<RevocationService>> services_;
};

struct Killing {
  Traversal traversal = Traversal::fences;
  std::uint64_t node_bytes = 320;
  double first_kill_us = 450;
  std::size_t memory_nodes = 1;
};

// Runs until the worker is in the middle of a removal that has taken `round_trips`: its node is merged with another
// one.
void run_into_a_merge(Forest& forest, const BTree::Worker& worker, const Known& known, std::uint64_t round_trips) {
  std::optional<std::uint64_t> key;
  std::uint64_t at_its_begin = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t now = worker.statistics().round_trips;
    if (key != known.in_doubt) {
      key = known.in_doubt;
      at_its_begin = now;
    }
    if (key && known.there.contains(*key) && now - at_its_begin >= round_trips) {
      return;
    }
    forest.world.reactor().run_for(from_ns(50));
  }
  ADD_FAILURE() << "no removal takes " << round_trips << " round trips";
}

void kill_at_many_moments(const Scheme& scheme, const Killing& killing) {
#ifdef NDEBUG
  constexpr int kKills = 400;
#else
  constexpr int kKills = 40;  // under sanitizers a sample
#endif
  constexpr double kStepNs = 2931.0 * 400 / kKills;
  std::uint64_t takeovers = 0;
  int half_merged = 0;
  for (int i = 0; i < kKills; ++i) {
    BTreeOptions options = small_nodes();
    options.node_bytes = killing.node_bytes;
    options.traversal = killing.traversal;
    Forest forest(scheme, options, killing.memory_nodes, static_cast<std::uint64_t>(i) + 1);
    Services services(forest.nodes);
    BTree::Worker& dead = forest.add_worker(leased(1, services.revokers()));
    BTree::Worker& heir = forest.add_worker(leased(2, services.revokers()));
    BTree::Worker& third = forest.add_worker(leased(3, services.revokers()));
    services.enlist(1, dead);
    services.enlist(2, heir);
    services.enlist(3, third);
    Known known;
    Victim victim(fill_and_empty(*forest.tree, dead, 1000, known));
    // An odd step, so that the kills hit all parts of the operations, and the period in which nodes are merged.
    forest.world.reactor().run_for(from_ns(killing.first_kill_us * 1e3 + kStepNs * i));
    if (i % 4 == 3) {
      run_into_a_merge(forest, dead, known, 8);
      forest.world.reactor().run_for(from_ns(20.0 * 400 / kKills * i));
    }
    victim.kill(forest.world.reactor());
    // If a merge was begun, another client must finish it. The last WRITE may be on its way.
    forest.world.reactor().run_for(from_ns(10'000));
    const BTreeReport at_death = forest.run(forest.tree->check(heir));
    EXPECT_THAT(at_death.problems, IsEmpty()) << "kill " << i;
    half_merged += at_death.unfinished_merges > 0 ? 1 : 0;
    // A third client, which sees the heir wait for the dead client's leases to end and must not take the heir for dead.
    const std::uint64_t seed = static_cast<std::uint64_t>(i) + 7;
    if (i % 2 == 0) {
      forest.spawn(expect_known(*forest.tree, heir, 1000, known));
      forest.spawn(work_beside(*forest.tree, third, 1000, seed));
      forest.run_all();
    } else {
      forest.run(work_beside(*forest.tree, third, 1000, seed));
      forest.run(expect_known(*forest.tree, heir, 1000, known));
    }
    const BTreeReport report = forest.run(forest.tree->check(heir));
    EXPECT_THAT(report.problems, IsEmpty()) << "kill " << i;
    EXPECT_EQ(report.unfinished_merges, 0U) << "kill " << i;
    EXPECT_EQ(report.entries, 0U);
    EXPECT_FALSE(services.revoked(2) || services.revoked(3)) << "kill " << i;
    takeovers += heir.statistics().takeovers + third.statistics().takeovers;
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
  EXPECT_TRUE(half_merged > 0 || kKills < 400);
  EXPECT_GT(takeovers, static_cast<std::uint64_t>(kKills) / 10) << "most kills fell where nothing was latched";
}

Task<void> put_keys(const BTree& tree, BTree::Worker& worker, std::uint64_t count) {
  for (std::uint64_t key = 0; key < count; ++key) {
    const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
    EXPECT_EQ(outcome, Outcome::done);
  }
  co_await worker.drain();
}

Task<Outcome> put_one(const BTree& tree, BTree::Worker& worker, std::uint64_t key) {
  const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
  co_return outcome;
}

// A tree whose client 1 dies, and client 2, which comes after it.
struct Bereaved {
  explicit Bereaved(const Scheme& scheme, const BTreeOptions& options = small_nodes()) : forest(scheme, options) {
    service.enlist(1, dead.session(0).qp());
    service.enlist(2, heir.session(0).qp());
  }

  Forest forest;
  RevocationService service{*forest.nodes[0]};
  BTree::Worker& dead = forest.add_worker(leased(1, {&service}));
  BTree::Worker& heir = forest.add_worker(leased(2, {&service}));
};

// A client died within the WRITE of a node, of which the first half was placed.
TEST(BTreeCrash, ATornNodeIsNamedAndCostsNobodyItsQueuePairs) {
  const RwLatch latch;
  Bereaved bereaved(latch);
  auto& [forest, service, dead, heir] = bereaved;
  forest.run(put_keys(*forest.tree, dead, 100));
  const BTreeOptions& options = forest.tree->options();
  const LayoutKind kind = latch.default_layout();
  const Layout layout(latch.shape(latch.largest_payload(options.node_bytes, kind) / 8 * 8, kind), kind, options.nodes);
  std::byte* const nodes =
      forest.regions[0].bytes().data() + BTree::bytes_needed(latch, options) - layout.total_bytes();
  // The second leaf: object 2 is the right half of the first root.
  const std::uint64_t torn_word = exclusive_word(1, 99);
  std::memcpy(nodes + layout.latch(2), &torn_word, 8);
  std::uint64_t low = 0;
  std::memcpy(&low, nodes + layout.payload(2) + 8, 8);
  ASSERT_GT(low, 0U);
  nodes[layout.payload(2) + 60] ^= std::byte{1};
  Word value;
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THROW((void)forest.run(forest.tree->get(heir, low, value.bytes())), StructureError);
    EXPECT_THROW((void)forest.run(forest.tree->put(heir, low, value.bytes())), StructureError);
    std::vector<std::uint64_t> keys(100);
    std::vector<std::byte> values(800);
    EXPECT_THROW((void)forest.run(forest.tree->scan(heir, 0, keys, values)), StructureError);
  }
  const BTreeReport report = forest.run(forest.tree->check(heir));
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("node 2 of memory node 0 is torn")));
  // The other nodes are unchanged and can be changed; merges avoid the torn one.
  for (std::uint64_t key = 0; key < low; ++key) {
    EXPECT_EQ(forest.run(forest.tree->remove(heir, key)), Outcome::done) << key;
  }
  EXPECT_EQ(forest.run(forest.tree->put(heir, 0, value.bytes())), Outcome::done);
  EXPECT_FALSE(service.revoked(2));
}

// Nodes of a tree over a latch, in the memory of memory node 0.
class NodeBytes {
 public:
  NodeBytes(Forest& forest, const Scheme& scheme)
      : payload_bytes_(scheme.largest_payload(forest.tree->options().node_bytes, scheme.default_layout()) / 8 * 8),
        layout_(scheme.shape(payload_bytes_, scheme.default_layout()), scheme.default_layout(),
                forest.tree->options().nodes),
        begin_(forest.regions[0].bytes().data() + BTree::bytes_needed(scheme, forest.tree->options()) -
               layout_.total_bytes()) {}
  [[nodiscard]] std::span<std::byte> payload(NodeRef ref) const {
    return {begin_ + layout_.payload(ref.object()), payload_bytes_};
  }
  [[nodiscard]] NodeHeader header(NodeRef ref) const {
    NodeHeader header;
    std::memcpy(&header, payload(ref).data(), sizeof header);
    return header;
  }
  [[nodiscard]] std::vector<NodeRef> children(NodeRef ref) const {
    const NodeFormat format{payload_bytes_, 8};
    const NodeView node(format, payload(ref));
    std::vector<NodeRef> children;
    for (std::size_t i = 0; i < node.header.count; ++i) {
      children.push_back(node.child(i));
    }
    return children;
  }
  /// Of the payload's first byte, from the begin of a cache line on.
  [[nodiscard]] std::uint64_t offset_in_record(NodeRef ref) const { return layout_.payload(ref.object()) % 64; }
  void put_header(NodeRef ref, const NodeHeader& header) const {
    std::memcpy(payload(ref).data(), &header, sizeof header);
  }
  [[nodiscard]] std::uint64_t latch_word(NodeRef ref) const {
    std::uint64_t word = 0;
    std::memcpy(&word, begin_ + layout_.latch(ref.object()), sizeof word);
    return word;
  }
  void put_latch_word(NodeRef ref, std::uint64_t word) const {
    std::memcpy(begin_ + layout_.latch(ref.object()), &word, sizeof word);
  }

 private:
  std::uint64_t payload_bytes_;
  Layout layout_;
  std::byte* begin_;
};

Task<void> ask_for(const BTree& tree, BTree::Worker& worker, std::uint64_t key, std::vector<Outcome>& outcomes,
                   int& errors) {
  for (int call = 0; call < 4; ++call) {
    try {
      Word value(key);
      std::array<std::uint64_t, 1> keys{};
      Outcome outcome = Outcome::timed_out;
      if (call == 0) {
        outcome = co_await tree.get(worker, key, value.bytes());
        EXPECT_EQ(value.number(), key);
      } else if (call == 1) {
        const BTree::Scanned scanned = co_await tree.scan(worker, key, keys, value.bytes());
        outcome = scanned.outcome;
        EXPECT_EQ(keys[0], key);
      } else if (call == 2) {
        outcome = co_await tree.put(worker, key, value.bytes());
      } else {
        outcome = co_await tree.remove(worker, key);
      }
      outcomes.push_back(outcome);
    } catch (const StructureError&) {
      ++errors;
    }
  }
}

Task<void> sweep_once(const BTree& tree, BTree::Worker& worker, std::uint16_t dead, bool& ended) {
  (void)co_await tree.sweep(worker, dead);
  ended = true;
}

// A client died while it merged two leaves, within the WRITE of the left one. The right one is dead already, and its
// entries are nowhere else, unless the WRITE that was cut came after the merge's.
TEST(BTreeCrash, WhatATornNodeHadNotYetTakenOverLivesOn) {
  enum class Cut : std::uint8_t { before_the_header, behind_the_header, in_a_later_write };
  const ExclusiveLatch latch;
  for (const Cut cut : {Cut::before_the_header, Cut::behind_the_header, Cut::in_a_later_write}) {
    for (const bool sweeps_first : {false, true}) {
      SCOPED_TRACE(static_cast<int>(cut));
      Bereaved bereaved(latch);
      auto& [forest, service, dead, heir] = bereaved;
      forest.run(put_keys(*forest.tree, dead, 100));
      const NodeBytes nodes(forest, latch);
      const NodeRef left = NodeRef::of(0, 1, 1);  // the first leaf
      NodeHeader torn = nodes.header(left);
      const NodeRef right = torn.right;
      NodeHeader died = nodes.header(right);
      const std::uint64_t key = died.low;
      died.flags |= NodeHeader::kDead;
      nodes.put_header(right, died);
      seal(nodes.payload(right));
      if (cut != Cut::before_the_header) {
        torn.right = died.right;
        torn.high = died.high;
        torn.count += died.count;
        torn.absorbed = cut == Cut::behind_the_header ? tag_of(right) : 0;
        nodes.put_header(left, torn);
      }
      nodes.payload(left)[60] ^= std::byte{1};
      nodes.put_latch_word(left, exclusive_word(1, 99));
      bool swept = false;
      std::vector<Outcome> outcomes;
      int errors = 0;
      if (sweeps_first) {
        forest.spawn(sweep_once(*forest.tree, heir, 1, swept));
        forest.world.reactor().run_for(from_ns(1e8));
      }
      forest.spawn(ask_for(*forest.tree, heir, key, outcomes, errors));
      forest.world.reactor().run_for(from_ns(1e8));
      if (!sweeps_first) {
        forest.spawn(sweep_once(*forest.tree, heir, 1, swept));
        forest.world.reactor().run_for(from_ns(1e8));
      }
      EXPECT_TRUE(swept);
      if (cut == Cut::in_a_later_write) {
        EXPECT_EQ(errors, 4);
      } else {
        EXPECT_EQ(errors, 0);
        EXPECT_EQ(outcomes, std::vector<Outcome>(4, Outcome::done));
        EXPECT_FALSE(nodes.header(right).dead());
      }
      EXPECT_THROW((void)forest.run(put_one(*forest.tree, heir, 0)), StructureError);
      EXPECT_EQ(forest.run(put_one(*forest.tree, heir, 99)), Outcome::done);
      EXPECT_THAT(forest.run(forest.tree->check(heir)).problems,
                  ElementsAre(HasSubstr("node 1 of memory node 0 is torn")));
      EXPECT_FALSE(service.revoked(2));
      if (::testing::Test::HasFailure()) {
        forest.world.reactor().destroy_spawned();
        return;
      }
    }
  }
}

// Removes all keys from `first` up to `end` but `stays`.
Task<void> empty_between(const BTree& tree, BTree::Worker& worker, std::uint64_t first, std::uint64_t stays,
                         std::uint64_t end) {
  for (std::uint64_t key = end; --key >= first;) {  // the right node first: the left one then has room for the rest
    if (key != stays) {
      (void)co_await tree.remove(worker, key);
    }
  }
}

// The same, where the WRITE was cut between any two cache lines. Its lines came in ascending order or in the opposite
// one.
void cut_a_merge_between_lines(const Scheme& scheme, std::uint64_t node_bytes) {
  constexpr std::uint64_t kLine = 64;
  for (std::uint64_t lines = 1; lines < node_bytes / kLine; ++lines) {
    for (const bool ascending : {true, false}) {
      SCOPED_TRACE(testing::Message() << scheme.name() << ", " << lines << " lines " << ascending);
      Bereaved bereaved(scheme, {.node_bytes = node_bytes, .nodes = 100});
      auto& [forest, service, dead, heir] = bereaved;
      forest.run(put_keys(*forest.tree, heir, 100));
      const NodeBytes nodes(forest, scheme);
      const NodeRef left = NodeRef::of(0, 1, 1);  // the first leaf
      const NodeRef right = nodes.header(left).right;
      const std::uint64_t last = nodes.header(right).low;  // stays, and is asked for
      {
        Victim victim(empty_between(*forest.tree, dead, 1, last, nodes.header(right).high));
        for (int i = 0; i < 1'000'000 && !nodes.header(right).dead(); ++i) {
          forest.world.reactor().run_for(from_ns(20));
        }
        victim.kill(forest.world.reactor());
      }
      const NodeHeader died = nodes.header(right);
      ASSERT_TRUE(died.dead());
      ASSERT_EQ(nodes.header(left).right, right);
      forest.world.reactor().run_for(from_ns(10'000));
      ASSERT_EQ(owner_of(nodes.latch_word(left)), 1);
      const std::span<std::byte> before = nodes.payload(left);
      std::vector<std::byte> after(before.begin(), before.end());
      const NodeFormat format{before.size(), 8};
      NodeEdit merged(format, after);
      ASSERT_LE(merged.header.count + died.count, merged.capacity());
      merged.append(NodeView(format, nodes.payload(right)), 0, died.count);
      merged.header.right = died.right;
      merged.set_high(died);
      merged.header.absorbed = tag_of(right);
      merged.finish();
      for (std::uint64_t i = 0; i < after.size(); ++i) {
        const std::uint64_t line = (nodes.offset_in_record(left) + i) / kLine;
        if ((line < lines) == ascending) {
          before[i] = after[i];
        }
      }
      std::vector<Outcome> outcomes;
      int errors = 0;
      forest.spawn(ask_for(*forest.tree, heir, last, outcomes, errors));
      forest.world.reactor().run_for(from_ns(1e8));
      EXPECT_EQ(errors, 0);
      EXPECT_EQ(outcomes, std::vector<Outcome>(4, Outcome::done));
      EXPECT_FALSE(service.revoked(2));
      if (::testing::Test::HasFailure()) {
        forest.world.reactor().destroy_spawned();
        return;
      }
    }
  }
}

TEST(BTreeCrash, AMergeThatWasCutBetweenLinesLosesNothingOverALatch) {
  cut_a_merge_between_lines(ExclusiveLatch(), 320);
}
TEST(BTreeCrash, AMergeThatWasCutBetweenLinesLosesNothingOverCrc64) { cut_a_merge_between_lines(Crc64(), 320); }
TEST(BTreeCrash, AMergeThatWasCutBetweenLinesLosesNothingOverTwoReads) {
  cut_a_merge_between_lines(TwoReadVersion(), 320);
}

Task<void> put_these(const BTree& tree, BTree::Worker& worker, std::vector<std::uint64_t> keys) {
  for (const std::uint64_t key : keys) {
    const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
    EXPECT_EQ(outcome, Outcome::done);
  }
  co_await worker.drain();
}

Task<void> remove_these(const BTree& tree, BTree::Worker& worker, std::vector<std::uint64_t> keys) {
  for (const std::uint64_t key : keys) {
    (void)co_await tree.remove(worker, key);
  }
}

Task<void> count_these(const BTree& tree, BTree::Worker& worker, std::vector<std::uint64_t> keys, std::size_t& found) {
  for (const std::uint64_t key : keys) {
    Word value;
    const Outcome outcome = co_await tree.get(worker, key, value.bytes());
    found += outcome == Outcome::done && value.number() == key ? 1U : 0U;
  }
}

// A client split a leaf, merged the two again, and died before the parent had forgotten the right one. Who sweeps has
// read the parent before all that.
TEST(BTreeCrash, ASweepWithAnOldCopyOfTheParentLeavesWhatTheParentNames) {
  constexpr double kLong = 1e8;
  const ExclusiveLatch latch;
  Forest forest(latch);
  RevocationService service(*forest.nodes[0]);
  BTree::Worker& dead = forest.add_worker(leased(1, {&service}));
  BTreeWorkerOptions with_cache = leased(2, {&service});
  with_cache.cached_nodes = 50;
  BTree::Worker& sweeper = forest.add_worker(with_cache);
  BTree::Worker& other = forest.add_worker(leased(3, {&service}));
  service.enlist(1, dead.session(0).qp());
  service.enlist(2, sweeper.session(0).qp());
  service.enlist(3, other.session(0).qp());
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 60; ++i) {
    keys.push_back(i * 100);
  }
  forest.run(put_these(*forest.tree, other, keys));
  std::size_t found = 0;
  forest.run(count_these(*forest.tree, sweeper, {500}, found));  // keeps a copy of the root
  ASSERT_EQ(found, 1U);
  const NodeBytes nodes(forest, latch);
  const NodeRef root = NodeRef::of(0, 0, 0);
  const std::vector<NodeRef> before = nodes.children(root);
  std::vector<std::uint64_t> added;
  for (std::uint64_t key = 101; key < 112; ++key) {
    added.push_back(key);
  }
  forest.run(put_these(*forest.tree, dead, added));
  const std::vector<NodeRef> after = nodes.children(root);
  const auto at =
      std::ranges::find_if(after, [&](NodeRef ref) { return std::ranges::find(before, ref) == before.end(); });
  ASSERT_TRUE(at != after.end() && at != after.begin());
  const NodeRef right = *at;
  const NodeRef left = *(at - 1);
  // All that the two hold but the lowest key of each.
  const std::uint64_t low = nodes.header(right).low;
  const std::uint64_t stays = (low + 99) / 100 * 100;
  std::vector<std::uint64_t> removed = added;
  for (const std::uint64_t key : keys) {
    if (key != 0 && key != stays && key < nodes.header(right).high) {
      removed.push_back(key);
    }
  }
  std::erase_if(keys, [&](std::uint64_t key) { return std::ranges::find(removed, key) != removed.end(); });
  {
    Victim victim(remove_these(*forest.tree, dead, removed));
    for (int i = 0; i < 1'000'000 && nodes.header(left).absorbed != tag_of(right); ++i) {
      forest.world.reactor().run_for(from_ns(20));
    }
    victim.kill(forest.world.reactor());
  }
  forest.world.reactor().run_for(from_ns(10'000));
  const std::vector<NodeRef> at_death = nodes.children(root);
  ASSERT_TRUE(nodes.header(right).dead());
  ASSERT_NE(std::ranges::find(at_death, right), at_death.end());
  bool swept = false;
  forest.spawn(sweep_once(*forest.tree, sweeper, 1, swept));
  forest.world.reactor().run_for(from_ns(kLong));
  EXPECT_TRUE(swept);
  // Nodes that have come back are used again.
  for (BTree::Worker* const worker : {&sweeper, &other}) {
    std::vector<std::uint64_t> more;
    for (std::uint64_t i = 0; i < 150; ++i) {
      more.push_back((worker == &other ? 200'000 : 100'000) + i);
    }
    forest.spawn(put_these(*forest.tree, *worker, more));
    forest.world.reactor().run_for(from_ns(kLong));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  found = 0;
  forest.spawn(count_these(*forest.tree, other, keys, found));
  forest.world.reactor().run_for(from_ns(kLong));
  EXPECT_EQ(found, keys.size());
  if (::testing::Test::HasFailure()) {
    forest.world.reactor().destroy_spawned();
    return;
  }
  EXPECT_THAT(forest.run(forest.tree->check(other)).problems, IsEmpty());
}

struct LoadOfKeys {
  std::vector<std::uint64_t> keys{};
  std::vector<std::byte> values{};
  std::optional<Outcome> outcome{};

  explicit LoadOfKeys(std::uint64_t count) : values(count * 8) {
    for (std::uint64_t key = 0; key < count; ++key) {
      keys.push_back(key);
    }
  }
};

Task<void> load_keys(const BTree& tree, BTree::Worker& worker, LoadOfKeys& load) {
  const Outcome outcome = co_await tree.bulk_load(worker, load.keys, load.values);
  load.outcome = outcome;
}

// A client died in the middle of a bulk load, with the root latched and most nodes in hand: the next one needs them.
void load_after_deaths(const Scheme& scheme, std::uint64_t node_bytes) {
  int loads = 0;
  std::uint64_t lost = 0;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    Bereaved bereaved(scheme, {.node_bytes = node_bytes, .nodes = 18});
    auto& [forest, service, dead, heir] = bereaved;
    LoadOfKeys first(forest.tree->leaf_capacity() * 10);
    LoadOfKeys second = first;
    {
      Victim victim(load_keys(*forest.tree, dead, first));
      forest.world.reactor().run_for(from_ns(15e3 + 931.0 * i));
      victim.kill(forest.world.reactor());
    }
    forest.world.reactor().run_for(from_ns(10'000));
    const NodeBytes nodes(forest, scheme);
    if (first.outcome || nodes.latch_word(NodeRef::of(0, 0, 0)) == kFree) {
      continue;  // nobody can know of this death
    }
    ++loads;
    forest.spawn(load_keys(*forest.tree, heir, second));
    forest.world.reactor().run_for(from_ns(1e8));
    ASSERT_EQ(second.outcome, Outcome::done);
    forest.run(forest.tree->retire(heir));
    const BTreeReport report = forest.run(forest.tree->check(heir));
    ASSERT_THAT(report.problems, IsEmpty());
    ASSERT_EQ(report.entries, second.keys.size());
    lost += report.unlinked_nodes;
    EXPECT_FALSE(service.revoked(2));
  }
  EXPECT_GT(loads, 10);
  EXPECT_EQ(lost, 0U);
}

TEST(BTreeCrash, ABulkLoadHasTheNodesOfOneThatDied) { load_after_deaths(ExclusiveLatch(), 320); }
TEST(BTreeCrash, ABulkLoadHasTheNodesOfOneThatDiedOverCopyOnWrite) { load_after_deaths(CopyOnWrite(), 640); }

TEST(BTreeLease, ThatIsTooShortForABulkLoadCostsNoNodes) {
  const ExclusiveLatch latch;
  Forest forest(latch, small_nodes(200));
  RevocationService service(*forest.nodes[0]);
  BTree::Worker& worker = forest.add_worker(leased(1, {&service}));
  service.enlist(1, worker.session(0).qp());
  LoadOfKeys load(1500);
  EXPECT_THROW(forest.run(load_keys(*forest.tree, worker, load)), LatchError);
  LoadOfKeys little(100);
  forest.run(load_keys(*forest.tree, worker, little));
  EXPECT_EQ(little.outcome, Outcome::done);
  forest.run(forest.tree->retire(worker));
  const BTreeReport report = forest.run(forest.tree->check(worker));
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, 100U);
  EXPECT_EQ(report.unlinked_nodes, 0U);
}

TEST(BTreeCrash, ABulkLoadIntoATreeWhoseRootIsTornSaysSo) {
  const ExclusiveLatch latch;
  Bereaved bereaved(latch);
  auto& [forest, service, dead, heir] = bereaved;
  forest.run(put_keys(*forest.tree, dead, 5));
  const NodeBytes nodes(forest, latch);
  const NodeRef root = NodeRef::of(0, 0, 0);
  nodes.payload(root)[60] ^= std::byte{1};
  nodes.put_latch_word(root, exclusive_word(1, 99));
  for (int attempt = 0; attempt < 2; ++attempt) {
    LoadOfKeys load(100);
    EXPECT_THROW(forest.run(load_keys(*forest.tree, heir, load)), StructureError);
  }
  EXPECT_THROW((void)forest.run(put_one(*forest.tree, heir, 0)), StructureError);
}

TEST(BTreeCrash, CopyOnWrite) { kill_at_many_moments(CopyOnWrite(), {.node_bytes = 640, .first_kill_us = 900}); }
TEST(BTreeCrash, FarmLineVersions) { kill_at_many_moments(FarmLineVersions(), {}); }
TEST(BTreeCrash, ALatch) { kill_at_many_moments(ExclusiveLatch(), {}); }
TEST(BTreeCrash, FarmLineVersionsCoupled) {
  kill_at_many_moments(FarmLineVersions(), {.traversal = Traversal::coupled});
}
TEST(BTreeCrash, FarmLineVersionsOnThreeMemoryNodes) { kill_at_many_moments(FarmLineVersions(), {.memory_nodes = 3}); }
TEST(BTreeCrash, ALatchOnTwoMemoryNodes) { kill_at_many_moments(ExclusiveLatch(), {.memory_nodes = 2}); }

Task<void> empty_and_look(const BTree& tree, BTree::Worker& worker, std::uint64_t keys, bool& ended) {
  for (std::uint64_t key = 0; key < keys; ++key) {
    try {
      (void)co_await tree.put(worker, key * kStep, Word(key).bytes());
    } catch (const LatchError&) {  // the lease is too short for a split
    }
  }
  for (const bool looks : {false, true}) {
    for (std::uint64_t key = 0; key < keys; ++key) {
      try {
        Word word;
        if (looks) {
          (void)co_await tree.get(worker, key * kStep, word.bytes());
        } else {
          (void)co_await tree.remove(worker, key * kStep);
        }
      } catch (const LatchError& error) {
        EXPECT_EQ(error.kind(), LatchError::Kind::lease_expired);
      }
    }
  }
  ended = true;
}

// A merge that is begun must be finished by whoever meets it. A lease may be too short for that.
TEST(BTreeLease, ThatIsTooShortForAMergeEndsNoOperationNever) {
  const ExclusiveLatch latch;
  for (double lease = 6'000; lease <= 24'000; lease += 1'000) {
    Forest forest(latch);
    RevocationService service(*forest.nodes[0]);
    BTreeWorkerOptions options = leased(1, {&service});
    options.session.lease = {from_ns(lease), from_ns(500)};
    BTree::Worker& worker = forest.add_worker(options);
    service.enlist(1, worker.session(0).qp());
    bool ended = false;
    forest.spawn(empty_and_look(*forest.tree, worker, 100, ended));
    forest.world.reactor().run_for(from_ns(1e8));
    EXPECT_TRUE(ended) << lease << " ns";
  }
}

}  // namespace
}  // namespace sidelatch::structures
