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
// A server may also lend memory (ServerOptions::most_lent_bytes): RemoteNode::allocate() then works as on any node,
// except that the CPU sees none of the bytes. A client's allocated memory ends with the client. Clients find each
// other's memory by publish() and region().
//
// Each client holds one TCP connection for as long as it uses the server. When the TCP connection ends, because the
// client has ended or its machine is gone, the server destroys the client's RDMA connections. Nothing of a dead client
// stays, and none of its requests arrive later. This does not replace revocation by lease: call revoke() if you cannot
// wait for TCP to notice.
//
// As always with RDMA, every client that can reach the address and knows the token may change all shared memory. Bind
// to an address of a trusted network; the default is loopback.
//
// connect(), revoke(), revoke_owner(), allocate(), publish(), region() and the end of a region wait for the server's
// answer in the calling thread, at most RemoteOptions::limit: a program calls them before its tasks run. In a task, use
// QueuePair::reconnect() and revoke_all_of(): only that task waits for the server.
//
// Thread-safety: the server works in a thread of its own; its functions belong to the thread that made it. A RemoteNode
// belongs to its fabric's thread.
#pragma once

#include <sidelatch/fabric/task.h>
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
  bool any_port = false;                    ///< use a free port; MemoryServer::address() tells which
  std::string token = {};                   ///< the token that clients must present; empty: none
  std::uint32_t most_clients = 1024;
  std::uint32_t most_connections = 65536;  ///< over all clients
  /// Of memory that all clients together may allocate here. A region takes whole pages (DeviceOptions::huge_pages).
  std::uint64_t most_lent_bytes = 0;
};

class MemoryServer {
 public:
  /// `node` comes from VerbsFabric::add_node() and outlives the server. Throws std::invalid_argument for another node
  /// or a wrong option, and std::runtime_error if the address cannot be used, or if Through::connection_manager is
  /// demanded and not possible.
  MemoryServer(Node& node, const ServerOptions& options = {});
  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;
  /// Ends all connections.
  ~MemoryServer();

  /// Lets clients find `region` by `name`. Call it before start(): afterwards it throws std::logic_error. Throws
  /// std::invalid_argument for a name that is empty, too long, or in use.
  void share(std::string_view name, const MemoryRegion& region);
  /// Once: a second call throws std::logic_error. Throws std::runtime_error if the system gives no thread; it may be
  /// called again then.
  void start();
  /// HOST:PORT, with the actual port.
  [[nodiscard]] std::string address() const;
  /// The number of clients connected now.
  [[nodiscard]] std::uint32_t clients() const noexcept;
  /// The number of clients that have ever connected.
  [[nodiscard]] std::uint64_t clients_so_far() const noexcept;
  /// Why the server has ended all connections and takes no new ones: the device is lost, or its thread failed. Empty:
  /// the server works.
  [[nodiscard]] std::string failure() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// What has become of a WRITE that a switch's end left without an answer.
enum class Resumption : std::uint8_t {
  granted,   ///< it must be made again: the queue pair has the latch
  happened,  ///< it has happened
  lost,      ///< it has not, and others have used the tuple since
};

struct RemoteOptions {
  std::string token = {};
  /// The owner of latches taken through this node's RDMA connections; see SessionOptions::owner.
  std::uint16_t owner = 0;
  std::chrono::milliseconds limit{10'000};  ///< for every answer of the server; 1 ms to 24 hours
};

// A server that does not answer in time ends the RemoteNode: a late answer would be taken for the next one. Its
// connections still work, but what asks the server throws Status::disconnected. Make a new RemoteNode then.
class RemoteNode final : public Node {
 public:
  /// Throws std::invalid_argument for a limit out of range, and std::runtime_error that names the address if the server
  /// cannot be reached, does not answer in time, speaks another version, or refuses; or if Through::connection_manager
  /// is demanded and not possible.
  RemoteNode(VerbsFabric& fabric, std::string_view address, const RemoteOptions& options = {});
  RemoteNode(const RemoteNode&) = delete;
  RemoteNode& operator=(const RemoteNode&) = delete;
  ~RemoteNode() override;

