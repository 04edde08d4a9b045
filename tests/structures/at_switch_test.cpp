// The hash table and the B-tree over the schemes that keep latches or versions at a switch. Its program runs, compiled,
// between the simulated machines.
#include "hash_table_rig.h"
#include "history.h"

#include <sidelatch/checker/simulated_place.h>
#include <sidelatch/structures/btree.h>
#include <sidelatch/structures/hash_table.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

namespace sidelatch::structures {
namespace {
namespace at_switch {

using namespace fabric;
using ::testing::IsEmpty;

constexpr std::uint64_t kKeys = 40;
constexpr int kOperations = 60;  // of each client

class AtSwitches : public ::testing::TestWithParam<checker::SchemeEntry> {
 protected:
  // A machine with a memory region for the structure, and the switch before it.
  template <class Structure, class Options>
  void build(std::unique_ptr<Structure>& structure, const Options& options, std::uint64_t bytes) {
    memory_ = storage_.allocate(bytes, Access::remote_all);
    const std::array<RemoteSpan, 1> spans = {memory_.remote()};
    structure = std::make_unique<Structure>(*scheme_, options, spans);
    place_.serve(memory_.remote(), structure->objects(0));
  }

  // Operations of one client on random keys, written down.
  template <class Structure, class Worker>
  static Task<void> use(const Structure* structure, Worker* worker, std::uint64_t seed, Histories* histories) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < kOperations; ++i) {
      const std::uint64_t key = random() % kKeys;
      const auto call = static_cast<Call>(random() % 5);
      std::uint64_t value = seed * 1000 + static_cast<std::uint64_t>(i);
      Event event{.call = call, .argument = value, .began = worker->reactor().now().count()};
      const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&value, 1));
      switch (call) {
        case Call::get:
          event.outcome = co_await structure->get(*worker, key, bytes);
          event.result = value;
          break;
        case Call::insert:
          event.outcome = co_await structure->insert(*worker, key, bytes);
          break;
        case Call::put:
          event.outcome = co_await structure->put(*worker, key, bytes);
          break;
        case Call::update:
          event.outcome = co_await structure->update(*worker, key, bytes);
          break;
        case Call::remove:
          event.outcome = co_await structure->remove(*worker, key);
          break;
      }
      event.ended = worker->reactor().now().count();
      (*histories)[key].push_back(event);
    }
  }

  template <class Structure, class Worker>
  void expect_linearizable(const Structure& structure, const std::vector<std::unique_ptr<Worker>>& workers) {
    Histories histories;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      world_.reactor().spawn(use(&structure, workers[i].get(), i + 1, &histories));
    }
    world_.reactor().run();
    std::size_t events = 0;
    for (const auto& [key, history] : histories) {
      events += history.size();
    }
    EXPECT_EQ(events, workers.size() * kOperations);
    EXPECT_FALSE(first_violation(histories));
    const auto report = world_.reactor().run(structure.check(*workers.front()));
    EXPECT_THAT(report.problems, IsEmpty());
    for (std::uint64_t i = 0; i < structure.objects(0).size(); ++i) {
      EXPECT_TRUE(place_.is_free(i)) << "object " << i << " stays latched";
    }
  }

  std::unique_ptr<sync::Scheme> scheme_ = GetParam().make();
  sim::Simulation world_{{.profile = connectx5(), .seed = 3}};
  Node& storage_ = world_.add_node("storage");
  checker::SimulatedPlace place_{world_, storage_, GetParam()};
  MemoryRegion memory_;
  std::array<Node*, 1> memory_nodes_ = {&storage_};
};

TEST_P(AtSwitches, HashTablesAreLinearizable) {
  const HashTableOptions options{.value_bytes = 8, .capacity = 12, .entries_per_bucket = 2, .overflow_buckets = 40};
  std::unique_ptr<HashTable> table;
  build(table, options, HashTable::bytes_needed(*scheme_, options, 1));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) {
    Node& node = world_.add_node("client");
    clients.push_back(std::make_unique<Client>(node, memory_nodes_, table->buffer_bytes(), place_.options(node, {})));
  }
  expect_linearizable(*table, clients);
}

TEST_P(AtSwitches, BTreesAreLinearizable) {
  const BTreeOptions options{.node_bytes = 160, .nodes = 400};  // 40 keys make several levels
  std::unique_ptr<BTree> tree;
  build(tree, options, BTree::bytes_needed(*scheme_, options));
  std::vector<std::unique_ptr<BTree::Worker>> workers;
  for (int i = 0; i < 5; ++i) {
    Node& node = world_.add_node("client");
    workers.push_back(std::make_unique<BTree::Worker>(*tree, node, memory_nodes_,
                                                      BTreeWorkerOptions{.session = place_.options(node, {})}));
  }
  expect_linearizable(*tree, workers);
}

Task<void> read_with_no_right(QueuePair& qp, LocalSpan into) {
  (void)co_await qp.read(into, RemoteSpan{{64}, 8, {0xdead}});
}

// The connection of the latches, where they are apart, is none of those that the client has made.
TEST_P(AtSwitches, AClientBringsBackTheConnectionToTheSwitch) {
  const HashTableOptions options{.value_bytes = 8, .capacity = 12, .entries_per_bucket = 2, .overflow_buckets = 40};
  std::unique_ptr<HashTable> table;
  build(table, options, HashTable::bytes_needed(*scheme_, options, 1));
  Node& node = world_.add_node("client");
  Client client(node, memory_nodes_, table->buffer_bytes(), place_.options(node, {}));
  const auto put = [&](std::uint64_t value) {
    return world_.reactor().run(table->put(client, 7, std::as_bytes(std::span(&value, 1))));
  };
  ASSERT_EQ(put(1), Outcome::done);
  sync::Session& session = client.session(0);
  QueuePair* const apart = session.options().latches.queue_pair;
  QueuePair& pair = apart != nullptr ? *apart : session.qp();
  const MemoryRegion eight = node.allocate(8, Access::local_write);
  EXPECT_THROW(world_.reactor().run(read_with_no_right(pair, eight.local())), FabricError);
  ASSERT_EQ(pair.state(), QueuePair::State::error);
  EXPECT_THROW(static_cast<void>(put(2)), FabricError);
  world_.reactor().run(client.reconnect());
  EXPECT_EQ(put(3), Outcome::done);
  world_.reactor().run(client.close());
}

std::vector<checker::SchemeEntry> sound_at_switches() {
  std::vector<checker::SchemeEntry> chosen;
  for (const checker::SchemeEntry& entry : checker::schemes_at_switches()) {
    if (!entry.known_broken()) {
      chosen.push_back(entry);
    }
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Schemes, AtSwitches, ::testing::ValuesIn(sound_at_switches()),
                         [](const auto& scheme) { return name_of_scheme(scheme); });

}  // namespace at_switch
}  // namespace
}  // namespace sidelatch::structures
