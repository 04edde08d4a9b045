// Every execution of a few clients, the switch program p4/switch_optimistic.p4 as it is, a network, and a memory node
// with one tuple of two lines.
//
//   const SearchResult result = search(program, {.clients = {Script::reader, Script::writer}});
//   EXPECT_EQ(result.violation, "");
//
// Clients are reliable connections: one request at a time, sent again when a timer fires (once at any time, else when
// nothing of the request is left on its way). Each connection has four links, client to switch to memory node and back;
// a frame of a link moves at any time. The network may lose, repeat and overtake so many frames. The memory node
// samples and places the lines of a request one by one, at any time and in any order; an acknowledgement leaves at any
// time, and a READ that arrives after it left waits until that WRITE is placed (memory model, rule 2). It takes
// requests in the order of their PSNs, answers a repeated READ by reading again, a repeated WRITE by another
// acknowledgement, and a PSN that is too high by a NAK.
//
// Checked: an even word of a READ is a version whose content is what was read, in both lines, and is no older than what
// was done before the READ began; no version has two contents; each update is there at the end, and no latch is left;
// no client gives up. One client may die, at any time; then the control plane fences it, has a READ of its own
// answered, has the memory node end the queue pair, which loses what is not placed (rule 10), and releases it. Or the
// switch may restart, at any time, once, which does the same to all connections; the version is read back, and the
// clients begin again with new connections. Or both, in any order and at once: if a client dies in the middle of a
// WRITE and the switch restarts, the tuple may be torn, and a reader must have a checksum: the search then expects
// nothing of its content until somebody writes it. With p4/switch_cached.p4 the control plane may make the tuple hot
// and cold, in the steps of switchsync/tuple_moves.h, at any time; what a client READs while it is cold is checked as
// all READs are. States that were seen before are not searched again.
#pragma once

#include <sidelatch/p4/program.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::switchsync {

enum class Script : std::uint8_t {
  reader,     ///< READ the tuple
  writer,     ///< latch version 0; READ; WRITE
  twice,      ///< the same for versions 0 and 2
  updater,    ///< READ; latch that version; WRITE a content one higher
  aborter,    ///< latch version 0; unlatch with a new version, without a WRITE
  blind,      ///< READ the word, and latch that version; WRITE without a READ of the tuple
  verifier,   ///< READ the tuple, then its word
  published,  ///< try-latch, three times at most; WRITE without a READ; for p4/broken/switch_as_published.p4
  intruder,   ///< WRITE, without a latch; for programs that let it pass
  heir,       ///< if a tuple of the client that dies is in doubt: gets its latch, READ, WRITE
};

struct SearchOptions {
  std::vector<Script> clients{};
  int losses = 1;
  int repeats = 1;
  int overtakings = 1;
  int early_timers = 1;          ///< per client
  int dies = -1;                 ///< this client may die at any time; the control plane then ends it
  bool reads_before_end = true;  ///< as the control plane must; without it, what was acknowledged may be lost
  bool ends_queue_pair = true;   ///< as it must; without it, a late WRITE may fall into the next one
  bool restarts = false;         ///< the switch loses everything, at any time
  bool ends_dead = true;         ///< a restart also ends the queue pair of a client that has died before
  bool fences_switch = true;     ///< the old switch passes nothing any more before the control plane reads
  bool begins_epoch = true;      ///< recover() gives versions that nobody has seen
  bool writes_again = true;      ///< what was in flight is written again, before anybody uses the tuple
  bool latches_again = true;  ///< and it is latched until then, whoever dies; without it, its writer latches it itself
  bool looks_at_header = true;  ///< but if the tuple has a later version, it has happened
  // For a program that caches.
  bool is_cold = false;      ///< at the beginning
  int moves = 0;             ///< how often the tuple may become hot or cold, at any time
  bool counts_moves = true;  ///< as begin_to_heat() must
  bool keeps_out = true;     ///< begin_to_cool() refuses a tuple that is latched, and nobody latches it then
  bool drains = true;        ///< it becomes cold when what was acknowledged is placed
  bool writes_word = true;   ///< and its word is its version
  std::uint64_t most_states = 20'000'000;
};

struct SearchResult {
  std::string violation{};  ///< empty: none
  std::vector<std::string> trace{};
  std::uint64_t states = 0;
  std::uint64_t ends = 0;  ///< states in which all clients are done
  bool is_complete = true;
};

/// All at once has too many states to be searched whole: with SIDELATCH_LONG so many of them, a minute or two.
inline constexpr std::uint64_t kStatesOfAll = 2'000'000;

/// The violation and its trace, a step on each line.
[[nodiscard]] std::string trace_of(const SearchResult& result);

[[nodiscard]] SearchResult search(const std::shared_ptr<const p4::Program>& program, const SearchOptions& options);

}  // namespace sidelatch::switchsync
