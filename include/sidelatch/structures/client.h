// Client: one worker's connections to a structure on one or several memory nodes.
//
//   const std::array<Node*, 2> memory_nodes = {&storage_0, &storage_1};
//   Client client(compute, memory_nodes, table.buffer_bytes());
//   const Outcome outcome = co_await table.get(client, 42, value);
//   std::cout << client.statistics().round_trips;
//
// A client has a queue pair and a session (sync/session.h) for each memory node. The order of the memory nodes is part
// of the structure, the same for all clients.
//
// Thread-safety: a client belongs to one task at a time, on its node's reactor.
#pragma once

#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/sync/session.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::structures {

/// How an operation ended. Unless it is `done`, the operation has changed nothing.
enum class Outcome : std::uint8_t {
  done,
  absent,     ///< there is no such key
  present,    ///< insert: the key already exists
  full,       ///< there is no room for another key
  timed_out,  ///< the session's deadline passed
};
/// "done", "absent", ...
[[nodiscard]] std::string_view name(Outcome outcome);

/// The structure's memory holds bytes that no operation could have written, or another structure.
class StructureError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The cost of a client's operations so far.
struct Statistics {
  std::uint64_t operations = 0;     ///< operations on the structure
  std::uint64_t round_trips = 0;    ///< chains that an operation waited for
  std::uint64_t retries = 0;        ///< attempts that met a latch or a torn object
  std::uint64_t restarts = 0;       ///< operations that lost their way and began again
  std::uint64_t aborts = 0;         ///< operations that timed out
  std::uint64_t takeovers = 0;      ///< latches taken over from dead clients
  std::uint64_t bytes_read = 0;     ///< payload
  std::uint64_t bytes_written = 0;  ///< payload

  Statistics& operator+=(const Statistics& other);
};

class Client {
 public:
  /// Connects `node` to each of the memory nodes. `bytes_per_buffer`: the largest buffer_bytes() of the structures that
  /// it will use. `revokers`: one for each memory node, instead of options.revoker. A client with leases on several
  /// memory nodes needs them: before its latch is taken over, a dead client is revoked at all memory nodes, since it
  /// may have begun at one what it does under a latch at another. Throws std::invalid_argument for no memory node or
  /// bad options.
  Client(fabric::Node& node, std::span<fabric::Node* const> memory_nodes, std::uint64_t bytes_per_buffer,
         const sync::SessionOptions& options = {}, const fabric::QueuePairOptions& queue_pair = {},
         std::span<sync::Revoker* const> revokers = {});
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  Client(Client&&) = default;
  Client& operator=(Client&& other) noexcept;
  /// Waits as sessions do at their end (sync/session.h), SessionOptions::linger at most for all of them together.
  virtual ~Client();  // a worker of a tree is one

  [[nodiscard]] std::size_t memory_nodes() const noexcept { return sessions_.size(); }
  /// Throws std::out_of_range.
  [[nodiscard]] sync::Session& session(std::size_t memory_node) const { return *sessions_.at(memory_node); }
  [[nodiscard]] fabric::Reactor& reactor() const noexcept { return sessions_.front()->qp().reactor(); }
  /// Returns when no request of this client is under way at a memory node.
  [[nodiscard]] fabric::Task<void> drain();
  /// Brings back the connections that have failed (also the one of SessionOptions::latches), gives back the latches
  /// that failed operations have left (sync/owed.h), and sends their commits again. Afterwards the client can be used
  /// as before. An operation that threw a FabricError has either happened as a whole or, but for splits and merges of
  /// its nodes, not at all. Throws FabricError if a connection cannot be brought back: a memory node has ended it, or
  /// is gone. The others are back then. If the memory node has revoked the client, make a new client with a new owner
  /// id.
  [[nodiscard]] fabric::Task<void> reconnect();
  /// The end of a client: gives back what failed operations have left, and returns when nothing is under way. What was
  /// reported as done is done then. Throws FabricError, and what a derived class says; SessionOptions::lost_work tells
  /// at the end what was lost. A client that ends without this call waits in its destructor.
  [[nodiscard]] virtual fabric::Task<void> close();

  /// Ends that owner's queue pairs at every memory node, as before a takeover. Throws LatchError::takeover_refused if
  /// this client has no revokers, and std::invalid_argument for its own owner id and for 0.
  [[nodiscard]] fabric::Task<void> revoke(std::uint16_t owner);
  /// The next owner that this client has revoked, and of which it has not swept the structure with that number
  /// (superblock.h); 0: none. note_swept(): it has, or cannot.
  [[nodiscard]] std::uint16_t next_dead_owner(std::uint64_t structure) const;
  void note_swept(std::uint64_t structure, std::uint16_t owner) { swept_.emplace_back(structure, owner); }

  /// While it lives, everything that this client begins is part of one operation, whose deadline counts from the
  /// construction of this object.
  class Operation {
   public:
    explicit Operation(Client& client);
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    ~Operation() = default;

   private:
    std::list<sync::Session::Operation> sessions_;  // none if there is no deadline
  };

  [[nodiscard]] Statistics statistics() const;
  /// For structures, where an operation begins. Throws FabricError if a connection has failed, and with it what an
  /// earlier operation had done there: under asynchronous unlatch it was reported as done. An operation at another
  /// memory node would not notice that, and others would take this client for dead.
  void begin_operation() {
    ++tally_->operations;
    yields_ = 0;
    if (sessions_.size() > 1) {
      look_at_connections();
    }
  }
  void count_restart() noexcept { ++tally_->restarts; }
  /// Call this where an operation has let everything go because another client has latched something that it needs, and
  /// before it begins again. The random wait has a bound that doubles each time, as SessionOptions::retry says, but it
  /// also waits with Retry::at_once(): two clients that give way to each other at once could do so for ever.
  [[nodiscard]] fabric::Reactor::SleepAwaiter give_way() noexcept;
  /// Whether this client has compared the superblocks of the structure with that number (superblock.h).
  [[nodiscard]] bool has_opened(std::uint64_t structure) const noexcept {
    return structure == last_opened_ || std::ranges::find(opened_, structure) != opened_.end();
  }
  void note_opened(std::uint64_t structure) {
    opened_.push_back(structure);
    last_opened_ = structure;
  }

 private:
  void look_at_connections();
  void end_sessions() noexcept;
  void end_sessions_in_time();

  // Ends an owner everywhere, as an operation at one memory node may be under a latch at another.
  class RevokerAtAll;

  // A session refers to its queue pair, and to the revoker.
  std::vector<std::unique_ptr<fabric::QueuePair>> queue_pairs_;
  std::unique_ptr<sync::Revoker> revoker_;
  std::vector<std::unique_ptr<sync::Session>> sessions_;
  struct Tally {
    std::uint64_t operations = 0;
    std::uint64_t restarts = 0;
  };
  std::unique_ptr<Tally> tally_ = std::make_unique<Tally>();    // stays where it is when the client is moved
  std::uint32_t yields_ = 0;                                    // of the operation under way
  std::vector<std::pair<std::uint64_t, std::uint16_t>> swept_;  // structures and owners
  std::uint64_t last_opened_ = 0;
  std::vector<std::uint64_t> opened_;
};

}  // namespace sidelatch::structures
