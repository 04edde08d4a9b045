// A key/value store in the memory of one process. Its clients are processes of their own and use real RDMA.
//
//   kv_store serve 10.0.0.1:18515           the memory node: lends its memory, and takes no part in the work
//   kv_store client 10.0.0.1:18515 0 2      client 0 of 2, on the same machine or another one
//   kv_store                                both: a memory node and two clients on this machine
#include <sidelatch/fabric/verbs/memory_server.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/sync/farm_line_versions.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <iostream>
#include <string>

using namespace sidelatch::fabric;
using namespace sidelatch::structures;
using sidelatch::sync::FarmLineVersions;

constexpr std::uint64_t kEach = 1000;  // keys that each client puts
const HashTableOptions kOptions{.value_bytes = 64, .capacity = 100'000};

void serve(const std::string& address, int wait_for_end) {
  verbs::VerbsFabric fabric;
  Node& storage = fabric.add_node("storage");
  const FarmLineVersions scheme;
  const MemoryRegion memory = storage.allocate(HashTable::bytes_needed(scheme, kOptions, 1), Access::remote_all);
  verbs::MemoryServer server(storage, {.address = address});
  server.share("store", memory);
  server.start();
  std::cout << "memory node at " << server.address() << std::endl;
  char end = 0;
  (void)!::read(wait_for_end, &end, 1);  // until the other side of the pipe, or standard input, is closed
}

Task<std::uint64_t> put_and_find(const HashTable& table, Client& client, std::uint64_t me, std::uint64_t clients) {
  std::array<std::byte, 64> value{};
  for (std::uint64_t key = me * kEach; key < (me + 1) * kEach; ++key) {
    std::memcpy(value.data(), &key, sizeof key);
    const Outcome outcome = co_await table.put(client, key, value);
    if (outcome != Outcome::done) {
      throw std::runtime_error("put: " + std::string(name(outcome)));
    }
  }
  std::uint64_t right = 0;
  for (std::uint64_t key = 0; key < clients * kEach; ++key) {
    Outcome outcome = co_await table.get(client, key, value);
    while (outcome == Outcome::absent) {  // the client of this key has not put it yet
      co_await client.reactor().sleep(std::chrono::milliseconds(1));
      outcome = co_await table.get(client, key, value);
    }
    right += std::memcmp(value.data(), &key, sizeof key) == 0 ? 1U : 0U;
  }
  co_return right;
}

int work(const std::string& address, std::uint64_t me, std::uint64_t clients) {
  verbs::VerbsFabric fabric;
  Node& node = fabric.add_node("client");
  verbs::RemoteNode storage(fabric, address);
  const FarmLineVersions scheme;
  const RemoteSpan memory = storage.region("store");
  const HashTable table(scheme, kOptions, std::span(&memory, 1));
  const std::array<Node*, 1> memory_nodes = {&storage};
  Client client(node, memory_nodes, table.buffer_bytes());
  const std::uint64_t right = node.reactor().run(put_and_find(table, client, me, clients));
  const Statistics cost = client.statistics();
  std::cout << "client " << me << ": " << right << " of " << clients * kEach << " right, " << cost.round_trips
            << " round trips for " << cost.operations << " operations" << std::endl;
  return right == clients * kEach ? 0 : 1;
}

int all_on_this_machine() {
  constexpr std::uint64_t kClients = 2;
  const std::string address = "127.0.0.1:18599";
  try {
    (void)verbs::VerbsFabric();
  } catch (const verbs::DeviceError& error) {
    std::cout << error.what() << "\nNothing was done: this example wants a NIC, or soft-RoCE.\n";
    return 0;
  }
  std::array<int, 2> lifeline{};
  if (::pipe(lifeline.data()) != 0) {
    return 1;
  }
  const pid_t memory_node = ::fork();
  if (memory_node == 0) {
    ::close(lifeline[1]);
    serve(address, lifeline[0]);
    return 0;
  }
  std::array<pid_t, kClients> clients{};
  for (std::uint64_t i = 0; i < kClients; ++i) {
    clients[i] = ::fork();
    if (clients[i] == 0) {
      for (int attempt = 0;; ++attempt) {
        try {
          return work(address, i, kClients);
        } catch (const std::exception& error) {
          if (attempt == 100) {
            std::cerr << error.what() << '\n';
            return 1;
          }
          ::usleep(100'000);  // the memory node is not there yet
        }
      }
    }
  }
  int failed = 0;
  for (const pid_t client : clients) {
    int status = 0;
    ::waitpid(client, &status, 0);
    failed += status == 0 ? 0 : 1;
  }
  ::close(lifeline[1]);
  ::waitpid(memory_node, nullptr, 0);
  return failed == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "serve" && argc == 3) {
      serve(argv[2], STDIN_FILENO);
      return 0;
    }
    if (command == "client" && argc == 5) {
      return work(argv[2], std::stoull(argv[3]), std::stoull(argv[4]));
    }
    if (argc == 1) {
      return all_on_this_machine();
    }
  } catch (const std::exception& error) {
    std::cerr << "kv_store: " << error.what() << '\n';
    return 1;
  }
  std::cerr << "usage: kv_store [serve HOST[:PORT] | client HOST[:PORT] NUMBER CLIENTS]\n";
  return 2;
}
