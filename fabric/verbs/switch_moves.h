// Tuples that become hot and cold, at a switch in this process and a memory node that is reached by its server: the
// steps of switchsync/tuple_moves.h, whose header has the reason of each. What is a READ there that waits for all that
// was acknowledged is a Place here, and the server's CPU reads and writes the word: of a tuple that is cold or moves,
// no request changes it.
#pragma once

#include "socket.h"
#include "switch_service.h"

#include <cstdint>
#include <mutex>
#include <optional>

namespace sidelatch::fabric::verbs {

class SwitchMoves {
 public:
  /// Both outlive this object. `switch_id`: of this switch, not 0.
  SwitchMoves(SharedSwitch& shared, const SwitchExchangeOptions& options, std::uint64_t switch_id)
      : shared_(&shared), options_(&options), switch_id_(switch_id) {}

  /// The tuple is hot when this returns; another one may have become cold for it. Throws std::runtime_error with the
  /// reason if it cannot be, std::invalid_argument if the switch does not cache or has no such tuple, and SocketError:
  /// then the tuple is what it was.
  void heat(std::uint32_t tuple);
  /// It is cold when this returns. Throws as heat().
  void cool(std::uint32_t tuple);
  /// Makes hot what clients have found cold since the last call. A failure of the server is reported.
  void look() noexcept;

 private:
  template <class Answer>
  Answer ask(const exchange::Message& question);
  [[nodiscard]] std::uint64_t read(const RemoteSpan& word);
  /// Calls `use(cache)`. Throws std::invalid_argument if there is none.
  template <class Use>
  auto with_cache(Use use);
  [[nodiscard]] RemoteSpan word_of(std::uint32_t tuple);
  void heat_one(std::uint32_t tuple);
  [[nodiscard]] bool cool_one(std::uint32_t tuple);
  [[nodiscard]] bool make_room();
  void give_up(std::uint32_t tuple) noexcept;

  SharedSwitch* shared_;
  const SwitchExchangeOptions* options_;
  std::uint64_t switch_id_;
  std::mutex mutex_;  // one move at a time
  std::optional<Conversation> server_;
  std::uint32_t hand_ = 0;  // the next one that may become cold, as a clock's
};

}  // namespace sidelatch::fabric::verbs
