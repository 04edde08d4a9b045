// SwitchExchange: how clients in other processes set up connections to or through a switch that takes part in RDMA.
//
//   SwitchExchange exchange(control, {.address = "10.0.0.9:18516", .memory = "10.0.0.1:18515"});
//   ...                                            // clients come and go while the switch serves
//
// It speaks the protocol of MemoryServer, so a client uses RemoteNode with this address and needs to know nothing else.
// There are two kinds:
//
// - With `memory`, the address of a MemoryServer, the switch is before that memory node. Whatever a client asks goes on
//   to the server; the switch learns each connection before the client can send, and tuples by
//   RemoteNode::keep_versions(). Connections are made by the exchange, never by the connection manager.
// - Without, the switch itself hosts `words`, and is the other end of connections.
//
// A client that ends, or dies, or whose machine is gone: its connections are fenced at the switch, what the memory
// node's NIC has acknowledged is placed, the memory node ends the queue pairs, and the switch releases what they held.
// In this order; switchsync/optimistic_switch.h says why. Other clients go on meanwhile. While the memory server is
// silent, or if it refuses, the connections stay fenced and their latches held: problem() tells.
//
// If this object ends, so do all connections through it, at the memory node.
//
// Memory that the server itself shares outlives the switch. For tuples there a new switch reads the versions back
// (fabric/verbs/switch_recovery.h): clients that were cut off come back, resume() their WRITEs, and are settled();
// until all are, or the grace is over, every tuple is latched.
//
// Thread-safety: each client is served by a thread of its own; they call `control` one at a time. The functions may be
// called from any thread.
#pragma once

#include <sidelatch/fabric/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::fabric::verbs {

inline constexpr std::uint16_t kDefaultSwitchPort = 18516;

/// The two ends of a reliable connection, as packets name them.
struct SwitchedEnds {
  std::array<std::uint8_t, 4> client{};
  std::uint32_t client_queue_pair = 0;
  std::uint32_t client_psn = 0;               ///< the first one that the client sends
  std::array<std::uint8_t, 4> memory_node{};  ///< for words: the switch
  std::uint32_t memory_queue_pair = 0;
  std::uint32_t path_mtu = 0;  ///< bytes
};

/// A row of tuples as a client describes it. Nobody has used its memory.
struct SwitchedTuples {
  std::array<std::uint8_t, 4> memory_node{};
  RemoteSpan memory{};
  std::uint64_t count = 0;
  std::uint64_t tuple_bytes = 0;
  std::uint64_t slot_bytes = 0;
};

/// A tuple that a fenced connection holds.
struct HeldTuple {
  std::uint32_t tuple = 0;
  std::uint64_t version = 0;  ///< at the switch: odd
  bool in_doubt = false;      ///< a WRITE was on its way. Else release() gives the tuple the next version without one
};

/// Tuples whose memory was used before.
struct RecoveredTuples {
  std::uint32_t first = 0;
  std::uint64_t version = 0;  ///< of all of them; the first one of an epoch that nobody has seen
};

/// What a switch has besides that keeps versions for some of the tuples only (p4/switch_cached.p4). The exchange makes
/// hot what a client has found cold and would latch, and moves what a client asks for. heat() and cool() are those of
/// switchsync::TupleMoves.
class SwitchCache {
 public:
  /// The words of tuples in memory. Both throw what asking the memory server throws.
  class Words {
   public:
    Words() = default;
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;
    virtual ~Words() = default;
    /// When all WRITEs of the tuple that were acknowledged are placed.
    [[nodiscard]] virtual std::uint64_t read(std::uint32_t tuple) = 0;
    virtual void write(std::uint32_t tuple, std::uint64_t version) = 0;
  };

  SwitchCache() = default;
  SwitchCache(const SwitchCache&) = delete;
  SwitchCache& operator=(const SwitchCache&) = delete;
  virtual ~SwitchCache() = default;

  [[nodiscard]] virtual std::vector<std::uint32_t> take_asked() = 0;
  /// One of these two at a time.
  [[nodiscard]] virtual bool heat(std::uint32_t tuple, Words& words) = 0;
  [[nodiscard]] virtual bool cool(std::uint32_t tuple, Words& words) = 0;
};

/// The switch. An exception of these functions refuses what a client asks, with the exception's text. For words only
/// connect() and release() are used.
class SwitchControl {
 public:
  using ConnectionId = std::uint64_t;

  SwitchControl() = default;
  SwitchControl(const SwitchControl&) = delete;
  SwitchControl& operator=(const SwitchControl&) = delete;
  virtual ~SwitchControl() = default;

