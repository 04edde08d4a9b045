// What a SwitchExchange does for one client, a message at a time.
#pragma once

#include "exchange.h"
#include "socket.h"

#include <sidelatch/fabric/verbs/switch_exchange.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {

/// The switch and the rows of tuples that it keeps, for the threads of all clients.
class SharedSwitch {
 public:
  explicit SharedSwitch(SwitchControl& control) : control_(&control) {}

  /// Calls `use(control)`; one at a time.
  template <class Use>
  auto with(Use use) {
    const std::scoped_lock lock(mutex_);
    return use(*control_);
  }
  /// A connection whose latches are taken by `owner`; 0: by nobody in particular. Throws std::runtime_error if that
  /// owner was revoked meanwhile, and what the switch throws.
  [[nodiscard]] SwitchControl::ConnectionId connect(const SwitchedEnds& ends, std::uint16_t owner);
  /// These do nothing for a connection that was released, as revoke_owner() may have been first.
  void fence(SwitchControl::ConnectionId connection);
  [[nodiscard]] std::vector<HeldTuple> held(SwitchControl::ConnectionId connection);
  [[nodiscard]] std::uint16_t owner_of(SwitchControl::ConnectionId connection);
  void release(SwitchControl::ConnectionId connection);
  /// Who has it changes the holders of tuples and what the server notes of them as one step: a mark that arrives after
  /// an heir's WRITE would undo it. From held() to release(), and from the note of an heir to its latch. It is locked
  /// before any other mutex, and may be locked while the server is silent.
  [[nodiscard]] std::unique_lock<std::mutex> change_holders() { return std::unique_lock(changing_); }
  /// Fences all connections of the owner, whichever client made them, and returns them; from now on it gets no new one.
  [[nodiscard]] std::vector<SwitchControl::ConnectionId> fence_owner(std::uint16_t owner);
  /// The memory server has refused: the owner is not revoked.
  void admit_owner(std::uint16_t owner);

  /// Once for the same row, whoever asks. Throws what the switch throws, and std::invalid_argument.
  void keep(const SwitchedTuples& tuples);
  /// The same for memory that was used before, with versions of an epoch above `latest`. The caller knows whether it
  /// asks again.
  [[nodiscard]] RecoveredTuples recover(const SwitchedTuples& tuples, std::uint64_t latest);
  /// The memory of these rows has ended.
  void forget(const RemoteSpan& memory) noexcept;
  /// The number of the tuple that begins at `at`. Throws std::invalid_argument if there is none.
  [[nodiscard]] std::uint32_t tuple_at(const RemoteSpan& at);
  /// The word of a tuple in memory; nothing if there is no such tuple any more.
  [[nodiscard]] std::optional<RemoteSpan> word_of(std::uint32_t tuple);
  /// For words: a queue pair's number that no other connection has had.
  [[nodiscard]] std::uint32_t next_queue_pair();

  /// These two wait for no call of the switch, whose thread asks.
  void report(std::string problem);
  [[nodiscard]] std::string problem();

 private:
  struct Row {
    SwitchedTuples tuples{};
    std::uint32_t first = 0;
  };
  SwitchControl* control_;
  std::mutex changing_;
  std::mutex mutex_;
  std::map<SwitchControl::ConnectionId, std::uint16_t> owners_;  // of the connections at the switch
  std::set<std::uint16_t> revoked_;
  std::list<Row> rows_;
  std::uint32_t queue_pair_ = 0xff;
  std::mutex reporting_;
  std::string problem_;
};

class SwitchMoves;
class SwitchRecovery;

[[nodiscard]] bool is_same_row(const SwitchedTuples& a, const SwitchedTuples& b);

class SwitchService {
 public:
  SwitchService() = default;
  SwitchService(const SwitchService&) = delete;
  SwitchService& operator=(const SwitchService&) = delete;
  virtual ~SwitchService() = default;
  /// The client has said hello; its token is right. Throws SocketError.
  [[nodiscard]] virtual exchange::Welcome welcome() = 0;
  /// The answer; nothing for a message that has none. Throws SocketError: the client's conversation ends.
  [[nodiscard]] virtual std::optional<exchange::Message> answer(const exchange::Message& message) = 0;
  /// The client has gone. Throws SocketError if what it had cannot be ended.
  virtual void end() = 0;
  /// The switch is about to end(), and not the client.
  virtual void leave() {}
};

/// For a switch before the memory node whose server is at options.memory.
/// `switch_id`: of this switch. `is_leaving`: it ends, and waits no longer for a silent server. Outlives the service.
[[nodiscard]] std::unique_ptr<SwitchService> make_tuple_service(SharedSwitch& shared, SwitchRecovery& recovery,
                                                                SwitchMoves& moves,
                                                                const SwitchExchangeOptions& options,
                                                                std::uint64_t switch_id,
                                                                const std::atomic<bool>& is_leaving);
/// For a switch that hosts words.
[[nodiscard]] std::unique_ptr<SwitchService> make_word_service(SharedSwitch& shared,
                                                               const SwitchExchangeOptions& options);

}  // namespace sidelatch::fabric::verbs
