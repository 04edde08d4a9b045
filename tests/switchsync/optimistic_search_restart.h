// A search's switch that restarts, or that another one replaces: what is left of a state, in the order of
// switchsync/optimistic_switch.h.
#pragma once

#include "optimistic_search.h"
#include "optimistic_search_world.h"

#include "switchsync/tuple_registers.h"

#include <sidelatch/switchsync/optimistic_switch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sidelatch::switchsync::packets {

// The old switch passes nothing any more.
inline void stop(World& world, bool fences) {
  world.restart = Restart::stopped;
  if (!fences) {
    return;
  }
  for (auto& hops : world.links) {
    hops[client_to_switch].clear();
    hops[memory_to_switch].clear();
  }
  for (auto& passes : world.second_passes) {
    passes.clear();
  }
}

// The READs of the control plane and of others wait for these (memory model, rule 2).
inline void begin_own_read(World& world) {
  world.read_waits_for = 0;
  for (std::size_t i = 0; i < world.pairs.size(); ++i) {
    const bool waits = std::ranges::any_of(world.pairs[i].jobs, [](const Job& job) {
      return job.request.opcode == Opcode::write_only && job.has_answered;
    });
    world.read_waits_for = static_cast<std::uint8_t>(world.read_waits_for | (waits ? 1U << i : 0U));
  }
}

inline bool may_own_read_end(const World& world) {
  for (std::size_t i = 0; i < world.pairs.size(); ++i) {
    const bool waits =
        (world.read_waits_for >> i & 1U) != 0 && std::ranges::any_of(world.pairs[i].jobs, [](const Job& job) {
          return job.request.opcode == Opcode::write_only && job.has_answered;
        });
    if (waits) {
      return false;
    }
  }
  return true;
}

// The memory node ends all queue pairs. What is not placed is lost (rule 10).
inline void end_all(World& world, const SearchOptions& options) {
  world.restart = Restart::ended;
  for (std::size_t i = 0; i < world.pairs.size(); ++i) {
    for (auto& link : world.links[i]) {
      link.clear();
    }
    world.second_passes[i].clear();
    const bool is_spared = !options.ends_dead && world.death != Death::none && options.dies == static_cast<int>(i);
    if (options.ends_queue_pair && !is_spared) {
      world.pairs[i].jobs.clear();
    }
    world.pairs[i].psn = kFirstPsn;
    world.pairs[i].has_sent_nak = false;
  }
}

// Of a client whose WRITE is on its way: the version that it would give.
inline std::uint64_t version_given(const ClientState& client) { return client.version / 2 * 2 + 2; }

// Who must write the tuple once more, before anybody uses it: of the clients whose WRITE has no answer, the one with
// the latest version, unless the tuple has a later one. -1: nobody. The others' WRITEs have happened, as a later holder
// has read the tuple.
inline int must_write_again(const World& world, bool looks_at_header) {
  int latest = -1;
  for (std::size_t i = 0; i < world.clients.size(); ++i) {
    const ClientState& client = world.clients[i];
    const bool writes = client.is_waiting && client.request.opcode == Opcode::write_only;
    if (writes && (!looks_at_header || version_given(client) >= world.word) &&
        (latest < 0 || version_given(client) > version_given(world.clients[static_cast<std::size_t>(latest)]))) {
      latest = static_cast<int>(i);
    }
  }
  return latest;
}

// recover(), new connections, whose registers are `fresh`, and clients that begin again. Returns an error; empty: none.
inline const char* begin_again(World& world, const SearchOptions& options, const Registers& fresh) {
  world.restart = Restart::recovered;
  const int again = options.writes_again ? must_write_again(world, options.looks_at_header) : -1;
  const bool is_torn = world.lines[0] != world.lines[1];
  if (is_torn && again < 0 && !world.may_be_torn) {
    return "the tuple is torn after a restart, and nobody writes it again";
  }
  const std::array<std::uint64_t, 1> headers{world.word};
  world.base = options.begins_epoch ? next_epoch(headers) : world.word;
  world.word = world.base;
  world.version = world.base;
  world.holder = 0;
  world.newest = options.begins_epoch ? world.base : world.newest;
  world.contents.at(index_of(world.base)) = is_torn ? kNoContent : world.lines[0];
  // The new switch knows nothing of a client that has died before, and of tuples in doubt.
  world.death = world.death == Death::none ? Death::none : Death::released;
  if (options.is_cold || options.moves != 0) {  // what is to be written again becomes hot, in doubt
    world.place = again >= 0 ? Place::hot : Place::cold;
    world.moves = 0;
  }
  world.is_in_doubt = false;
  for (auto& registers : world.connections) {
    registers = fresh;
  }
  for (std::size_t i = 0; i < world.clients.size(); ++i) {
    ClientState& client = world.clients[i];
    const bool writes = client.is_waiting && client.request.opcode == Opcode::write_only;
    client.psn = kFirstPsn;
    client.retries = 0;
    client.is_waiting = false;
    if (client.is_done) {
      continue;
    }
    const bool is_updater = options.clients[i] == Script::updater;
    if (writes && static_cast<int>(i) == again) {
      client.writes_again = client.request.lines[0];
      world.first = static_cast<std::uint8_t>(i + 1);
      // install_latched(), give_latch()
      client.step = options.latches_again ? 1 : 0;
      world.version += options.latches_again ? 1 : 0;
      world.holder = options.latches_again ? (i + 1) | kMustWrite : 0;
    } else if (writes) {
      world.updates = static_cast<std::uint8_t>(world.updates + (is_updater ? 1 : 0));
      client.is_done = true;
    } else if (!(is_updater && client.step == 1)) {  // what an updater has read before, it uses
      client.step = 0;
    }
  }
  return "";
}

}  // namespace sidelatch::switchsync::packets