  virtual ConnectionId connect(const SwitchedEnds& ends) = 0;
  /// Nothing of the connection passes any more.
  virtual void fence(ConnectionId connection) = 0;
  /// The tuples that a fenced connection holds.
  virtual std::vector<HeldTuple> held(ConnectionId connection) = 0;
  /// Its queue pair at the other end has ended. What held() says becomes of its tuples, and the switch forgets it.
  virtual void release(ConnectionId connection) = 0;
  /// Returns the number of the first tuple; the others follow.
  virtual std::uint32_t add_tuples(const SwitchedTuples& tuples) = 0;
  /// Throws what add_tuples() would throw, and changes nothing.
  virtual void check_tuples(const SwitchedTuples& tuples);
  /// The same for memory that was used before, where no version above `latest` was ever seen: the tuples' are of a
  /// later epoch. All tuples are latched, and nobody holds them, until inherit() or unlatch(). This implementation
  /// throws std::logic_error.
  virtual RecoveredTuples recover_tuples(const SwitchedTuples& tuples, std::uint64_t latest);
  /// A tuple of recover_tuples() that nobody has inherited gets its version.
  virtual void unlatch(std::uint32_t tuple);
  /// The memory has ended at the memory node.
  virtual void remove_tuples(std::uint32_t first) = 0;
  /// Whether the tuple is latched, and nobody holds it. This implementation returns false.
  virtual bool in_doubt(std::uint32_t tuple);
  /// The connection gets the latch of the tuple, if it is in doubt; false: it is not.
  virtual bool inherit(ConnectionId to, std::uint32_t tuple) = 0;
  /// Of a tuple of recover_tuples(), at the switch; odd if it is latched. This implementation throws std::logic_error.
  virtual std::uint64_t version(std::uint32_t tuple);
  /// Null, as here: the switch keeps the versions of all tuples.
  [[nodiscard]] virtual SwitchCache* cache() { return nullptr; }
};

/// Of a recovery, in their order; a tuple may be granted any number of times. "before": nothing is asked yet. "taken":
/// other switches are fenced, what they acknowledged is placed, and their queue pairs have ended. "read": the versions.
/// "latched": this switch has all tuples. "noted": the memory server has noted the versions. "grant-noted", "granted":
/// a WRITE that is to be made again. "opening", "written", "open": the other tuples' versions are written, then they
/// are unlatched.
inline constexpr std::array<std::string_view, 10> kRecoverySteps{
    "before", "taken", "read", "latched", "noted", "grant-noted", "granted", "opening", "written", "open"};

struct SwitchExchangeOptions {
  std::string address = "127.0.0.1:18516";  ///< HOST[:PORT] to listen on
  bool any_port = false;                    ///< use a free port; SwitchExchange::address() tells which
  std::string token = {};                   ///< that clients must present, and that is presented to the memory server
  std::uint32_t most_clients = 1024;
  /// HOST[:PORT] of the memory server; empty: the switch hosts words.
  std::string memory = {};
  std::array<std::uint8_t, 4> ip{};  ///< of the switch, for words
  RemoteSpan words{};                ///< what clients find as region "words"
  /// How long clients that another switch has cut off are waited for, before others may use the tuples: 24 hours at
  /// most.
  std::chrono::milliseconds grace{10'000};
  /// A memory server that is silent for longer makes a problem(), and what clients have asked waits for it; 24 hours at
  /// most. Recovery and resume() fail after ten seconds.
  std::chrono::milliseconds silence{10'000};
  /// For tests: called at each of kRecoverySteps, in the thread that takes it, and may end the process.
  std::function<void(std::string_view)> at_recovery_step = {};
};

/// The memory node of the server at options.memory; nothing if no server answers there. A switch that takes another
/// one's place closes it before anything passes. Throws std::invalid_argument for an address that is none, and
/// std::runtime_error if the server refuses, as for a wrong token, or its address is not IPv4.
[[nodiscard]] std::optional<std::array<std::uint8_t, 4>> memory_node_behind(const SwitchExchangeOptions& options);

class SwitchExchange {
 public:
  /// `control` outlives this object. Throws std::invalid_argument for a wrong option, and std::runtime_error if the
  /// address cannot be used, or the system gives no threads. The memory server may start later.
  SwitchExchange(SwitchControl& control, const SwitchExchangeOptions& options);
  SwitchExchange(const SwitchExchange&) = delete;
  SwitchExchange& operator=(const SwitchExchange&) = delete;
  /// Ends all clients, as if they had died.
  ~SwitchExchange();

  /// HOST:PORT, with the actual port.
  [[nodiscard]] std::string address() const;
  /// The number of clients connected now.
  [[nodiscard]] std::uint32_t clients() const noexcept;
  /// The latest failure to end a client, or silence of the memory server; empty if there was none.
  [[nodiscard]] std::string problem() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace sidelatch::fabric::verbs
