// The B-tree at its limits: scans, bulk loads, no room, no time, bad input, and memory that was damaged.
#include "btree_fixture.h"

#include "structures/tree_node.h"
#include "tests/message_of.h"

#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kLargestKey = std::numeric_limits<std::uint64_t>::max();

struct Pairs {
  std::vector<std::uint64_t> keys;
  std::vector<std::byte> values;

  static Pairs evenly(std::uint64_t count, std::uint64_t step) {
    Pairs pairs;
    for (std::uint64_t i = 0; i < count; ++i) {
      pairs.keys.push_back(i * step);
      const Word value(i * step + 1);
      pairs.values.insert(pairs.values.end(), value.bytes().begin(), value.bytes().end());
    }
    return pairs;
  }
};

Task<Outcome> put_one(const BTree& tree, BTree::Worker& worker, std::uint64_t key, std::uint64_t value) {
  const Outcome outcome = co_await tree.put(worker, key, Word(value).bytes());
  co_return outcome;
}

Task<std::vector<std::uint64_t>> scan_from(const BTree& tree, BTree::Worker& worker, std::uint64_t from,
                                           std::size_t count) {
  std::vector<std::uint64_t> keys(count);
  std::vector<std::byte> values(count * 8);
  const BTree::Scanned scanned = co_await tree.scan(worker, from, keys, values);
  EXPECT_EQ(scanned.outcome, Outcome::done);
  for (std::size_t i = 0; i < scanned.count; ++i) {
    Word value;
    std::memcpy(value.bytes().data(), values.data() + i * 8, 8);
    EXPECT_EQ(value.number(), keys[i] + 1);
  }
  keys.resize(scanned.count);
  co_return keys;
}

TEST(BTreeScan, GivesTheFirstEntriesFromAKeyOn) {
  const FarmLineVersions farm;
  Forest forest(farm);
  BTree::Worker& worker = forest.add_worker();
  EXPECT_THAT(forest.run(scan_from(*forest.tree, worker, 0, 10)), IsEmpty());
  for (std::uint64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(forest.run(put_one(*forest.tree, worker, i * 10, i * 10 + 1)), Outcome::done);
  }
  const auto scan = [&](std::uint64_t from, std::size_t count) {
    return forest.run(scan_from(*forest.tree, worker, from, count));
  };
  for (const std::uint64_t from : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{10}, std::uint64_t{2345}}) {
    for (const std::size_t count : {0U, 1U, 20U, 1000U}) {
      std::vector<std::uint64_t> expected;
      for (std::uint64_t key = (from + 9) / 10 * 10; key < 5000 && expected.size() < count; key += 10) {
        expected.push_back(key);
      }
      EXPECT_EQ(scan(from, count), expected) << from << ", " << count;
    }
  }
  EXPECT_THAT(scan(kLargestKey, 3), IsEmpty());
}

// Every scan must return the keys that always exist, in order, whatever happens to the nodes around them.
Task<void> scan_for_ever(const BTree& tree, BTree::Worker& worker, std::uint64_t lasting, const bool& ends,
                         int& scans) {
  while (!ends) {
    const std::vector<std::uint64_t> keys = co_await scan_from(tree, worker, 0, 4000);
    ++scans;
    EXPECT_TRUE(std::ranges::is_sorted(keys, std::less_equal<>()));
    std::uint64_t found = 0;
    for (const std::uint64_t key : keys) {
      found += key % 100 == 0 ? 1U : 0U;
    }
    EXPECT_EQ(found, lasting);
  }
}

Task<void> come_and_go(const BTree& tree, BTree::Worker& worker, std::uint64_t first, std::uint64_t lasting, int rounds,
                       int& running) {
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t key = first; key < lasting * 100; key += 11) {
      if (key % 100 != 0) {
        const Outcome outcome = co_await tree.put(worker, key, Word(key + 1).bytes());
        EXPECT_EQ(outcome, Outcome::done);
      }
    }
    for (std::uint64_t key = first; key < lasting * 100; key += 11) {
      if (key % 100 != 0) {
        const Outcome outcome = co_await tree.remove(worker, key);
        EXPECT_EQ(outcome, Outcome::done);
      }
    }
  }
  --running;
}

