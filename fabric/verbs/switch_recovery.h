// Tuples in memory that outlives their switch: a switch that restarts, or another one in its place, reads their
// versions back before it serves them.
//
//   keep()      all connections of before end at the memory node; the tuples' words are read; the switch gets versions
//               of an epoch that nobody has seen, all latched
//   resume()    a client that was cut off asks for each of its WRITEs that has no answer. The latest of a tuple is made
//               again: the memory node may have torn it when it ended the queue pair (memory model, rule 10)
//   settle()    when all that were cut off have, or the grace is over, the other tuples get their versions, in memory
//               first, and are unlatched
//
// If this switch ends before that, the tuples still have their old words, but for those that were written again. So the
// next one can do the same.
//
// A tuple in doubt, whose holder has ended while its WRITE was on its way, stays latched, and the next switch must know
// that, too: its word in memory says so (epoch_notes.h).
#pragma once

#include "epoch_notes.h"
#include "server_line.h"
#include "switch_service.h"

#include <sidelatch/fabric/verbs/memory_server.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace sidelatch::fabric::verbs {

class SwitchRecovery {
 public:
  using Clock = std::chrono::steady_clock;

  /// Both outlive this object. `switch_id`: of this switch, not 0.
  SwitchRecovery(SharedSwitch& shared, const SwitchExchangeOptions& options, std::uint64_t switch_id)
      : shared_(&shared), options_(&options), server_(options, switch_id) {}

  /// `tuples` are in a region that the server shares. Once for the same row, whoever asks. Throws what the switch
  /// throws, and SocketError.
  void keep(const SwitchedTuples& tuples);
  /// `version`: that the WRITE would have given. Throws std::invalid_argument if no tuple of keep() begins at `at`, and
  /// what the switch throws.
  [[nodiscard]] Resumption resume(SwitchControl::ConnectionId connection, const RemoteSpan& at, std::uint64_t version);
  /// What the server must note before the connection inherits the tuple at `at`, whose number is `tuple`. Nothing: it
  /// is not in doubt, or waits for clients that were cut off. Throws std::invalid_argument for a connection without an
  /// owner, if others may ask of the tuple.
  [[nodiscard]] std::optional<std::vector<exchange::NoteHeir>> notes_of_heir(SwitchControl::ConnectionId connection,
                                                                             const RemoteSpan& at, std::uint32_t tuple);
  /// What the server must note when these connections have ended, which are fenced.
  [[nodiscard]] std::vector<exchange::Mark> marks_of(std::span<const SwitchControl::ConnectionId> connections);
  /// That owner has no WRITE in doubt any more. Throws SocketError.
  void settle(std::uint16_t owner);

  /// When look() is to be called; nothing is due without it.
  [[nodiscard]] std::optional<Clock::time_point> due();
  /// Ends the grace, if it is over. A failure is reported, and tried again.
  void look() noexcept;

 private:
  struct Grant {
    std::uint64_t version = 0;  // of before
    std::optional<SwitchControl::ConnectionId> to{};
  };
  struct Row {
    SwitchedTuples tuples{};
    std::uint32_t first = 0;
    std::uint64_t version = 0;                 // of this epoch
    std::vector<std::uint64_t> found{};        // versions in memory
    std::map<std::uint64_t, Grant> granted{};  // by the tuple's place in the row
    bool is_open = false;
  };
  [[nodiscard]] Resumption resume_here(SwitchControl::ConnectionId connection, const RemoteSpan& at,
                                       std::uint32_t tuple, std::uint64_t version);
  [[nodiscard]] Recalled recall(const RemoteSpan& at, std::uint64_t version, std::uint16_t owner);
  [[nodiscard]] Row* row_of(const RemoteSpan& at);
  [[nodiscard]] static std::uint64_t place_in(const Row& row, const RemoteSpan& at) {
    return (at.address.value - row.tuples.memory.address.value) / row.tuples.slot_bytes;
  }
  [[noreturn]] static void throw_inherited(const RemoteSpan& at);
  void reach(std::string_view step) const {
    if (options_->at_recovery_step) {
      options_->at_recovery_step(step);
    }
  }
  [[nodiscard]] bool is_awaited() const { return has_others_ || !owners_.empty(); }
  void open_all();
  void open(Row& row);

  SharedSwitch* shared_;
  const SwitchExchangeOptions* options_;
  std::mutex mutex_;
  ServerLine server_;
  std::list<Row> rows_;
  std::set<std::uint16_t> owners_;
  bool has_others_ = false;
  std::optional<Clock::time_point> due_;
};

}  // namespace sidelatch::fabric::verbs
