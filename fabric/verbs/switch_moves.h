// Tuples that become hot and cold at a switch in this process whose memory node is reached by its server. The steps are
// those of switchsync/tuple_moves.h; what is a READ there that waits for all that was acknowledged is a Place here, and
// the server's CPU reads and writes the word: no request changes that of a tuple that is cold or moves.
#pragma once

#include "server_line.h"
#include "switch_service.h"

#include <cstdint>
#include <mutex>

namespace sidelatch::fabric::verbs {

class SwitchMoves final : private SwitchCache::Words {
 public:
  /// Both outlive this object. `switch_id`: of this switch, not 0.
  SwitchMoves(SharedSwitch& shared, const SwitchExchangeOptions& options, std::uint64_t switch_id)
      : shared_(&shared), server_(options, switch_id) {}

  /// The tuple is hot when this returns; another one may have become cold for it. Throws std::runtime_error with the
  /// reason if it cannot be, std::invalid_argument if the switch does not cache or has no such tuple, and SocketError:
  /// then the tuple is what it was.
  void heat(std::uint32_t tuple);
  /// It is cold when this returns. Throws as heat().
  void cool(std::uint32_t tuple);
  /// Makes hot what clients have found cold since the last call. A failure of the server is reported.
  void look() noexcept;

 private:
  [[nodiscard]] std::uint64_t read(std::uint32_t tuple) override;
  void write(std::uint32_t tuple, std::uint64_t version) override;
  [[nodiscard]] SwitchCache& cache();
  [[nodiscard]] RemoteSpan word_of(std::uint32_t tuple);

  SharedSwitch* shared_;
  std::mutex mutex_;  // one move at a time
  ServerLine server_;
};

}  // namespace sidelatch::fabric::verbs