Task<void> until_none_runs(Reactor& reactor, const int& running, bool& ends) {
  while (running > 0) {
    co_await reactor.sleep(from_ns(10'000));
  }
  ends = true;
}

class BTreeScanOver : public ::testing::TestWithParam<Traversal> {};
INSTANTIATE_TEST_SUITE_P(Traversals, BTreeScanOver, ::testing::Values(Traversal::fences, Traversal::coupled));

TEST_P(BTreeScanOver, FindsWhatIsThereWhileNodesSplitAndMerge) {
  constexpr std::uint64_t kLasting = 20;
  const TwoReadVersion scheme;
  BTreeOptions options = small_nodes();
  options.traversal = GetParam();
  Forest forest(scheme, options);
  BTree::Worker& worker = forest.add_worker();
  for (std::uint64_t i = 0; i < kLasting; ++i) {
    EXPECT_EQ(forest.run(put_one(*forest.tree, worker, i * 100, i * 100 + 1)), Outcome::done);
  }
  int running = 3;
  bool ends = false;
  int scans = 0;
  for (std::uint64_t i = 0; i < 3; ++i) {
    forest.spawn(come_and_go(*forest.tree, forest.add_worker(), 1 + i, kLasting, 3, running));
  }
  forest.spawn(scan_for_ever(*forest.tree, worker, kLasting, ends, scans));
  forest.spawn(until_none_runs(forest.world.reactor(), running, ends));
  forest.run_all();
  EXPECT_GT(scans, 10);
  EXPECT_THAT(forest.check().problems, IsEmpty());
}

TEST(BTreeBulkLoad, MakesTheTreeThatInsertsWouldMake) {
  const RwLatch latch;
  for (const std::uint64_t count : {0U, 1U, 11U, 12U, 100U, 5000U}) {
    Forest forest(latch, small_nodes(), 2);
    BTree::Worker& worker = forest.add_worker();
    const Pairs pairs = Pairs::evenly(count, 3);
    EXPECT_EQ(forest.run(forest.tree->bulk_load(worker, pairs.keys, pairs.values)), Outcome::done);
    const BTreeReport report = forest.check();
    EXPECT_THAT(report.problems, IsEmpty());
    EXPECT_EQ(report.entries, count);
    EXPECT_EQ(report.missing_separators, 0U);
    EXPECT_EQ(forest.run(scan_from(*forest.tree, worker, 0, 6000)), pairs.keys);
    EXPECT_EQ(forest.run(put_one(*forest.tree, worker, 7, 8)), Outcome::done);
    EXPECT_THAT(forest.check().problems, IsEmpty());
  }
}

TEST(BTreeBulkLoad, RefusesWhatItCannotLoad) {
  const RwLatch latch;
  Forest forest(latch, small_nodes(20));
  BTree::Worker& worker = forest.add_worker();
  const auto load = [&](const Pairs& pairs, double fill) {
    return message_of([&] { (void)forest.run(forest.tree->bulk_load(worker, pairs.keys, pairs.values, fill)); });
  };
  Pairs pairs = Pairs::evenly(10, 1);
  EXPECT_THAT(load(pairs, 0.4), HasSubstr("fill 0.4: it must be 0.5 to 1"));
  pairs.values.pop_back();
  EXPECT_THAT(load(pairs, 0.9), HasSubstr("10 keys need 80 bytes of values, not 79"));
  pairs = Pairs::evenly(10, 1);
  std::swap(pairs.keys[3], pairs.keys[4]);
  EXPECT_THAT(load(pairs, 0.9), HasSubstr("key 4 of the bulk load does not ascend: 3 comes after 4"));
  // No room: the tree is still empty, and its nodes have been given back.
  pairs = Pairs::evenly(5000, 1);
  EXPECT_EQ(forest.run(forest.tree->bulk_load(worker, pairs.keys, pairs.values)), Outcome::full);
  forest.run(forest.tree->retire(worker));
  BTreeReport report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, 0U);
  EXPECT_EQ(report.unlinked_nodes, 0U);
  pairs = Pairs::evenly(50, 1);
  EXPECT_EQ(forest.run(forest.tree->bulk_load(worker, pairs.keys, pairs.values)), Outcome::done);
  EXPECT_THAT(load(pairs, 0.9), HasSubstr("not empty"));
  EXPECT_EQ(forest.check().entries, 50U);
}

TEST(BTreeRoom, AFullTreeSaysSoAndKeepsWhatItHas) {
  const FarmLineVersions farm;
  Forest forest(farm, small_nodes(12), 2);
  BTree::Worker& worker = forest.add_worker();
  std::uint64_t inserted = 0;
  while (forest.run(put_one(*forest.tree, worker, inserted * 7 % 10'007, inserted * 7 % 10'007 + 1)) == Outcome::done) {
    ++inserted;
    ASSERT_LT(inserted, 1000U);
  }
  EXPECT_GT(inserted, 60U);
  EXPECT_EQ(forest.run(put_one(*forest.tree, worker, 0, 1)), Outcome::done) << "an overwrite needs no room";
  BTreeReport report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, inserted);
  EXPECT_EQ(forest.run(scan_from(*forest.tree, worker, 0, 1000)).size(), inserted);
  // A worker's spares are missing from the pool until retire().
  for (std::uint64_t i = 0; i < inserted; ++i) {
    EXPECT_EQ(forest.run(forest.tree->remove(worker, i * 7 % 10'007)), Outcome::done);
  }
  forest.run(forest.tree->retire(worker));
  EXPECT_EQ(forest.run(put_one(*forest.tree, forest.add_worker(), 3, 4)), Outcome::done);
  report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, 1U);
}

TEST(BTreePlacement, KeyRangesPutLowKeysOnTheFirstMemoryNode) {
  const FarmLineVersions farm;
  BTreeOptions options = small_nodes(600);
  options.placement = Placement::key_range;
  Forest forest(farm, options, 3);
  BTree::Worker& worker = forest.add_worker();
  for (std::uint64_t i = 0; i < 600; ++i) {
    EXPECT_EQ(forest.run(put_one(*forest.tree, worker, i * (kLargestKey / 600), i)), Outcome::done);
  }
  const std::uint64_t before = worker.session(0).qp().counters().bytes_read;
  EXPECT_EQ(forest.run(put_one(*forest.tree, worker, kLargestKey - 5, 1)), Outcome::done);
  const std::uint64_t root_only = worker.session(0).qp().counters().bytes_read - before;
  EXPECT_LE(root_only, options.node_bytes) << "the leaf lies on the last memory node, and the way there begins at 0";
  const BTreeReport report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  for (std::size_t i = 0; i < 3; ++i) {  // a third of the nodes each, and a few spares
    const std::uint64_t pool_bytes = Pool::bytes_needed(farm, options.nodes);
    const Pool pool(farm, forest.regions[i].remote(kSuperblockBytes, pool_bytes), i, options.nodes, i == 0 ? 1 : 0);
    const Pool::Contents contents = forest.run(pool.contents(worker));
    EXPECT_GE(contents.mark + 2, report.nodes / 3) << i;
    EXPECT_LE(contents.mark, report.nodes / 3 + 12) << i;
  }
}

TEST(BTreeKeys, EveryNumberIsAKey) {
  const ExclusiveLatch latch;
  Forest forest(latch);
  BTree::Worker& worker = forest.add_worker();
  for (std::uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(forest.run(put_one(*forest.tree, worker, kLargestKey - i, 1)), Outcome::done);
    EXPECT_EQ(forest.run(put_one(*forest.tree, worker, i, 1)), Outcome::done);
  }
  Word seen;
  EXPECT_EQ(forest.run(forest.tree->get(worker, kLargestKey, seen.bytes())), Outcome::done);
  EXPECT_EQ(forest.run(forest.tree->get(worker, 0, seen.bytes())), Outcome::done);
  EXPECT_EQ(forest.run(forest.tree->remove(worker, kLargestKey)), Outcome::done);
  EXPECT_EQ(forest.run(forest.tree->get(worker, kLargestKey, seen.bytes())), Outcome::absent);
  EXPECT_EQ(forest.check().entries, 399U);
}

// Latches an object of the tree's first memory node, as a dead client would leave it.
void latch_root(Forest& forest, const Scheme& scheme, std::uint64_t word) {
  const BTreeOptions& options = forest.tree->options();
  const Layout layout(scheme.shape(scheme.largest_payload(options.node_bytes, scheme.default_layout()) / 8 * 8,
                                   scheme.default_layout()),
                      scheme.default_layout(), options.nodes);
  const std::uint64_t begin = BTree::bytes_needed(scheme, options) - layout.total_bytes();
  std::memcpy(forest.regions[0].bytes().data() + begin + layout.latch(0), &word, 8);
}

TEST(BTreeDeadline, AnOperationGivesUpAndChangesNothing) {
  const RwLatch latch;
  Forest forest(latch);
  BTree::Worker& patient = forest.add_worker();
  EXPECT_EQ(forest.run(put_one(*forest.tree, patient, 1, 2)), Outcome::done);
  forest.run(patient.drain());
  BTree::Worker& hasty = forest.add_worker({.session = {.retry = Retry::backoff().within(from_ns(50'000))}});
  latch_root(forest, latch, 1);
  Word value(5);
  std::vector<std::uint64_t> keys(3);
  std::vector<std::byte> values(24);
  EXPECT_EQ(forest.run(forest.tree->get(hasty, 1, value.bytes())), Outcome::timed_out);
  EXPECT_EQ(forest.run(forest.tree->put(hasty, 1, value.bytes())), Outcome::timed_out);
  EXPECT_EQ(forest.run(forest.tree->remove(hasty, 1)), Outcome::timed_out);
  EXPECT_EQ(forest.run(forest.tree->scan(hasty, 0, keys, values)).outcome, Outcome::timed_out);
  EXPECT_EQ(hasty.statistics().operations, 4U);
  EXPECT_EQ(hasty.statistics().aborts, 4U);
  forest.world.reactor().run_for(from_ns(100'000));
  latch_root(forest, latch, 0);
  EXPECT_EQ(forest.run(forest.tree->get(hasty, 1, value.bytes())), Outcome::done);
  EXPECT_EQ(value.number(), 2U);
}

TEST(BTreeInput, BadOptionsAreNamed) {
  const FarmLineVersions farm;
  const auto refusal = [&](const BTreeOptions& options) {
    return message_of([&] { (void)BTree::bytes_needed(farm, options); });
  };
  EXPECT_THAT(refusal({.node_bytes = 100, .nodes = 10}), HasSubstr("node_bytes 100: it must be a multiple of 8"));
  EXPECT_THAT(refusal({.node_bytes = 1 << 20, .nodes = 10}), HasSubstr("128 to 65536"));
  EXPECT_THAT(refusal({.node_bytes = 4096}), HasSubstr("nodes 0: it must be 4 to 4294967295"));
  EXPECT_THAT(refusal({.node_bytes = 512, .value_bytes = 400, .nodes = 10}),
              HasSubstr("value_bytes 400 and node_bytes 512: a node must have room for 4 entries"));
  EXPECT_THAT(refusal({.node_bytes = 512, .value_bytes = 0, .nodes = 10}), HasSubstr("value_bytes 0"));

  Forest forest(farm);
  BTree::Worker& worker = forest.add_worker();
  std::array<std::byte, 4> four{};
  EXPECT_THAT(message_of([&] { (void)forest.run(forest.tree->get(worker, 1, four)); }),
              HasSubstr("a value of 4 bytes: the tree's have 8"));
  EXPECT_THAT(message_of([&] { (void)forest.run(forest.tree->put(worker, 1, four)); }), HasSubstr("have 8"));
  std::array<std::uint64_t, 2> keys{};
  EXPECT_THAT(message_of([&] { (void)forest.run(forest.tree->scan(worker, 1, keys, four)); }),
              HasSubstr("a scan of 2 keys needs 16 bytes for values, not 4"));
  EXPECT_THAT(message_of([&] { (void)forest.add_worker({.session = {.buffers = 2}}); }),
              HasSubstr("buffers 2: a B-tree's worker needs at least 6"));
  const std::array<Node*, 2> two = {forest.nodes[0], forest.nodes[0]};
  EXPECT_THAT(message_of([&] { const BTree::Worker odd(*forest.tree, *forest.nodes[0], two); }),
              HasSubstr("a worker for 2 memory nodes: the tree lies on 1"));
  const RemoteSpan little = forest.regions[0].remote(0, 4096);
  EXPECT_THAT(message_of([&] { const BTree small(farm, small_nodes(), std::span(&little, 1)); }),
              HasSubstr("4096 bytes at memory node 0: the tree needs"));
  EXPECT_THAT(message_of([&] { const BTree none(farm, small_nodes(), {}); }), HasSubstr("memory of 0 memory nodes"));
}

// Under a latch without versions, readers see whatever is in memory.
class BTreeDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    const Pairs pairs = Pairs::evenly(200, 5);
    ASSERT_EQ(forest.run(forest.tree->bulk_load(worker, pairs.keys, pairs.values)), Outcome::done);
    ASSERT_THAT(forest.check().problems, IsEmpty());
  }
  // A number in node `object`, at offset `at` of its payload (tree_node.h).
  template <class Number = std::uint64_t>
  void plant(std::uint64_t object, std::uint64_t at, Number number) {
    const BTreeOptions& options = forest.tree->options();
    const Layout layout(latch.shape(latch.largest_payload(options.node_bytes, kind) / 8 * 8, kind), kind,
                        options.nodes);
    const std::uint64_t begin = BTree::bytes_needed(latch, options) - layout.total_bytes();
    std::memcpy(forest.regions[0].bytes().data() + begin + layout.payload(object) + at, &number, sizeof number);
  }
  void set_latch_word(std::uint64_t object, std::uint64_t word) {
    const Layout& layout = forest.tree->objects(0).layout();
    const std::uint64_t begin = forest.regions[0].bytes().size() - layout.total_bytes();
    std::memcpy(forest.regions[0].bytes().data() + begin + layout.latch(object), &word, 8);
  }
  void expect_problem(const char* text) { EXPECT_THAT(forest.check().problems, Contains(HasSubstr(text))); }

  const RwLatch latch;
  const LayoutKind kind = latch.default_layout();
  Forest forest{latch};
  BTree::Worker& worker = forest.add_worker();
};

TEST_F(BTreeDamage, AChangedValueIsFoundByItsChecksum) {
  plant<std::uint64_t>(1, 48 + 12 * 8, 77);
  expect_problem("node 1 of memory node 0 has a wrong checksum");
}
TEST_F(BTreeDamage, KeysOutOfOrderOrOutsideTheFencesAreFound) {
  plant<std::uint64_t>(1, 48, 12345);
  expect_problem("keys that do not ascend");
  expect_problem("outside of its fences");
}
TEST_F(BTreeDamage, AGapBetweenNeighboursIsFound) {
  plant<std::uint64_t>(1, 16, 3);
  expect_problem("and the one before it ends at 3");
}
TEST_F(BTreeDamage, ACircleIsFound) {
  plant(2, 24, NodeRef::of(0, 1, 1).bits);
  expect_problem("node 1 of memory node 0 is linked twice");
}
TEST_F(BTreeDamage, ALinkToNowhereIsFoundAndStopsTheReader) {
  plant(1, 24, NodeRef::of(9, 1, 1).bits);
  expect_problem("links a node that there is not");
  std::vector<std::uint64_t> keys(1000);
  std::vector<std::byte> values(8000);
  EXPECT_THAT(message_of([&] { (void)forest.run(forest.tree->scan(worker, 0, keys, values)); }),
              HasSubstr("memory node 9 of the B-tree is damaged: there is no such node"));
}
TEST_F(BTreeDamage, ACountThatIsTooHighIsFoundAndStopsTheReader) {
  plant(0, 40, std::uint32_t{99});  // the root's count
  expect_problem("has 99 entries, and room for");
  Word value;
  EXPECT_THAT(message_of([&] { (void)forest.run(forest.tree->get(worker, 0, value.bytes())); }),
              HasSubstr("node 0 of memory node 0 of the B-tree is damaged: its count is not possible"));
}
TEST_F(BTreeDamage, AParentThatNamesAStrangerIsFound) {
  plant<std::uint64_t>(0, 48 + 8, 7);  // the root's second key: no child begins there
  expect_problem("for the keys from 7 on, which is not at level");
}
TEST_F(BTreeDamage, AnotherGenerationThatIsLinkedIsFound) {
  plant(1, 44, std::uint32_t{77});
  expect_problem("is linked, and another one by now");
}
TEST_F(BTreeDamage, ALatchThatStaysHeldIsFoundByAWalkerWithoutLeaseOrDeadline) {
  for (const std::uint64_t word : {kExclusive, std::uint64_t{1} << 40 | 1}) {
    for (const std::uint64_t object : {0U, 2U}) {
      set_latch_word(object, word);
      expect_problem(("node " + std::to_string(object) + " of memory node 0 stays latched").c_str());
      set_latch_word(object, kFree);
    }
  }
  for (std::uint64_t key = 1; key < 5; ++key) {  // a leaf is split, and the worker has spare nodes now
    EXPECT_EQ(forest.run(put_one(*forest.tree, worker, key, key)), Outcome::done);
  }
  const BTreeReport report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_GT(report.unlinked_nodes, 4U);
  const std::uint64_t spare = report.nodes + 3;
  set_latch_word(spare, kExclusive);
  expect_problem(("node " + std::to_string(spare) + " of memory node 0 is not linked, and stays latched").c_str());
}
TEST_F(BTreeDamage, ADamagedPoolIsFound) {
  const Layout control(latch.shape(24, kind), kind, 1);
  const auto plant_in_pool = [&](std::uint64_t offset, std::uint64_t word) {
    std::memcpy(forest.regions[0].bytes().data() + kSuperblockBytes + offset, &word, sizeof word);
  };
  forest.world.reactor().run_for(from_ns(1e5));  // the unlatch of the last check
  plant_in_pool(control.latch(0), kExclusive);
  expect_problem("the pool of memory node 0 is damaged: its latch is held");
  forest.world.reactor().run_for(from_ns(1e5));  // the unlatch of the last check
  plant_in_pool(control.latch(0), kFree);
  plant_in_pool(control.payload(0) + 8, 1'000'000);
  expect_problem("the pool of memory node 0 is damaged: it has or links objects that there are not");
}
// A client has begun to merge it. Only the checksum is wrong, because this test has not made one.
TEST_F(BTreeDamage, ADeadNodeThatIsLinkedIsAnUnfinishedMerge) {
  plant<std::uint16_t>(1, 38, NodeHeader::kHasHigh | NodeHeader::kDead);
  plant<std::uint32_t>(1, 40, 1);  // the count
  const BTreeReport report = forest.check();
  EXPECT_EQ(report.unfinished_merges, 1U);
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("has a wrong checksum")));
}

}  // namespace
}  // namespace sidelatch::structures
