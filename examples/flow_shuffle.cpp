// A key shuffle that loads hash tables: three storage nodes hold rows, two compute nodes each build a hash table of the
// rows whose keys are theirs. The switch moves the rows: nobody posts a request for them.
//
// All is simulated: the shuffle in one virtual time, and each compute node's table, in its own memory, in another one.
// Between processes the same rings and the same FlowSwitch are used: zero_sided_flow.cpp, `sidelatch flow shuffle`.
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/flows/sim/flow_simulation.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/sync/two_read_version.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iostream>
#include <span>
#include <vector>

using namespace sidelatch;

namespace {

constexpr std::uint64_t kStorageNodes = 3;
constexpr std::uint64_t kComputeNodes = 2;
constexpr std::uint64_t kRowsEach = 2000;  // of each storage node
constexpr flows::RingShape kShape{.slots = 256, .item_bytes = 16};

struct Row {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
};
static_assert(sizeof(Row) == kShape.item_bytes);

std::uint64_t owner_of(std::uint64_t key) { return (key * 0x9e37'79b9'7f4a'7c15U >> 32U) % kComputeNodes; }

// Storage node n has the keys n, n + 3, n + 6, ...
Row row_of(std::uint64_t node, std::uint64_t i) {
  const std::uint64_t key = i * kStorageNodes + node;
  return {.key = key, .value = key * key};
}

// ---- The shuffle. Each compute node's rows, as they come.
std::array<std::vector<Row>, kComputeNodes> shuffle() {
  flows::FlowSimulation world(fabric::sim::load_profile("connectx5"), {.cable_ns = 15, .switch_ns = 400},
                              kStorageNodes + kComputeNodes);
  flows::Flow flow{.kind = flows::FlowKind::shuffle, .path_mtu = 4096};
  std::deque<flows::Producer> producers;  // a ring for each consumer in each storage node
  std::array<std::uint64_t, kStorageNodes> pushed{};
  for (std::size_t node = 0; node < kStorageNodes; ++node) {
    for (std::size_t to = 0; to < kComputeNodes; ++to) {
      flow.producers.push_back(world.add_ring(node, kShape, world.control().new_end()));
      producers.emplace_back(flows::FlowSimulation::memory(flow.producers.back()), kShape);
    }
    // What its processor does: it scans the rows, and pushes each into the ring of its owner.
    world.set_unit(node, [&, node](std::uint64_t) {
      std::uint64_t& next = pushed[node];
      for (; next < kRowsEach; ++next) {
        const Row row = row_of(node, next);
        if (!producers[node * kComputeNodes + owner_of(row.key)].try_push(std::as_bytes(std::span(&row, 1)))) {
          return;  // full: the consumer is behind
        }
      }
      for (std::size_t to = 0; to < kComputeNodes; ++to) {
        producers[node * kComputeNodes + to].end();
      }
    });
  }
  std::deque<flows::Consumer> consumers;
  std::array<std::vector<Row>, kComputeNodes> rows;
  for (std::size_t node = 0; node < kComputeNodes; ++node) {
    flow.consumers.push_back(world.add_ring(kStorageNodes + node, kShape, world.control().new_end()));
    consumers.emplace_back(flows::FlowSimulation::memory(flow.consumers.back()), kShape);
    world.set_unit(kStorageNodes + node, [&, node](std::uint64_t) {
      Row row;
      while (consumers[node].try_pop(std::as_writable_bytes(std::span(&row, 1))) == flows::Consumer::Popped::item) {
        rows[node].push_back(row);
      }
    });
  }
  world.control().start(flow);
  constexpr std::uint64_t kSecond = 1'000'000'000;
  world.run_until(kSecond, [&] { return consumers[0].has_ended() && consumers[1].has_ended(); });
  std::cout << "shuffled in " << world.now() / 1000 << " us of virtual time\n";
  return rows;
}

// ---- A compute node's table. Counts the rows that are found in it with their values.
fabric::Task<std::uint64_t> load_and_probe(const structures::HashTable& table, structures::Client& client,
                                           const std::vector<Row>& rows) {
  std::vector<std::uint64_t> keys;
  std::vector<std::byte> values(rows.size() * sizeof(std::uint64_t));
  for (const Row& row : rows) {
    std::memcpy(values.data() + keys.size() * sizeof row.value, &row.value, sizeof row.value);
    keys.push_back(row.key);
  }
  const structures::Outcome loaded = co_await table.bulk_load(client, keys, values);
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < rows.size() && loaded == structures::Outcome::done; ++i) {
    std::array<std::byte, sizeof(std::uint64_t)> value{};
    const structures::Outcome got = co_await table.get(client, rows[i].key, value);
    const bool is_right = got == structures::Outcome::done && std::memcmp(value.data(), &rows[i].value, 8) == 0;
    found += is_right ? 1U : 0U;
  }
  co_return found;
}

std::uint64_t build_table(const std::vector<Row>& rows) {
  fabric::sim::Simulation world({.profile = fabric::sim::load_profile("connectx5"), .seed = 1});
  fabric::Node& node = world.add_node("compute");
  const sync::TwoReadVersion scheme;
  const structures::HashTableOptions options{.value_bytes = 8, .capacity = kStorageNodes * kRowsEach};
  const fabric::MemoryRegion memory =
      node.allocate(structures::HashTable::bytes_needed(scheme, options, 1), fabric::Access::remote_all);
  const fabric::RemoteSpan span = memory.remote();
  const structures::HashTable table(scheme, options, std::span(&span, 1));
  const std::array<fabric::Node*, 1> memory_nodes{&node};
  structures::Client client(node, memory_nodes, table.buffer_bytes());
  return world.reactor().run(load_and_probe(table, client, rows));
}

}  // namespace

int main() {
  const std::array<std::vector<Row>, kComputeNodes> rows = shuffle();
  std::uint64_t found = 0;
  bool is_right = true;
  for (std::size_t node = 0; node < kComputeNodes; ++node) {
    for (const Row& row : rows[node]) {
      is_right = is_right && owner_of(row.key) == node;
    }
    const std::uint64_t here = build_table(rows[node]);
    std::cout << "compute node " << node << ": " << rows[node].size() << " rows came, " << here
              << " are in its hash table\n";
    found += here;
  }
  return is_right && found == kStorageNodes * kRowsEach ? 0 : 1;
}
