// The hash table and the B-tree on a real driver: workers apply the same changes to their own keys and to a map, on two
// memory nodes. Also the example with a memory node and clients as separate processes.
#include <sidelatch/fabric/verbs/verbs_fabric.h>
#include <sidelatch/structures/btree.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using ::testing::IsEmpty;

constexpr std::uint64_t kWorkers = 3;
constexpr std::uint64_t kKeys = 40;  // of each worker
constexpr int kOperations = 400;     // of each worker

using Value = std::array<std::byte, 8>;
using Model = std::map<std::uint64_t, Value>;

// Common to a table with its client and a tree with its worker.
template <class Structure, class User>
Task<void> do_as_the_model(const Structure* structure, User* user, Model* model, std::uint64_t me) {
  std::mt19937_64 random(me + 1);
  for (int i = 0; i < kOperations; ++i) {
    const std::uint64_t key = me + random() % kKeys * kWorkers;
    const bool is_there = model->contains(key);
    Value value{};
    const std::uint64_t number = random();
    std::memcpy(value.data(), &number, sizeof number);
    switch (random() % 4) {
      case 0: {
        const Outcome outcome = co_await structure->put(*user, key, value);
        EXPECT_EQ(outcome, Outcome::done);
        (*model)[key] = value;
        break;
      }
      case 1: {
        const Outcome outcome = co_await structure->insert(*user, key, value);
        EXPECT_EQ(outcome, is_there ? Outcome::present : Outcome::done);
        model->emplace(key, value);
        break;
      }
      case 2: {
        const Outcome outcome = co_await structure->remove(*user, key);
        EXPECT_EQ(outcome, is_there ? Outcome::done : Outcome::absent);
        model->erase(key);
        break;
      }
      default: {
        const Outcome outcome = co_await structure->get(*user, key, value);
        EXPECT_EQ(outcome, is_there ? Outcome::done : Outcome::absent);
        if (is_there) {
          EXPECT_EQ(value, (*model)[key]);
        }
      }
    }
  }
}

std::uint64_t entries_of(const std::array<Model, kWorkers>& models) {
  std::uint64_t sum = 0;
  for (const Model& model : models) {
    sum += model.size();
  }
  return sum;
}

struct Kind {
  const char* name;
  std::function<std::unique_ptr<sync::Scheme>()> make;
};

class StructuresOnVerbs : public ::testing::TestWithParam<Kind> {
 protected:
  std::vector<RemoteSpan> lend(std::uint64_t bytes) {
    std::vector<RemoteSpan> spans;
    for (Node* node : memory_nodes) {
      regions.push_back(node->allocate(bytes, Access::remote_all));
      spans.push_back(regions.back().remote());
    }
    return spans;
  }

  verbs::VerbsFabric fabric;
  std::array<Node*, 2> memory_nodes = {&fabric.add_node("memory 0"), &fabric.add_node("memory 1")};
  Node& compute = fabric.add_node("compute");
  std::vector<MemoryRegion> regions;
  std::unique_ptr<sync::Scheme> scheme = GetParam().make();
  std::array<Model, kWorkers> models;
};

INSTANTIATE_TEST_SUITE_P(Schemes, StructuresOnVerbs,
                         ::testing::Values(Kind{"RwLatch", [] { return std::make_unique<sync::RwLatch>(); }},
                                           Kind{"TwoRead", [] { return std::make_unique<sync::TwoReadVersion>(); }},
                                           Kind{"CopyOnWrite", [] { return std::make_unique<sync::CopyOnWrite>(); }}),
                         [](const auto& made) { return std::string(made.param.name); });

TEST_P(StructuresOnVerbs, ATreeGivesEachWorkerWhatAMapWouldGive) {
  const BTreeOptions options{.node_bytes = 640, .nodes = 500};
  const std::vector<RemoteSpan> memory = lend(BTree::bytes_needed(*scheme, options));
  const BTree tree(*scheme, options, memory);
  std::vector<std::unique_ptr<BTree::Worker>> workers;
  for (std::uint64_t i = 0; i < kWorkers; ++i) {
    workers.push_back(
        std::make_unique<BTree::Worker>(tree, compute, memory_nodes, BTreeWorkerOptions{.cached_nodes = i * 8}));
    compute.reactor().spawn(do_as_the_model(&tree, workers.back().get(), &models.at(i), i));
  }
  compute.reactor().run();
  const BTreeReport report = compute.reactor().run(tree.check(*workers.front()));
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, entries_of(models));
}

TEST_P(StructuresOnVerbs, ATableGivesEachClientWhatAMapWouldGive) {
  // Few home buckets, so that chains form.
  const HashTableOptions options{.value_bytes = 8, .capacity = 20, .entries_per_bucket = 2, .overflow_buckets = 200};
  const std::vector<RemoteSpan> memory = lend(HashTable::bytes_needed(*scheme, options, memory_nodes.size()));
  const HashTable table(*scheme, options, memory);
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint64_t i = 0; i < kWorkers; ++i) {
    clients.push_back(std::make_unique<Client>(compute, memory_nodes, table.buffer_bytes()));
    compute.reactor().spawn(do_as_the_model(&table, clients.back().get(), &models.at(i), i));
  }
  compute.reactor().run();
  const HashTableReport report = compute.reactor().run(table.check(*clients.front()));
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, entries_of(models));
  EXPECT_GT(report.longest_chain, 1U);
}

TEST(ExamplesOnVerbs, AMemoryNodeAndClientsAreProcessesOfTheirOwn) {
  const char* const program = std::getenv("SIDELATCH_PROGRAM");
  if (program == nullptr) {
    GTEST_SKIP() << "SIDELATCH_PROGRAM is not set: there is no build with examples";
  }
  const std::string example = (std::filesystem::path(program).parent_path() / "examples/kv_store").string();
  EXPECT_EQ(std::system((example + " > /tmp/kv_store.out").c_str()), 0);
  // The clients' own lines, not the message of a machine without a NIC.
  EXPECT_EQ(std::system("test $(grep -c '2000 of 2000 right' /tmp/kv_store.out) = 2"), 0);
}

}  // namespace
}  // namespace sidelatch::structures
