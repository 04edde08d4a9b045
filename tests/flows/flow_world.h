// The state that flow_search.cpp explores: units, NICs, links, and the registers of the switch.
#pragma once

#include "roce/packet.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sidelatch::flows::searched_flow {

using roce::Opcode;

inline constexpr std::uint32_t kMostSlots = 2;
inline constexpr std::uint32_t kMostPackets = 2;      // of an item
inline constexpr std::uint32_t kFirstPsn = 0xfffffe;  // wraps around soon
inline constexpr std::uint8_t kNothing = 0xff;        // in a slot
// Of the program; hash_of() and a search know each by its place here.
inline constexpr std::array kThreadRegisters{
    "phases",   "retries", "positions",  "misses", "ends",    "consumer_psns", "heads",   "tails",
    "items",    "starts",  "passed",     "marks",  "answers", "lost",          "fullest", "reached",
    "silences", "shrinks", "slownesses", "owing",  "paces",   "vain_batches"};
inline constexpr std::array kProducerRegisters{"producer_psns", "known", "taken", "locks",
                                               "gone",          "owed",  "waits", "pendings"};
inline constexpr std::size_t kMostThreads = 2;
inline constexpr std::size_t kMostProducers = 2;
inline constexpr std::size_t kLiving =
    kMostThreads * kThreadRegisters.size() + kMostProducers * kProducerRegisters.size();
inline constexpr std::size_t kReached = kLiving + 1;  // of a second consumer of the first thread
inline constexpr std::size_t kRegisters = kReached + 1;

/// The place of a register of a thread.
constexpr std::size_t place_of(std::string_view name, std::size_t thread) {
  std::size_t place = thread * kThreadRegisters.size();
  for (const std::string_view one : kThreadRegisters) {
    if (one == name) {
      break;
    }
    ++place;
  }
  return place;
}
/// The same of a producer, by its number.
constexpr std::size_t place_of_producer(std::string_view name, std::size_t number) {
  std::size_t place = kMostThreads * kThreadRegisters.size() + number * kProducerRegisters.size();
  for (const std::string_view one : kProducerRegisters) {
    if (one == name) {
      break;
    }
    ++place;
  }
  return place;
}

enum Unit : std::uint8_t { producer, consumer, second, other };
inline constexpr std::size_t kMostUnits = 4;
inline constexpr std::array<const char*, kMostUnits> kUnits{"producer", "consumer", "second consumer",
                                                            "other producer"};

/// An item is a byte: its producer's number, and its own number there.
inline constexpr std::uint8_t kMostItems = 8;  // of a producer
constexpr std::uint8_t item_of(std::size_t number, std::uint8_t item) {
  return static_cast<std::uint8_t>(number * kMostItems + item);
}

struct Frame {
  Opcode opcode{};
  bool is_nak = false;
  bool asks = false;  // for an acknowledgement
  std::uint32_t psn = 0;
  std::uint32_t offset = 0;  // of its address, in the ring
  std::uint32_t bytes = 0;   // of the request, or of the payload
  std::uint32_t value = 0;   // a counter
  std::uint8_t item = 0;
};

struct Job {
  Frame request{};
  std::uint32_t sampled = 0;  // packets
};

struct Nic {
  std::uint32_t expected = kFirstPsn;
  std::uint32_t acknowledged = 0;  // PSN of the latest WRITE
  bool has_sent_nak = false;
  bool is_dead = false;
  std::vector<Job> jobs{};
};

struct Memory {
  std::uint32_t head = 0;
  std::uint32_t tail = 0;
  std::array<std::uint8_t, kMostSlots * kMostPackets> packets{kNothing, kNothing, kNothing, kNothing};
};

