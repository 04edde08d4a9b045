#include <sidelatch/structures/btree.h>

#include "btree_fixture.h"

#include "tests/sampled.h"

#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

#ifdef NDEBUG
constexpr int kMany = 1;
#else
constexpr int kMany = 10;  // with sanitizers, large numbers are divided by this
#endif

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Scheme>()> make;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"ExclusiveLatch", [] { return std::make_unique<ExclusiveLatch>(); }},
      {"ExclusiveLatchWriteUnlatch",
       [] { return std::make_unique<ExclusiveLatch>(Acquire::speculative, WriteUnlatch::async); }},
      {"RwLatch", [] { return std::make_unique<RwLatch>(); }},
      {"RwLatchBasic", [] { return std::make_unique<RwLatch>(LatchLevel::basic); }},
      {"TwoRead", [] { return std::make_unique<TwoReadVersion>(); }},
      {"Crc64", [] { return std::make_unique<Crc64>(); }},
      {"Farm", [] { return std::make_unique<FarmLineVersions>(); }},
      {"FarmAsync", [] { return std::make_unique<FarmLineVersions>(Release::async); }},
      {"CopyOnWrite", [] { return std::make_unique<CopyOnWrite>(); }},
  };
  return all;
}

class BTreeOverSchemes : public ::testing::TestWithParam<std::tuple<Kind, Traversal>> {
 protected:
  std::unique_ptr<Scheme> scheme = std::get<0>(GetParam()).make();
  BTreeOptions options(std::uint64_t nodes = 4000) const {
    BTreeOptions chosen = small_nodes(nodes);
    chosen.node_bytes = scheme->needs().copies > 1 ? 640 : 320;
    chosen.traversal = std::get<1>(GetParam());
    return chosen;
  }
};

INSTANTIATE_TEST_SUITE_P(All, BTreeOverSchemes,
                         ::testing::Combine(::testing::ValuesIn(kinds()),
                                            ::testing::Values(Traversal::fences, Traversal::coupled)),
                         [](const auto& made) {
                           return std::string(std::get<0>(made.param).name) +
                                  (std::get<1>(made.param) == Traversal::coupled ? "Coupled" : "Fences");
                         });

using Model = std::map<std::uint64_t, std::uint64_t>;

// Random operations on keys that nobody else changes. Each result must equal the model's.
Task<void> do_as_the_model(const BTree& tree, BTree::Worker& worker, Model& model, std::uint64_t first_key,
                           std::uint64_t step, std::uint64_t keys, int operations, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < operations; ++i) {
    const std::uint64_t key = first_key + random() % keys * step;
    const Word value(random());
    const auto known = model.find(key);
    const bool is_there = known != model.end();
    switch (random() % 6) {
      case 0: {
        const Outcome outcome = co_await tree.insert(worker, key, value.bytes());
        EXPECT_EQ(outcome, is_there ? Outcome::present : Outcome::done);
        model.emplace(key, value.number());
        break;
      }
      case 1: {
        const Outcome outcome = co_await tree.put(worker, key, value.bytes());
        EXPECT_EQ(outcome, Outcome::done);
        model[key] = value.number();
        break;
      }
      case 2: {
        const Outcome outcome = co_await tree.update(worker, key, value.bytes());
        EXPECT_EQ(outcome, is_there ? Outcome::done : Outcome::absent);
        if (is_there) {
          known->second = value.number();
        }
        break;
      }
      case 3: {
        const Outcome outcome = co_await tree.remove(worker, key);
        EXPECT_EQ(outcome, is_there ? Outcome::done : Outcome::absent);
        model.erase(key);
        break;
      }
      default: {
        Word seen;
        const Outcome outcome = co_await tree.get(worker, key, seen.bytes());
        EXPECT_EQ(outcome, is_there ? Outcome::done : Outcome::absent);
        if (is_there) {
          EXPECT_EQ(seen.number(), known->second);
        }
      }
    }
    if (::testing::Test::HasFailure()) {
      co_return;
    }
  }
}

std::uint64_t entries_of(const std::vector<Model>& models) {
  return std::accumulate(models.begin(), models.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Model& model) { return sum + model.size(); });
}

