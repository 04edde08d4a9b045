// Latches by RPC over real verbs: a server's CPU changes the latch words, clients SEND.
#include "requests.h"
#include "tests/bench/rpc_latch_load.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

namespace sidelatch::bench {
namespace {

using namespace fabric;

struct Client {
  std::unique_ptr<RpcLatchClient> latches;
  std::unique_ptr<QueuePair> data;
  MemoryRegion buffer;
};

constexpr std::uint64_t kTimes = 25;

// The sum that `clients` clients reach with that operation of the cores.
std::uint64_t sum_of(std::size_t clients, CoreOperation operation, std::uint64_t* lost) {
  verbs::VerbsFabric fabric({}, verbs::kConnections);
  Node& server_node = fabric.add_node("server");
  Node& client_node = fabric.add_node("client");
  const MemoryRegion table = server_node.allocate(64, Access::remote_all);
  RpcLatchServer server(server_node, {.latches = 1, .operation = operation});
  const Reactor::Scope scope(fabric.reactor());
  std::vector<Client> all;
  for (std::size_t i = 0; i < clients; ++i) {
    all.push_back({std::make_unique<RpcLatchClient>(server, client_node, i + 1), client_node.connect(server_node),
                   client_node.allocate(64, Access::local_write)});
  }
  for (Client& client : all) {
    fabric.reactor().spawn(increment(client.latches.get(), client.data.get(), client.buffer.local(0, 8),
                                     table.remote(0, 8), kTimes, lost));
  }
  while (fabric.reactor().spawned() > clients) {  // the server's tasks wait for more
    fabric.reactor().run_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(server.holder(0), 0U);
  all.clear();
  fabric.reactor().run();  // the server's tasks end with their clients
  EXPECT_EQ(fabric.reactor().spawned(), 0U);
  std::uint64_t sum = 0;
  std::memcpy(&sum, table.bytes().data(), 8);
  return sum;
}

TEST(RpcLatchOnVerbs, NoIncrementUnderItIsLost) {
  std::uint64_t lost = 0;
  EXPECT_EQ(sum_of(4, compare_and_swap, &lost), 4 * kTimes);
  EXPECT_EQ(lost, 0U);
}

TEST(RpcLatchOnVerbs, ACoreThatDoesNotLookLosesIncrements) {
  std::uint64_t lost = 0;
  EXPECT_LT(sum_of(4, take_without_looking, &lost), 4 * kTimes);
}

}  // namespace
}  // namespace sidelatch::bench
