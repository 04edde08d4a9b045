// Every execution of a producer, a consumer, the switch program p4/zero_sided.p4 as it is, and a network, for rings of
// one or two slots.
//
//   const FlowSearchResult result = search(program, {.items = 3, .losses = 1});
//   EXPECT_EQ(result.violation, "");
//
// Units take a step at any time: write an item, move the head, begin to read an item, give its slot back. NICs take
// requests in the order of their PSNs and acknowledge WRITEs at once; they place WRITEs, and sample the packets of
// READs, one by one at any later time, in the order of the requests (memory model, rule 5). A repeated WRITE is
// acknowledged, a repeated READ is sampled again, a PSN that is too high gets a NAK. The network may lose, repeat and
// overtake so many frames. The switch's timer fires when nothing is on its way, and so many times too early; it wakes
// an idle flow when there is something to do, and so many times for nothing.
//
// Checked: each consumer pops a producer's items in their order, each item is popped once; none changes while it is
// read; with a limited rate no batch begins that is not paid for; who pops sees the end after the last one, and the
// producer that all was delivered; of two consumers of a replicated flow none sees an item that the other one lacks;
// from every state the flow can come to its end. If a unit dies or is given up, the others get what was delivered, and
// then an error, or, from several producers or to several consumers that share, all that is left; what is in the ring
// of a unit that was given up and lives stays there. States that were seen before are not searched again.
#pragma once

#include <sidelatch/flows/flow_switch.h>
#include <sidelatch/p4/program.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::flows {

struct FlowSearchOptions {
  FlowKind kind = FlowKind::shuffle;
  std::uint32_t producers = 1;  ///< 1 or 2; to one consumer each of a shuffle
  std::uint32_t consumers = 1;  ///< 1, or 2 that get the same (replicate, one producer) or share (balance)
  std::uint8_t items = 3;       ///< of each producer
  std::uint32_t packets = 1;    ///< of an item, 1 or 2
  std::uint32_t slots = 2;      ///< of each ring, 1 or 2
  std::uint8_t losses = 0;
  std::uint8_t repeats = 0;
  std::uint8_t overtakings = 0;
  std::uint8_t early_timers = 0;
  std::uint8_t idle_polls = 0;
  bool producer_dies = false;  ///< the first one: its NIC stops, at any time
  bool consumer_dies = false;
  bool is_paced = false;      ///< a limited rate: a batch for each tick of the timer that wakes the idle flow
  std::uint8_t payments = 0;  ///< so often, at any time, the control plane says that the present batch is paid for
  bool is_impatient = false;  ///< a unit is given up after one repeated request, and lives
  /// A unit writes an item and moves its head in one step, or reads one and gives its slot back; NICs touch memory at
  /// once. For the flows whose states are too many otherwise.
  bool is_coarse = false;
  std::uint64_t most_states = 20'000'000;
};

struct FlowSearchResult {
  std::string violation{};  ///< empty: none
  std::vector<std::string> trace{};
  std::uint64_t states = 0;
  std::uint64_t ends = 0;  ///< states in which nothing is left to do
  bool is_complete = true;
};

[[nodiscard]] FlowSearchResult search(const std::shared_ptr<const p4::Program>& program,
                                      const FlowSearchOptions& options);

}  // namespace sidelatch::flows