TEST_P(BTreeOverSchemes, GivesEachClientWhatAMapWouldGive) {
  constexpr std::uint64_t kClients = 8;
  Forest forest(*scheme, options(), 2);
  std::vector<Model> models(kClients);
  for (std::uint64_t i = 0; i < kClients; ++i) {
    BTree::Worker& worker = forest.add_worker({.cached_nodes = i % 2 * 16});
    forest.spawn(do_as_the_model(*forest.tree, worker, models[i], i, kClients, 100, 4000 / kMany, i + 1));
  }
  forest.run_all();
  const BTreeReport report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, entries_of(models));
}

Task<void> insert_all(const BTree& tree, BTree::Worker& worker, std::uint64_t first, std::uint64_t step,
                      std::uint64_t count, bool descending) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t key = first + (descending ? count - 1 - i : i) * step;
    const Outcome outcome = co_await tree.insert(worker, key, Word(~key).bytes());
    EXPECT_EQ(outcome, Outcome::done) << key;
  }
}

Task<void> find_all(const BTree& tree, BTree::Worker& worker, std::uint64_t keys) {
  for (std::uint64_t key = 0; key < keys; ++key) {
    Word seen;
    const Outcome outcome = co_await tree.get(worker, key, seen.bytes());
    EXPECT_EQ(outcome, Outcome::done) << key;
    EXPECT_EQ(seen.number(), ~key);
  }
}

TEST_P(BTreeOverSchemes, ManyClientsInsertAtOnceIntoAnEmptyTree) {
  constexpr std::uint64_t kClients = 64;
  constexpr std::uint64_t kEach = 40;
  Forest forest(*scheme, options());
  for (std::uint64_t i = 0; i < kClients; ++i) {
    forest.spawn(insert_all(*forest.tree, forest.add_worker(), i, kClients, kEach, i % 2 == 0));
  }
  forest.run_all();
  forest.run(find_all(*forest.tree, forest.add_worker(), kClients * kEach));
  const BTreeReport report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, kClients * kEach);
  EXPECT_GE(report.levels, 3U);
  EXPECT_EQ(report.missing_separators, 0U);
}

Task<void> remove_all(const BTree& tree, BTree::Worker& worker, std::uint64_t first, std::uint64_t step,
                      std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const Outcome outcome = co_await tree.remove(worker, first + i * step);
    EXPECT_EQ(outcome, Outcome::done);
  }
}

TEST_P(BTreeOverSchemes, ShrinksToItsRootWhenAllIsRemovedAndReusesTheNodes) {
  constexpr std::uint64_t kClients = 8;
  constexpr std::uint64_t kEach = 60;
  // Far fewer nodes than all rounds need together.
  Forest forest(*scheme, options(600));
  std::vector<BTree::Worker*> workers;
  for (std::uint64_t i = 0; i < kClients; ++i) {
    workers.push_back(&forest.add_worker({.cached_nodes = 32}));
  }
  for (int round = 0; round < 6; ++round) {
    for (std::uint64_t i = 0; i < kClients; ++i) {
      forest.spawn(insert_all(*forest.tree, *workers[i], i, kClients, kEach, false));
    }
    forest.run_all();
    for (std::uint64_t i = 0; i < kClients; ++i) {
      forest.spawn(remove_all(*forest.tree, *workers[i], i, kClients, kEach));
    }
    forest.run_all();
    // Merges that met each other may have left nodes. One more pair of operations on each side finds nothing odd.
    const BTreeReport report = forest.check();
    EXPECT_THAT(report.problems, IsEmpty());
    EXPECT_EQ(report.entries, 0U);
    EXPECT_LE(report.nodes, kClients);
  }
  for (BTree::Worker* worker : workers) {
    forest.run(forest.tree->retire(*worker));
  }
  EXPECT_EQ(forest.check().unlinked_nodes, 0U);
}

