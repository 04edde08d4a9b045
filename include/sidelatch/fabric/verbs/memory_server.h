// MemoryServer and RemoteNode: a memory node in another process or on another machine.
//
//   // The process that has the memory:
//   VerbsFabric fabric;
//   Node& storage = fabric.add_node("storage");
//   MemoryRegion table = storage.allocate(1 << 20, Access::remote_all);
//   MemoryServer server(storage, {.address = "10.0.0.1:18515"});
//   server.share("table", table);
//   server.start();                       // answers from a thread of its own; this one may do what it likes
//
//   // A client:
//   VerbsFabric fabric;
//   Node& client = fabric.add_node("client");
//   RemoteNode storage(fabric, "10.0.0.1:18515");
//   auto qp = client.connect(storage);
//   co_await qp->read(buffer, storage.region("table"));
//
// A server may also lend memory (ServerOptions::most_lent_bytes): RemoteNode::allocate() then works as on any node, but
// for the CPU, which sees none of the bytes. What a client has allocated ends with it. Clients find each other's memory
// by publish() and region().
//
// Each client holds one TCP connection for as long as it uses the server. When that ends, because the client has ended
// or its machine is gone, the server destroys its RDMA connections: nothing of a dead client stays, and nothing that it
// posted arrives later. That is not a revocation by lease: who must not wait for TCP to notice calls revoke().
//
// Whoever can reach the address and knows the token may change everything that is shared, as RDMA has it. Bind to an
// address of a trusted network; the default is loopback.
//
// Thread-safety: the server works in a thread of its own; its functions belong to the thread that made it. A RemoteNode
// belongs to its fabric's thread.
#pragma once

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sidelatch::fabric::verbs {

class Peer;

inline constexpr std::uint16_t kDefaultPort = 18515;

struct ServerOptions {
  std::string address = "127.0.0.1:18515";  ///< HOST[:PORT]; port 0 cannot be written: set any_port
  bool any_port = false;                    ///< a free port instead; MemoryServer::address() says which
  std::string token = {};                   ///< what clients must present; empty: nothing
  std::uint32_t most_clients = 1024;
  std::uint32_t most_connections = 65536;  ///< over all clients
  std::uint64_t most_lent_bytes = 0;       ///< of memory that clients allocate here, over all of them
};

class MemoryServer {
 public:
  /// `node` is one that VerbsFabric::add_node() made, and outlives the server. Throws std::invalid_argument for another
  /// one or a wrong option, and std::runtime_error if the address cannot be used, or if Through::connection_manager is
  /// demanded and not possible.
  MemoryServer(Node& node, const ServerOptions& options = {});
  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;
  /// Ends all connections.
  ~MemoryServer();

  /// Lets clients find `region` by `name`. Before start().
  void share(std::string_view name, const MemoryRegion& region);
  void start();
  /// HOST:PORT, with the port that it has.
  [[nodiscard]] std::string address() const;
  /// Connected now.
  [[nodiscard]] std::uint32_t clients() const noexcept;
  /// All that have ever connected.
  [[nodiscard]] std::uint64_t clients_so_far() const noexcept;
  /// Why the server has ended all connections and takes no new ones: the device is lost, or its thread failed. Empty:
  /// it serves.
  [[nodiscard]] std::string failure() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

struct RemoteOptions {
  std::string token = {};
  /// Of the RDMA connections that are made through this node: whose latches are taken there; see SessionOptions::owner.
  std::uint16_t owner = 0;
  std::chrono::milliseconds limit{10'000};  ///< for every answer of the server
};

class RemoteNode final : public Node {
 public:
  /// Throws std::runtime_error that names the address if the server cannot be reached, does not answer in time, speaks
  /// another version, or refuses; or if Through::connection_manager is demanded and not possible.
  RemoteNode(VerbsFabric& fabric, std::string_view address, const RemoteOptions& options = {});
  RemoteNode(const RemoteNode&) = delete;
  RemoteNode& operator=(const RemoteNode&) = delete;
  ~RemoteNode() override;

  [[nodiscard]] Reactor& reactor() override;
  /// Which way was chosen when the server was reached: connection_manager or exchange. It stays.
  [[nodiscard]] Through through() const noexcept;
  /// Why not the connection manager; empty if it is.
  [[nodiscard]] const std::string& why_exchange() const noexcept;
  /// What the server shares, or a client has published, by that name. Throws std::out_of_range that lists what the
  /// server shares.
  [[nodiscard]] RemoteSpan region(std::string_view name) const;
  /// As region(), but nothing where there is none.
  [[nodiscard]] std::optional<RemoteSpan> find_region(std::string_view name) const;
  /// Lets all clients find `region`, of this node's allocate(), by `name`, until it ends. Throws std::runtime_error if
  /// the name is used already: exactly one of several clients that publish it succeeds.
  void publish(std::string_view name, const MemoryRegion& region);

  /// Not possible: the memory is elsewhere. Throws std::logic_error.
  [[nodiscard]] std::unique_ptr<QueuePair> connect(Node& target, const QueuePairOptions& options) override;
  /// Ends `queue_pair`, which was connected to this node by this process.
  void revoke(QueuePair& queue_pair) override;
  /// Ends all connections of that owner at the server, whoever made them. When this returns nothing of them happens any
  /// more (memory model, rule 10). Throws std::runtime_error if the server does not confirm it.
  void revoke_owner(std::uint16_t owner);

 protected:
  [[nodiscard]] std::byte* obtain_memory(std::uint64_t bytes) override;
  void return_memory(std::byte* memory, std::uint64_t bytes) noexcept override;
  /// Throws std::runtime_error that says why, if the server does not lend so much.
  void place_region(Registration& registration) override;
  void region_removed(Registration& registration, bool in_use) noexcept override;

 private:
  friend std::unique_ptr<Peer> remote_peer(RemoteNode& node);
  [[nodiscard]] std::unique_ptr<Peer> make_peer();
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace sidelatch::fabric::verbs
