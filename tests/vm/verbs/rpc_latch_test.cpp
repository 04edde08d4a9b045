// Latches by RPC over real verbs: a server's CPU changes the latch words, clients SEND.
#include "bench/rpc_latch.h"
#include "requests.h"

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

// A READ and a WRITE of a counter that only the latch protects.
Task<void> increment(Client* client, RemoteSpan counter, std::uint64_t* lost) {
  const LocalSpan buffer = client->buffer.local(0, 8);
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    bool mine = false;
    while (!mine) {
      mine = co_await client->latches->latch(0);
    }
    co_await client->data->read(buffer, counter);
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.data, 8);
    ++value;
    std::memcpy(buffer.data, &value, 8);
    co_await client->data->write(buffer, counter);
    const bool was_mine = co_await client->latches->unlatch(0);
    *lost += was_mine ? 0U : 1U;
  }
}

bool take_without_looking(std::uint64_t& word, const LatchRequest& request) {
  word = request.operation == LatchRequest::Operation::latch ? request.owner : 0;
  return true;
}

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
    fabric.reactor().spawn(increment(&client, table.remote(0, 8), lost));
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

// The broken specimen: a core that does not check the word.
TEST(RpcLatchOnVerbs, ACoreThatDoesNotLookLosesIncrements) {
  std::uint64_t lost = 0;
  EXPECT_LT(sum_of(4, take_without_looking, &lost), 4 * kTimes);
}

}  // namespace
}  // namespace sidelatch::bench
