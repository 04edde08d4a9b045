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
// Checked: the consumer pops the items in their order, each once; none changes while it is read; it sees the end after
// the last one, and the producer that all was delivered; of two consumers none sees an item that the other one lacks;
// from every state the flow can come to its end. If a unit dies or is given up, the other one gets what was delivered,
// and then an error; what is in the ring of a unit that was given up and lives stays there. States that were seen
// before are not searched again.
#pragma once

#include <sidelatch/p4/program.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::flows {

struct FlowSearchOptions {
  std::uint8_t items = 3;
  std::uint32_t packets = 1;  ///< of an item, 1 or 2
  std::uint32_t slots = 2;    ///< of each ring, 1 or 2
  std::uint8_t losses = 0;
  std::uint8_t repeats = 0;
  std::uint8_t overtakings = 0;
  std::uint8_t early_timers = 0;
  std::uint8_t idle_polls = 0;
  bool has_second = false;     ///< the flow is replicated to two consumers; it is the first one that may die
  bool producer_dies = false;  ///< its NIC stops, at any time
  bool consumer_dies = false;
  bool is_paced = false;      ///< a batch for each tick of the timer, as with a limited rate
  bool is_impatient = false;  ///< a unit is given up after one repeated request, and lives
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
