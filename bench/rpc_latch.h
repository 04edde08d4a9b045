// Latches by RPC: the latch words lie in a server's memory. Clients SEND requests to its cores, which change the words
// and answer whether the request succeeded. No NIC takes part in the atomic, so its lock table plays no role (TODS
// 2025, figure 18, where the server is a SmartNIC).
//
//   RpcLatchServer server(smartnic, {.latches = 1024, .cores = 8});
//   RpcLatchClient client(server, node, /*owner=*/7);
//   const bool mine = co_await client.latch(17);          // one round trip; false: somebody holds it
//   const bool was_mine = co_await client.unlatch(17);    // one round trip
//
// A core serves one request at a time, in the order of receipt, and spends CpuWork::rpc on each.
//
// Guarantees: at most one client holds a latch. A latch is held from the core's atomic on, so everything that its
// former holder completed before unlatch() is visible to the next one.
//
// Thread-safety: belongs to the thread of its nodes' reactor.
#pragma once

#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/queue_pair.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace sidelatch::bench {

struct LatchRequest {
  enum class Operation : std::uint64_t { latch, unlatch };
  Operation operation = Operation::latch;
  std::uint64_t index = 0;
  std::uint64_t owner = 0;  ///< not 0, which marks a free latch
};

/// A core's change of the latch word; false if the word belongs to another owner.
using CoreOperation = bool (*)(std::uint64_t& word, const LatchRequest& request);
/// A compare-and-swap by the CPU: from 0 to the owner, or back.
[[nodiscard]] bool compare_and_swap(std::uint64_t& word, const LatchRequest& request);

struct RpcLatchServerOptions {
  std::uint64_t latches = 1;
  std::uint32_t cores = 0;  ///< 0: one for each client
  CoreOperation operation = compare_and_swap;
};

class RpcLatchServer {
 public:
  /// Throws std::invalid_argument if there is no latch.
  RpcLatchServer(fabric::Node& node, const RpcLatchServerOptions& options);
  RpcLatchServer(const RpcLatchServer&) = delete;
  RpcLatchServer& operator=(const RpcLatchServer&) = delete;
  ~RpcLatchServer();

  /// A queue pair of `client` to this server. A task of the reactor serves it until it is destroyed; that task must not
  /// outlive the server. Clients are assigned to the cores in turn. Throws FabricError on a fabric without two-sided
  /// messages.
  [[nodiscard]] std::unique_ptr<fabric::QueuePair> connect(fabric::Node& client);

  [[nodiscard]] std::uint64_t latches() const noexcept { return options_.latches; }
  /// The owner of a latch, 0 if it is free. Throws std::out_of_range.
  [[nodiscard]] std::uint64_t holder(std::uint64_t index) const;

 private:
  /// A core serves in the order of arrival, so the time at which it is free describes it.
  struct Core {
    fabric::Time free{};
  };
  struct Connection;

  static fabric::Task<void> serve(RpcLatchServer* server, std::unique_ptr<Connection> connection);
  [[nodiscard]] std::uint64_t answer(const LatchRequest& request);
  [[nodiscard]] std::uint64_t& word(std::uint64_t index) const;

  fabric::Node* node_;
  RpcLatchServerOptions options_;
  fabric::MemoryRegion words_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::uint64_t connected_ = 0;
};

class RpcLatchClient {
 public:
  /// `owner` must not be 0 or another client's. Throws std::invalid_argument.
  RpcLatchClient(RpcLatchServer& server, fabric::Node& node, std::uint64_t owner);

  /// Tries once. False if it is held. Throws std::out_of_range for an index outside the server's latches.
  [[nodiscard]] fabric::Task<bool> latch(std::uint64_t index);
  /// False if this client does not hold it; nothing changes then.
  [[nodiscard]] fabric::Task<bool> unlatch(std::uint64_t index);

 private:
  [[nodiscard]] fabric::Task<bool> call(LatchRequest request);

  std::uint64_t latches_;
  std::uint64_t owner_;
  fabric::MemoryRegion buffers_;
  std::unique_ptr<fabric::QueuePair> queue_pair_;
};

}  // namespace sidelatch::bench