  [[nodiscard]] Reactor& reactor() override;
  /// The way that was chosen when the server was reached: connection_manager or exchange. It does not change.
  [[nodiscard]] Through through() const noexcept;
  /// Why the connection manager is not used; empty if it is.
  [[nodiscard]] const std::string& why_exchange() const noexcept;
  /// The region that the server shares, or a client has published, by that name. Throws std::out_of_range that lists
  /// what the server shares.
  [[nodiscard]] RemoteSpan region(std::string_view name) const;
  /// Like region(), but returns nothing if there is no such region.
  [[nodiscard]] std::optional<RemoteSpan> find_region(std::string_view name) const;
  /// Lets all clients find `region`, which comes from this node's allocate(), by `name` until it ends. Throws
  /// std::runtime_error if the name is already in use: exactly one of several clients that publish a name succeeds; and
  /// std::invalid_argument for a region of another node.
  void publish(std::string_view name, const MemoryRegion& region);

  // ---- If `address` is the exchange of a switch (switch_exchange.h).

  /// The switch is to keep the versions of `count` tuples of `tuple_bytes`, each at the beginning of a slot of
  /// `slot_bytes`, from the beginning of `memory` on. It is of this node's allocate(), and nobody has used it; or a
  /// region that the server shares, whose versions the switch reads back. Once for all clients. Throws
  /// std::runtime_error with the reason if the switch refuses.
  void keep_versions(const RemoteSpan& memory, std::uint64_t count, std::uint64_t tuple_bytes,
                     std::uint64_t slot_bytes);
  /// A client has ended while its WRITE of this tuple was on its way: the tuple may be torn, and stays latched.
  /// `queue_pair` gets the latch; it must READ and WRITE the tuple. False: the tuple is not in doubt. In memory that
  /// the server shares, resume() of that WRITE throws from then on for all owners but this one: who inherits a tuple
  /// that its own owner has left in doubt must not resume() the WRITE of before. Throws std::logic_error if
  /// `queue_pair` does not pass the switch, std::runtime_error for a tuple of memory that the server shares and a node
  /// without RemoteOptions::owner, and FabricError.
  [[nodiscard]] bool inherit(QueuePair& queue_pair, const RemoteSpan& tuple);

  /// If the switch caches versions (p4/switch_cached.p4): the tuple becomes hot, or cold. Nobody needs to ask for that,
  /// as a tuple becomes hot when it is latched, and another one cold in its place; but it can be done before. Throws
  /// std::runtime_error that says why it is refused: no tuple begins there, it is latched, all hot tuples are, or the
  /// switch has another program.
  void make_hot(const RemoteSpan& tuple);
  void make_cold(const RemoteSpan& tuple);

  /// The switch has ended or restarted, and this client's WRITE of the tuple has no answer. `version`: of the tuple
  /// when it was latched, GuardBase::version(). If granted, `queue_pair` has the latch; it must READ and WRITE the
  /// tuple, which may be torn. RemoteOptions::owner is that of the WRITE. If that WRITE has no answer, either, ask of
  /// the same version again, and not of the one that the tuple had then. The answer is right whatever number of
  /// switches has ended since, up to 16. Throws as inherit(), and std::runtime_error if the switch has not recovered
  /// the tuple, there were more, or another client has inherited the tuple meanwhile: nobody knows whether it has found
  /// the WRITE there. Read the tuple then; if it is in doubt again, inherit() it.
  [[nodiscard]] Resumption resume(QueuePair& queue_pair, const RemoteSpan& tuple, std::uint64_t version);
  /// After the last resume(): others need not wait for RemoteOptions::owner any more.
  void settled();

  /// Always throws std::logic_error: the memory is elsewhere.
  [[nodiscard]] std::unique_ptr<QueuePair> connect(Node& target, const QueuePairOptions& options) override;
  /// Ends `queue_pair`, which this process connected to this node, for good. Throws FabricError if the server does not
  /// confirm it.
  void revoke(QueuePair& queue_pair) override;
  /// Ends all connections of that owner at the server, whichever client made them. When this returns, their requests
  /// take no further steps (memory model, rule 10). Throws std::runtime_error if the server does not confirm.
  void revoke_owner(std::uint16_t owner);
  /// The same for a task, while others go on; sync::NodeRevoker uses it.
  [[nodiscard]] Task<void> revoke_all_of(std::uint16_t owner) override;

 protected:
  [[nodiscard]] std::byte* obtain_memory(std::uint64_t bytes) override;
  void return_memory(std::byte* memory, std::uint64_t bytes) noexcept override;
  /// Throws std::runtime_error with the reason if the server does not lend so much.
  void place_region(Registration& registration) override;
  void region_removed(Registration& registration, bool in_use) noexcept override;

 private:
  friend std::unique_ptr<Peer> remote_peer(RemoteNode& node);
  [[nodiscard]] std::unique_ptr<Peer> make_peer();
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace sidelatch::fabric::verbs
