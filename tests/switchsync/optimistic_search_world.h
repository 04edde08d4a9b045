// The state of a search (optimistic_search.h), and the memory node, which knows nothing of the switch.
#pragma once

#include "roce/packet.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace sidelatch::switchsync::packets {

using roce::Opcode;

inline constexpr std::uint32_t kTupleBytes = 128;
inline constexpr std::uint64_t kAddress = 0x10000;
inline constexpr std::uint32_t kKey = 77;
inline constexpr roce::Ipv4Address kMemoryIp{10, 0, 0, 100};
inline constexpr std::uint32_t kFirstPsn = 0xffffff;  // its next one is 0
inline constexpr std::uint8_t kMostRetries = 7;
inline constexpr std::uint8_t kNoContent = 0xff;

// What a frame says.
struct Frame {
  Opcode opcode{};
  bool is_nak = false;
  std::uint32_t psn = 0;
  std::uint64_t word = 0;  // the first word of a payload, an atomic's operand or its old value
  std::array<std::uint8_t, 2> lines{};
  bool is_tuple = false;  // of 128 bytes, not of 8
  std::uint64_t swap = 0;
};

enum Hop : std::uint8_t { client_to_switch, switch_to_memory, memory_to_switch, switch_to_client };
inline constexpr std::array<const char*, 4> kHops{"client to switch", "switch to memory", "memory to switch",
                                                  "switch to client"};

struct ClientState {
  std::uint8_t step = 0;
  bool is_waiting = false;
  bool is_done = false;
  std::uint8_t retries = 0;
  std::uint8_t early_timers = 0;
  std::uint32_t psn = kFirstPsn;
  std::uint64_t version = 0;
  std::uint8_t content = 0;
  std::uint64_t oldest = 0;                // version that a READ must have at least
  std::uint8_t writes_again = kNoContent;  // after a restart
  Frame request{};
};

// A request that the memory node works on.
struct Job {
  Frame request{};
  bool is_repeated = false;
  std::uint8_t done = 0;  // lines, as bits
  bool has_answered = false;
  std::array<std::uint8_t, 2> lines{};
  std::uint64_t word = 0;
  std::uint8_t waits_for = 0;  // connections whose WRITEs it waits for, as bits
};

struct MemoryPair {
  std::uint32_t psn = kFirstPsn;
  bool has_sent_nak = false;
  std::vector<Job> jobs{};
};

// How far the end of a client is that dies.
enum class Death : std::uint8_t { none, dead, fenced, reading, has_read, ended, released };

// Where the tuple's version is, with a program that caches: TupleMoves.
enum class Place : std::uint8_t { hot, cold, heats, has_word, cools, reading, has_read, is_written };

enum class Restart : std::uint8_t { none, stopped, reading, has_read, ended, recovered };

using Registers = std::array<std::uint64_t, 6>;  // of a connection

// A packet that goes through the switch once more: its first pass can be made again with what the registers were then.
struct SecondPass {
  Hop hop = client_to_switch;
  Frame frame{};
  Registers connection{};
  std::uint64_t version = 0;
  std::uint64_t holder = 0;
};

struct World {
  std::vector<ClientState> clients{};
  std::vector<std::array<std::vector<Frame>, 4>> links{};
  std::vector<MemoryPair> pairs{};
  std::uint64_t word = 0;
  std::array<std::uint8_t, 2> lines{};
  // The switch.
  std::vector<Registers> connections{};
  std::vector<std::vector<SecondPass>> second_passes{};  // by connection
  std::uint64_t version = 0;
  std::uint64_t holder = 0;
  // What versions hold, by index_of().
  std::array<std::uint8_t, 8> contents{0,          kNoContent, kNoContent, kNoContent,
                                       kNoContent, kNoContent, kNoContent, kNoContent};
  std::uint64_t newest = 0;  // version of the latest update that its client knows to be done
  std::uint8_t updates = 0;
  std::uint8_t losses = 0;
  std::uint8_t repeats = 0;
  std::uint8_t overtakings = 0;
  Death death = Death::none;
  std::uint8_t read_waits_for = 0;  // connections whose WRITEs the control plane's READ waits for, as bits
  std::uint8_t seen_versions = 0;   // that a READ was told to be good, by index_of(), as bits
  bool is_in_doubt = false;
  Restart restart = Restart::none;
  std::uint64_t base = 0;  // the first version of this epoch
  std::uint8_t first = 0;  // client + 1 that must write again before others go on
  Place place = Place::hot;
  std::uint8_t moves_left = 0;
  std::uint64_t moves = 0;       // the switch's register
  std::uint64_t place_word = 0;  // what the move has READ, or that its tuple had
  // A dead client's WRITE may be half placed, and nobody will make it again: a checksum in the tuple would tell.
  bool may_be_torn = false;
};