// Operations of all clients on a few keys, with their begin and end times.
Task<void> record(const BTree& tree, BTree::Worker& worker, Histories& histories, int operations, std::uint64_t seed) {
  constexpr std::array<std::uint64_t, 4> kKeys = {5, 100, 101, 102};
  std::mt19937_64 random(seed);
  Reactor& reactor = worker.reactor();
  for (int i = 0; i < operations; ++i) {
    const std::uint64_t key = kKeys.at(random() % kKeys.size());
    Event event{.call = static_cast<Call>(random() % 5), .argument = random() % 1000, .began = reactor.now().count()};
    Word value(event.argument);
    switch (event.call) {
      case Call::get:
        event.outcome = co_await tree.get(worker, key, value.bytes());
        event.result = value.number();
        break;
      case Call::insert:
        event.outcome = co_await tree.insert(worker, key, value.bytes());
        break;
      case Call::put:
        event.outcome = co_await tree.put(worker, key, value.bytes());
        break;
      case Call::update:
        event.outcome = co_await tree.update(worker, key, value.bytes());
        break;
      case Call::remove:
        event.outcome = co_await tree.remove(worker, key);
        break;
    }
    event.ended = reactor.now().count();
    histories[key].push_back(event);
  }
}

// Other keys around them come and go, so that their leaves are split and merged.
Task<void> churn(const BTree& tree, BTree::Worker& worker, std::uint64_t first, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t key = first; key < first + 40; ++key) {
      const Outcome outcome = co_await tree.put(worker, key, Word(key).bytes());
      EXPECT_EQ(outcome, Outcome::done);
    }
    for (std::uint64_t key = first; key < first + 40; ++key) {
      const Outcome outcome = co_await tree.remove(worker, key);
      EXPECT_EQ(outcome, Outcome::done);
    }
  }
}

TEST_P(BTreeOverSchemes, IsLinearizableWhileNodesSplitAndMerge) {
  for (std::uint64_t seed = 1; seed <= 20 / kMany; ++seed) {
    Forest forest(*scheme, options(), 1, seed);
    Histories histories;
    forest.spawn(churn(*forest.tree, forest.add_worker(), 10, 2));
    forest.spawn(churn(*forest.tree, forest.add_worker(), 110, 2));
    for (std::uint64_t client = 0; client < 6; ++client) {
      forest.spawn(
          record(*forest.tree, forest.add_worker({.cached_nodes = client * 4}), histories, 25, seed * 100 + client));
    }
    forest.run_all();
    EXPECT_EQ(first_violation(histories), std::nullopt) << "seed " << seed;
    EXPECT_THAT(forest.check().problems, IsEmpty());
  }
}

// The pool's latch is a dead client's, and the worker may not take it over. The nodes that merges have emptied are more
// than it keeps.
TEST(BTree, ANodeThatThePoolCannotTakeStaysWithItsWorker) {
  const ExclusiveLatch latch(LatchLevel::combined);
  Forest forest(latch);
  BTree::Worker& builder = forest.add_worker();
  forest.run(insert_all(*forest.tree, builder, 0, 1, 600, /*descending=*/false));
  forest.run(builder.close());
  BTreeWorkerOptions options;
  options.session.owner = 1;
  options.session.lease = {from_ns(100'000), from_ns(10'000)};
  BTree::Worker& worker = forest.add_worker(options);
  const Layout control(latch.shape(24, latch.default_layout()), latch.default_layout(), 1);
  std::byte* const pool_latch = forest.regions[0].bytes().data() + kSuperblockBytes + control.latch(0);
  const std::uint64_t dead = exclusive_word(9, 1);
  std::memcpy(pool_latch, &dead, sizeof dead);
  forest.run(remove_all(*forest.tree, worker, 0, 1, 600));
  std::uint64_t word = 0;
  std::memcpy(&word, pool_latch, sizeof word);
  EXPECT_EQ(word, dead);
  std::memcpy(pool_latch, &kFree, sizeof kFree);
  forest.run(worker.close());
  const BTreeReport report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, 0U);
  EXPECT_EQ(report.unlinked_nodes, 0U);
}

TEST(BTree, IsAMapUnderMillionsOfOperationsFromManyClients) {
  constexpr std::uint64_t kClients = 32;
  const int operations = (takes_long() ? 64'000 : 16'000) / kMany / kMany;
  const FarmLineVersions farm;
  Forest forest(farm, {.node_bytes = 1024, .nodes = 20'000}, 3);
  std::vector<Model> models(kClients);
  for (std::uint64_t i = 0; i < kClients; ++i) {
    BTree::Worker& worker = forest.add_worker({.cached_nodes = 200});
    forest.spawn(do_as_the_model(*forest.tree, worker, models[i], i * 7, kClients * 7, 3000, operations, i + 1));
  }
  forest.run_all();
  const BTreeReport report = forest.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, entries_of(models));
}

}  // namespace
}  // namespace sidelatch::structures