struct World {
  std::array<Nic, kMostUnits> nics{};
  std::array<Memory, kMostUnits> memories{};
  std::array<std::vector<Frame>, kMostUnits> to_unit{};
  std::array<std::vector<Frame>, kMostUnits> from_unit{};
  std::array<std::uint64_t, kRegisters> registers{};
  std::array<std::uint8_t, kMostProducers> written{};  // items
  std::array<bool, kMostProducers> has_ended{};        // the producer has said so
  std::array<std::uint8_t, kMostUnits> popped{};       // items
  std::array<bool, kMostUnits> is_reading{};
  // Of a consumer and a producer: the least number that its next item may have.
  std::array<std::array<std::uint8_t, kMostProducers>, kMostUnits> next{};
  // A bit for each item. Who has acknowledged it, and which are popped by anybody.
  std::array<std::uint16_t, kMostUnits> accepted{};
  std::uint16_t all_popped = 0;
  std::uint8_t losses = 0;
  std::uint8_t repeats = 0;
  std::uint8_t overtakings = 0;
  std::uint8_t early_timers = 0;
  std::uint8_t idle_polls = 0;
  std::uint8_t payments = 0;      // that may still be made
  bool is_next_paid_for = false;  // with a limited rate: the next batch may begin
};

struct Hash {
  std::uint64_t a = 0x9e37'79b9'7f4a'7c15;
  std::uint64_t b = 0xc2b2'ae3d'27d4'eb4f;
  friend bool operator==(const Hash&, const Hash&) = default;
  struct Of {
    std::size_t operator()(const Hash& hash) const noexcept { return hash.a; }
  };
  void add(std::uint64_t word) noexcept {
    a = (a ^ word) * 0xff51'afd7'ed55'8ccd;
    a ^= a >> 32;
    b = (b + word) * 0xc4ce'b9fe'1a85'ec53;
    b ^= b >> 29;
  }
  void add(const Frame& frame) noexcept {
    add(static_cast<std::uint64_t>(frame.opcode) | (frame.is_nak ? 0x100U : 0U) | (frame.asks ? 0x200U : 0U) |
        std::uint64_t{frame.item} << 16 | std::uint64_t{frame.psn} << 32);
    add(frame.offset | std::uint64_t{frame.bytes} << 32);
    add(frame.value);
  }
};

inline Hash hash_of(const World& world) {
  Hash hash;
  for (const Unit unit : {producer, consumer, second, other}) {
    const Nic& nic = world.nics[unit];
    hash.add(world.popped[unit] | (world.is_reading[unit] ? 0x100U : 0U) | std::uint64_t{world.next[unit][0]} << 16 |
             std::uint64_t{world.next[unit][1]} << 24 | std::uint64_t{world.accepted[unit]} << 32);
    hash.add(nic.expected | std::uint64_t{nic.acknowledged} << 24 | (nic.has_sent_nak ? 1ULL << 50 : 0) |
             (nic.is_dead ? 1ULL << 51 : 0));
    hash.add(nic.jobs.size());
    for (const Job& job : nic.jobs) {
      hash.add(job.request);
      hash.add(job.sampled);
    }
    const Memory& memory = world.memories[unit];
    hash.add(memory.head | std::uint64_t{memory.tail} << 32);
    for (const std::uint8_t packet : memory.packets) {
      hash.add(packet);
    }
    for (const auto* const link : {&world.to_unit[unit], &world.from_unit[unit]}) {
      hash.add(link->size());
      for (const Frame& frame : *link) {
        hash.add(frame);
      }
    }
  }
  for (const std::uint64_t one : world.registers) {
    hash.add(one);
  }
  hash.add(world.losses | std::uint64_t{world.repeats} << 8 | std::uint64_t{world.overtakings} << 16 |
           std::uint64_t{world.early_timers} << 24 | std::uint64_t{world.idle_polls} << 32 |
           std::uint64_t{world.all_popped} << 40);
  hash.add(world.payments | (world.is_next_paid_for ? 0x100U : 0U));
  for (std::size_t i = 0; i < kMostProducers; ++i) {
    hash.add(world.written[i] | (world.has_ended[i] ? 0x100U : 0U));
  }
  return hash;
}

}  // namespace sidelatch::flows::searched_flow