// The first four versions of the first two epochs.
inline std::size_t index_of(std::uint64_t version) {
  return static_cast<std::size_t>((version >> 32) * 4 + (version & 0xffff'ffff) / 2);
}

// Whoever reads this version must have a checksum.
inline bool is_unknown(const World& world, std::uint64_t version) {
  return world.may_be_torn && index_of(version) < world.contents.size() &&
         world.contents[index_of(version)] == kNoContent;
}

struct StateHash {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  friend bool operator==(const StateHash&, const StateHash&) = default;
  struct Of {
    std::size_t operator()(const StateHash& hash) const noexcept { return hash.a; }
  };
};

class Bytes {
 public:
  template <class T>
  void add(const T& value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add(const Frame& frame) {
    add(frame.opcode);
    add(frame.is_nak);
    add(frame.psn);
    add(frame.word);
    add(frame.lines);
    add(frame.is_tuple);
    add(frame.swap);
  }
  // 128 bits: two states with the same are less likely than a fault of the machine.
  [[nodiscard]] StateHash hash() const {
    StateHash hash{0x9e37'79b9'7f4a'7c15, 0xc2b2'ae3d'27d4'eb4f};
    for (std::size_t at = 0; at < text_.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text_.data() + at, std::min(sizeof word, text_.size() - at));
      hash.a = (hash.a ^ word) * 0xff51'afd7'ed55'8ccd;
      hash.a ^= hash.a >> 32;
      hash.b = (hash.b + word) * 0xc4ce'b9fe'1a85'ec53;
      hash.b ^= hash.b >> 29;
    }
    hash.a ^= text_.size();
    return hash;
  }

 private:
  std::string text_;
};

inline StateHash hash_of(const World& world) {
  Bytes bytes;
  for (const ClientState& client : world.clients) {
    bytes.add(client.step);
    bytes.add(client.is_waiting);
    bytes.add(client.is_done);
    bytes.add(client.retries);
    bytes.add(client.early_timers);
    bytes.add(client.psn);
    bytes.add(client.version);
    bytes.add(client.content);
    bytes.add(client.oldest);
    bytes.add(client.writes_again);
    bytes.add(client.request);
  }
  for (const auto& hops : world.links) {
    for (const std::vector<Frame>& link : hops) {
      bytes.add(static_cast<std::uint8_t>(link.size()));
      for (const Frame& frame : link) {
        bytes.add(frame);
      }
    }
  }
  for (const MemoryPair& pair : world.pairs) {
    bytes.add(pair.psn);
    bytes.add(pair.has_sent_nak);
    bytes.add(static_cast<std::uint8_t>(pair.jobs.size()));
    for (const Job& job : pair.jobs) {
      bytes.add(job.request);
      bytes.add(job.is_repeated);
      bytes.add(job.done);
      bytes.add(job.has_answered);
      bytes.add(job.lines);
      bytes.add(job.word);
      bytes.add(job.waits_for);
    }
  }
  bytes.add(world.word);
  bytes.add(world.lines);
  for (const auto& registers : world.connections) {
    bytes.add(registers);
  }
  for (const std::vector<SecondPass>& passes : world.second_passes) {
    bytes.add(static_cast<std::uint8_t>(passes.size()));
    for (const SecondPass& pass : passes) {
      bytes.add(pass.hop);
      bytes.add(pass.frame);
      bytes.add(pass.connection);
      bytes.add(pass.version);
      bytes.add(pass.holder);
    }
  }
  bytes.add(world.version);
  bytes.add(world.holder);
  bytes.add(world.contents);
  bytes.add(world.newest);
  bytes.add(world.updates);
  bytes.add(world.losses);
  bytes.add(world.repeats);
  bytes.add(world.overtakings);
  bytes.add(world.death);
  bytes.add(world.read_waits_for);
  bytes.add(world.seen_versions);
  bytes.add(world.is_in_doubt);
  bytes.add(world.restart);
  bytes.add(world.base);
  bytes.add(world.first);
  bytes.add(world.place);
  bytes.add(world.moves_left);
  bytes.add(world.moves);
  bytes.add(world.place_word);
  bytes.add(world.may_be_torn);
  return bytes.hash();
}

// ---- The memory node.

inline void forget_finished(World& world, std::size_t i);

inline void reach_memory(World& world, std::size_t i, const Frame& frame) {
  MemoryPair& pair = world.pairs[i];
  const std::uint32_t ahead = (frame.psn - pair.psn) & 0xffffff;
  if (ahead != 0 && ahead < 0x800000) {
    if (!pair.has_sent_nak) {
      pair.has_sent_nak = true;
      world.links[i][memory_to_switch].push_back({.opcode = Opcode::acknowledge, .is_nak = true, .psn = pair.psn});
    }
    return;
  }
  Job job{.request = frame, .is_repeated = ahead != 0};
  if (ahead == 0) {
    pair.psn = (pair.psn + 1) & 0xffffff;
    pair.has_sent_nak = false;
  }
  if (frame.opcode == Opcode::read_request) {
    for (std::size_t other = 0; other < world.pairs.size(); ++other) {
      const bool waits = std::ranges::any_of(world.pairs[other].jobs, [&](const Job& earlier) {
        return earlier.request.opcode == Opcode::write_only && (earlier.has_answered || other == i);
      });
      job.waits_for = static_cast<std::uint8_t>(job.waits_for | (waits ? 1U << other : 0U));
    }
  }
  pair.jobs.push_back(job);
}

inline bool may_touch(const World& world, std::size_t i, std::size_t at) {
  const Job& job = world.pairs[i].jobs[at];
  for (std::size_t other = 0; other < world.pairs.size(); ++other) {
    if ((job.waits_for >> other & 1U) == 0) {
      continue;
    }
    const std::vector<Job>& jobs = world.pairs[other].jobs;
    const std::size_t end = other == i ? at : jobs.size();
    for (std::size_t k = 0; k < end; ++k) {
      if (jobs[k].request.opcode == Opcode::write_only && !jobs[k].is_repeated &&
          (jobs[k].has_answered || other == i) && jobs[k].done != 3) {
        return false;
      }
    }
  }
  return true;
}

inline void touch(World& world, std::size_t i, std::size_t at, unsigned line) {
  Job& job = world.pairs[i].jobs[at];
  job.done = static_cast<std::uint8_t>(job.done | 1U << line);
  if (job.request.opcode == Opcode::write_only) {
    world.lines.at(line) = job.request.lines.at(line);
    if (line == 0) {
      world.word = job.request.word;
    }
  } else {
    job.lines.at(line) = world.lines.at(line);
    if (line == 0) {
      job.word = world.word;
    }
  }
  forget_finished(world, i);
}

inline void answer(World& world, std::size_t i, std::size_t at) {
  Job& job = world.pairs[i].jobs[at];
  job.has_answered = true;
  Frame frame{.psn = job.request.psn};
  if (job.request.opcode == Opcode::write_only) {
    frame.opcode = Opcode::acknowledge;
  } else {
    frame.opcode = Opcode::read_response_only;
    frame.word = job.word;
    frame.lines = job.lines;
    frame.is_tuple = job.request.is_tuple;
  }
  world.links[i][memory_to_switch].push_back(frame);
  forget_finished(world, i);
}

inline void forget_finished(World& world, std::size_t i) {
  std::erase_if(world.pairs[i].jobs,
                [](const Job& job) { return job.has_answered && (job.done == 3 || job.is_repeated); });
}

}  // namespace sidelatch::switchsync::packets
