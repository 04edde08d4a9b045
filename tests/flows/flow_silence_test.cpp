// A unit that is silent for a while, or for ever, does not hold the others of its flow.
#include "flow_network.h"

#include "tests/switchsync/changed_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace silences {

constexpr softnic::nic::Time kLongest = 100'000'000;  // virtual
constexpr std::uint32_t kEach = 30;                   // items of each ring: some rings full
constexpr std::uint32_t kMostFrames = 12;             // of the silent host: several batches

// Of the frames of a silent host: those from it, or also those to it.
enum class Lost : std::uint8_t { answers, everything };

struct Silence {
  std::size_t host = 0;
  Lost what = Lost::answers;
  std::uint32_t after = 0;       // so many frames from it, or, if everything is lost, to it
  std::uint32_t next_after = 0;  // the next host, too, after so many more frames from that one; 0: not
  /// Not silent for ever: another switch takes over when so many frames of others have come since.
  std::uint64_t takes_over_after = 0;
};

struct Moved {
  std::vector<std::vector<ItemName>> arrived{};
  std::uint32_t frames = 0;  // of that host
  bool has_moved_meanwhile = false;
  std::string wrong{};
};

// Each ring gets kEach items as it has room for them, and its end.
void push_what_fits(FlowNetwork& network, std::vector<std::uint32_t>& pushed) {
  for (std::size_t i = 0; i < network.rings(); ++i) {
    while (pushed[i] < kEach && network.push(i)) {
      ++pushed[i];
    }
    if (pushed[i] == kEach) {
      network.producer(i).end();
    }
  }
}

// All items of all rings but the silent host's must come while it is silent; then it is heard again, and its own come.
Moved move(const FlowNetworkOptions& options, const Silence& silence,
           const std::shared_ptr<const p4::Program>& program = zero_sided_program()) {
  FlowNetwork network(program, options);
  Moved moved;
  bool is_silent = false;
  bool is_next_silent = false;
  std::uint64_t others = 0;  // frames, since then
  std::uint32_t of_next = 0;
  network.on_send = [&](std::size_t from, std::size_t to, std::span<const std::byte>) {
    const std::size_t next = silence.host + 1;
    others += is_silent && from != silence.host ? 1U : 0U;
    const std::size_t counted = silence.what == Lost::everything ? to : from;
    if (counted == silence.host && ++moved.frames == silence.after) {
      is_silent = true;
    } else if (is_silent && counted == next && ++of_next == silence.next_after) {
      is_next_silent = true;
    }
    const auto is_lost = [&](std::size_t host) {
      return from == host || (silence.what == Lost::everything && to == host);
    };
    return (is_silent && is_lost(silence.host)) || (is_next_silent && is_lost(next)) ? 0 : -1;
  };
  moved.arrived.resize(network.consumers());
  std::vector<std::uint32_t> pushed(network.rings());
  std::vector<bool> at_end(network.consumers());
  std::vector<std::uint32_t> came(network.rings());
  const auto step = [&] {
    push_what_fits(network, pushed);
    for (std::size_t c = 0; c < network.consumers(); ++c) {
      while (const auto name = network.pop(c)) {
        moved.arrived[c].push_back(*name);
        ++came.at(name->producer);
      }
      at_end[c] = at_end[c] || network.consumer(c).has_ended();
    }
  };
  const std::size_t copies = options.kind == FlowKind::replicate ? network.consumers() : 1;
  network.run([&] {
    step();
    if (silence.takes_over_after != 0 && others >= silence.takes_over_after) {
      is_silent = false;
      is_next_silent = false;
      network.fail_over();
      return true;
    }
    moved.has_moved_meanwhile = true;
    for (std::size_t i = 0; i < network.rings(); ++i) {
      const bool is_its_own = network.host_of_ring(i) == silence.host;
      moved.has_moved_meanwhile = moved.has_moved_meanwhile && (is_its_own || came[i] == kEach * copies);
    }
    return moved.has_moved_meanwhile || network.now() > kLongest;
  });
  is_silent = false;
  moved.frames = std::max(moved.frames, silence.after);
  network.run([&] {
    step();
    return std::ranges::all_of(at_end, [](bool end) { return end; }) || network.now() > 2 * kLongest;
  });
  if (network.now() > 2 * kLongest) {
    moved.wrong = "the flow has come to a halt";
  } else if (copies == 1) {
    moved.wrong = judge(moved.arrived, network.rings(), kEach);
  } else {
    for (const auto& items : moved.arrived) {
      moved.wrong = moved.wrong.empty() ? judge({items}, network.rings(), kEach) : moved.wrong;
    }
  }
  return moved;
}

// The host is silent after each of its frames in turn.
void expect_others_to_go_on(const FlowNetworkOptions& options, std::size_t host) {
  for (const Lost what : {Lost::answers, Lost::everything}) {
    const std::uint32_t frames = move(options, {.host = host, .what = what}).frames;
    ASSERT_GT(frames, 20U);
    for (std::uint32_t after = 1; after <= frames; ++after) {
      const Moved moved = move(options, {.host = host, .what = what, .after = after});
      ASSERT_TRUE(moved.has_moved_meanwhile) << "silent after " << after << " frames";
      ASSERT_EQ(moved.wrong, "") << "silent after " << after << " frames";
    }
  }
}

FlowNetworkOptions options_of(FlowKind kind, std::size_t producers, std::size_t consumers) {
  return {.producers = producers,
          .consumers = consumers,
          .kind = kind,
          .producer_shape = {.slots = 4, .item_bytes = 600},
          .consumer_shape = {.slots = 4, .item_bytes = 600},
          .time_out = std::chrono::microseconds(20),
          .most_retries = 0};  // it is waited for for ever
}

// Failed: the thread waited for the producer that did not answer.
TEST(FlowSilence, AProducerOfAShuffleDoesNotHoldTheOthers) {
  expect_others_to_go_on(options_of(FlowKind::shuffle, 3, 1), 0);
}
TEST(FlowSilence, AProducerOfABalancedFlowDoesNotHoldTheOthers) {
  expect_others_to_go_on(options_of(FlowKind::balance, 3, 2), 0);
}
TEST(FlowSilence, AProducerOfAReplicatedFlowDoesNotHoldTheOthers) {
  expect_others_to_go_on(options_of(FlowKind::replicate, 2, 2), 0);
}

// How long it takes until the flow has ended, in virtual nanoseconds.
softnic::nic::Time with_late_answers(const std::shared_ptr<const p4::Program>& program,
                                     const FlowNetworkOptions& options) {
  FlowNetwork network(program, options);
  std::vector<std::vector<ItemName>> arrived(network.consumers());
  std::vector<std::uint32_t> pushed(network.rings());
  network.run([&] {
    bool have_ended = true;
    push_what_fits(network, pushed);
    for (std::size_t c = 0; c < network.consumers(); ++c) {
      while (const auto name = network.pop(c)) {
        arrived[c].push_back(*name);
      }
      have_ended = have_ended && network.consumer(c).has_ended();
    }
    return have_ended || network.now() > kLongest;
  });
  EXPECT_LE(network.now(), kLongest);
  EXPECT_EQ(judge(options.kind == FlowKind::replicate ? std::vector<std::vector<ItemName>>{arrived.front()} : arrived,
                  network.rings(), kEach),
            "");
  return network.now();
}

// A round trip takes 2 us.
FlowNetworkOptions options_with_late_answers(FlowKind kind) {
  FlowNetworkOptions options = options_of(kind, 3, kind == FlowKind::shuffle ? 1 : 2);
  options.time_out = std::chrono::microseconds(1);
  options.poll_interval = std::chrono::microseconds(1);
  return options;
}
constexpr softnic::nic::Time kLongEnough = 2'000'000;
// Failed: an answer after the time-out only said that the producer lives, so next to nothing moved.
TEST(FlowSilence, AThreadLearnsToWaitForAnswersThatAreLate) {
  for (const FlowKind kind : {FlowKind::shuffle, FlowKind::balance, FlowKind::replicate}) {
    EXPECT_LT(with_late_answers(zero_sided_program(), options_with_late_answers(kind)), kLongEnough);
  }
}
TEST(FlowSilenceSpecimen, AThreadThatNeverLearnsToWaitLongerIsCaught) {
  const auto program =
      switchsync::changed_program("zero_sided.p4", "patience = smaller(patience + 1, MOST_PATIENCE);", "");
  EXPECT_GT(with_late_answers(program, options_with_late_answers(FlowKind::shuffle)), kLongEnough);
}

// Of a switch that has more to do than it can: packets that go round in it have old times. How often it asks a silent
// producer of threads that share it, in eight time-outs after it has asked it eight times: then each takes eight.
std::uint32_t requests_of_a_slow_switch(const std::shared_ptr<const p4::Program>& program) {
  FlowNetworkOptions options = options_of(FlowKind::balance, 2, 3);
  options.poll_interval = std::chrono::microseconds(1);
  FlowNetwork network(program, options);
  network.steps_in_a_row = 3;
  const auto time_out = static_cast<softnic::nic::Time>(std::chrono::nanoseconds(options.time_out).count());
  std::uint32_t asked = 0;
  std::uint32_t counted = 0;
  softnic::nic::Time end = 0;
  network.on_send = [&](std::size_t from, std::size_t to, std::span<const std::byte>) {
    if (to == 0 && ++asked == 8) {
      end = network.now() + 8 * time_out;
    }
    counted += to == 0 && asked > 8 && network.now() < end ? 1U : 0U;
    return from == 0 ? 0 : -1;
  };
  network.run([&] {
    while (network.push(1)) {
    }
    for (std::size_t c = 0; c < network.consumers(); ++c) {
      while (network.pop(c)) {
      }
    }
    return (end != 0 && network.now() > end) || network.now() > kLongest;
  });
  EXPECT_NE(end, 0U);
  return counted;
}
// Failed: the time that had passed was less than nothing, so more than any time-out, and producers that lived were
// given up.
TEST(FlowSilence, ASlowSwitchDoesNotAskASilentProducerMoreOften) {
  EXPECT_LE(requests_of_a_slow_switch(zero_sided_program()), 2U);
}
TEST(FlowSilenceSpecimen, ATimeThatIsLessThanNothingIsCaught) {
  EXPECT_GT(
      requests_of_a_slow_switch(switchsync::changed_program("zero_sided.p4", "if (value[31:28] == 0xf)", "if (false)")),
      2U);
}

// Data that it has not acknowledged goes to others. Failed: its thread kept the producer until it was given up.
// While the head of its last items is not acknowledged nobody knows whose they are, so there the producer waits: with a
// second one the others go on.
TEST(FlowSilence, AConsumerOfABalancedFlowDoesNotHoldAProducerWhoseDataItDoesNotAcknowledge) {
  constexpr std::uint32_t kWanted = 60;
  for (std::uint32_t after = 1; after <= 40; ++after) {
    FlowNetwork network(zero_sided_program(), options_of(FlowKind::balance, 1, 2));
    std::uint32_t acknowledgements = 0;
    bool is_silent = false;
    network.on_send = [&](std::size_t from, std::size_t to, std::span<const std::byte> frame) {
      // Silent as soon as data has come to it: 14 bytes of Ethernet, 20 of IPv4, 8 of UDP, then BTH's opcode.
      constexpr std::size_t kOpcode = 42;
      constexpr auto kWriteOnly = std::byte{0x0a};
      const bool is_data = to == 1 && frame.size() > 200 && frame[kOpcode] == kWriteOnly;
      is_silent = is_silent || (is_data && ++acknowledgements == after);
      return is_silent && from == 1 ? 0 : -1;
    };
    std::vector<std::vector<ItemName>> arrived(2);
    std::uint32_t pushed = 0;
    const auto step = [&] {
      while (pushed < 2 * kWanted && network.push(0)) {
        ++pushed;
      }
      if (pushed == 2 * kWanted) {
        network.producer(0).end();
      }
      for (std::size_t c = 0; c < 2; ++c) {
        while (const auto name = network.pop(c)) {
          arrived[c].push_back(*name);
        }
      }
    };
    std::size_t before = 0;
    network.run([&] {
      step();
      before = is_silent ? before : arrived[1].size();
      return (is_silent && arrived[1].size() >= before + kWanted / 2) || network.now() > kLongest;
    });
    ASSERT_LE(network.now(), kLongest) << "silent after " << after << " packets of data";
    is_silent = false;
    acknowledgements = after;
    network.run([&] {
      step();
      return (network.consumer(0).has_ended() && network.consumer(1).has_ended()) || network.now() > 2 * kLongest;
    });
    ASSERT_EQ(judge(arrived, 1, 2 * kWanted), "") << "silent after " << after << " packets of data";
  }
}

// 14 bytes of Ethernet, 20 of IPv4, 8 of UDP, then BTH's opcode.
bool is_acknowledgement(std::span<const std::byte> frame) { return frame.size() > 42 && frame[42] == std::byte{0x11}; }

// Ring 0 is put aside before it has acknowledged its tail, answers, and is silent once more, about its end: nothing of
// it is owed then. Failed: its thread took it for the one that it remembers, and did not put ring 1 aside.
TEST(FlowSilence, AProducerThatHasAnsweredIsNotRememberedWhenItIsSilentAgain) {
  FlowNetwork network(zero_sided_program(), options_of(FlowKind::shuffle, 3, 1));
  std::uint32_t of_first = 0;  // acknowledgements
  bool is_first_silent = false;
  bool is_second_silent = false;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    if (!is_acknowledgement(frame)) {
      return -1;
    }
    of_first += from == 0 ? 1U : 0U;
    const bool is_lost = (from == 0 && (of_first == 1 || is_first_silent)) || (from == 1 && is_second_silent);
    return is_lost ? 0 : -1;
  };
  std::vector<std::uint32_t> came(3);
  const auto run_until = [&](const std::function<bool()>& done) {
    network.run([&] {
      while (const auto name = network.pop(0)) {
        ++came.at(name->producer);
      }
      return done() || network.now() > kLongest;
    });
    ASSERT_LE(network.now(), kLongest);
  };
  ASSERT_TRUE(network.push(0));
  ASSERT_NO_FATAL_FAILURE(run_until([&] { return of_first == 2; }));
  is_first_silent = true;
  network.producer(0).end();
  ASSERT_NO_FATAL_FAILURE(run_until([&] { return network.producer(0).is_drained(); }));
  is_second_silent = true;
  ASSERT_TRUE(network.push(1));
  ASSERT_NO_FATAL_FAILURE(run_until([&] { return came[1] == 1; }));
  ASSERT_TRUE(network.push(2));
  ASSERT_NO_FATAL_FAILURE(run_until([&] { return came[2] == 1; }));
}

// ---- Consumers that acknowledge all but data: their path drops what is longer than a head with its journal.

constexpr std::size_t kLongFrame = 100;
FlowNetworkOptions options_behind_a_narrow_path() {
  FlowNetworkOptions options = options_of(FlowKind::balance, 1, 2);
  options.most_retries = 3;
  return options;
}

// Failed: its thread took each batch for three time-outs in vain, and never gave it up.
TEST(FlowSilence, AConsumerOfABalancedFlowThatAcknowledgesNoDataIsGivenUp) {
  FlowNetwork network(zero_sided_program(), options_behind_a_narrow_path());
  network.on_send = [&](std::size_t, std::size_t to, std::span<const std::byte> frame) {
    return to == network.host_of_consumer(0) && frame.size() > kLongFrame ? 0 : -1;
  };
  std::vector<ItemName> arrived;
  std::uint32_t pushed = 0;
  bool has_enough = false;
  const auto step = [&] {
    while (!has_enough && network.push(0)) {
      ++pushed;
    }
    while (const auto name = network.pop(1)) {
      arrived.push_back(*name);
    }
  };
  network.run([&] {
    step();
    return network.state().lost_consumers[0] || network.now() > kLongest;
  });
  EXPECT_EQ(network.state().lost_consumers, (std::vector<bool>{true, false}));
  has_enough = true;
  network.producer(0).end();
  network.run([&] {
    step();
    return network.consumer(1).has_ended() || network.now() > 2 * kLongest;
  });
  EXPECT_TRUE(network.consumer(1).has_ended());
  EXPECT_EQ(judge({arrived}, 1, pushed), "");  // none of them was the other one's
}

// Failed: nothing moved, for ever, and nobody was told.
TEST(FlowSilence, ABalancedFlowWhoseConsumersAcknowledgeNoDataIsBroken) {
  FlowNetwork network(zero_sided_program(), options_behind_a_narrow_path());
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    return from == FlowNetwork::kSwitch && frame.size() > kLongFrame ? 0 : -1;
  };
  bool is_told = false;
  network.run([&] {
    try {
      while (network.push(0)) {
      }
    } catch (const FlowBroken&) {
      is_told = true;
    }
    return is_told || network.now() > kLongest;
  });
  EXPECT_TRUE(is_told);
  EXPECT_EQ(network.state().lost_consumers, (std::vector<bool>{true, true}));
}

// ---- The registers of the program, as a rare history leaves them.

p4::RegisterState& reg(FlowNetwork& network, const std::string& name) {
  return network.device().state().reg("Move." + name);
}
constexpr std::uint32_t kIdlePhase = 1;
constexpr std::uint32_t kSeekPhase = 4;
constexpr std::uint32_t kTailWritten = 0x4000'0000;  // of `pendings`

// As after empty WRITEs to a silent consumer that took 40 minutes: meanwhile the other thread has asked for the
// producer, and now it gets it. Failed: the batch had begun so long ago that on a clock of 32 bits it seemed to be to
// come, and the thread that gives stayed idle for half an hour.
TEST(FlowSilence, AThreadThatGivesAProducerAfterALongTimeGoesOn) {
  FlowNetworkOptions options = options_of(FlowKind::balance, 1, 2);
  options.poll_interval = std::chrono::microseconds(50);
  FlowNetwork network(zero_sided_program(), options);
  network.run([&] {
    while (network.push(0)) {
    }
    const bool are_full = network.head_of(0) == 4 && network.head_of(1) == 4;
    const bool are_idle = reg(network, "phases").read(0) == kIdlePhase && reg(network, "phases").read(1) == kIdlePhase;
    return (are_full && are_idle && network.travelling() == 0) || network.now() > kLongest;
  });
  ASSERT_LE(network.now(), kLongest);
  constexpr std::uint32_t kFortyMinutes = 40U * 60 * 1'000'000;
  reg(network, "phases").write(0, kSeekPhase);
  reg(network, "misses").write(0, 0);
  reg(network, "begun").write(0, static_cast<std::uint32_t>(network.now() / 1000) - kFortyMinutes);
  reg(network, "locks").write(0, 2U << 16);  // thread 1 asks
  while (network.pop(0)) {
  }
  network.run([&] { return network.head_of(0) == 8 || network.now() > 2 * kLongest; });
  EXPECT_EQ(network.head_of(0), 8U);
}

// Thread 1 had put ring 0 aside, and it answered; then thread 0 put it aside, left, and it is silent since. Failed:
// thread 1 took it for one that it remembers, and did not put ring 1 aside.
TEST(FlowSilence, AThreadDoesNotRememberWhatAnotherOneHasPutAside) {
  FlowNetwork network(zero_sided_program(), options_of(FlowKind::balance, 3, 2));
  reg(network, "owing").write(1, 1);
  reg(network, "owing_names").write(1, 1);
  reg(network, "waits").write(0, 1);
  reg(network, "asked").write(0, static_cast<std::uint32_t>(network.now() / 1000));
  reg(network, "pendings").write(0, kTailWritten | 1U);
  network.control().leave_consumer(network.flow(), 0);
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    return from == 0 || (from == 1 && is_acknowledgement(frame)) ? 0 : -1;
  };
  std::vector<std::uint32_t> came(3);
  ASSERT_TRUE(network.push(1));
  ASSERT_TRUE(network.push(2));
  network.run([&] {
    while (const auto name = network.pop(1)) {
      ++came.at(name->producer);
    }
    return came[2] == 1 || network.now() > kLongest;
  });
  EXPECT_LE(network.now(), kLongest);
  EXPECT_EQ(came, (std::vector<std::uint32_t>{0, 1, 1}));
}

// ---- Another switch takes over while one is silent, which is heard again then.

std::string with_a_second_switch(const std::shared_ptr<const p4::Program>& program, const FlowNetworkOptions& options,
                                 std::uint32_t next_after) {
  for (std::uint32_t after = 1; after <= kMostFrames; ++after) {
    for (const std::uint64_t later : {20U, 40U, 150U}) {
      const Silence silence{
          .host = 0, .what = Lost::everything, .after = after, .next_after = next_after, .takes_over_after = later};
      const Moved moved = move(options, silence, program);
      if (!moved.wrong.empty()) {
        return std::to_string(after) + ", " + std::to_string(later) + ": " + moved.wrong;
      }
    }
  }
  return {};
}

TEST(FlowSilence, ASecondSwitchKnowsWhatASilentProducerHasNotAcknowledged) {
  for (const FlowNetworkOptions& options : {options_of(FlowKind::shuffle, 3, 1), options_of(FlowKind::balance, 3, 2),
                                            options_of(FlowKind::replicate, 3, 2)}) {
    for (std::uint32_t next_after = 0; next_after <= 8; ++next_after) {
      EXPECT_EQ(with_a_second_switch(zero_sided_program(), options, next_after), "") << next_after;
    }
  }
}
TEST(FlowSilenceSpecimen, AJournalOfTheLastProducerAloneIsCaught) {
  const auto program = switchsync::changed_program("zero_sided.p4", "h.journal.silent = owing_name;", "");
  EXPECT_NE(with_a_second_switch(program, options_of(FlowKind::shuffle, 3, 1), 0), "");
}
TEST(FlowSilenceSpecimen, AThreadThatForgetsOneWhenAnotherIsSilentIsCaught) {
  // Two are silent, one after the other, before they have acknowledged their tails.
  const auto program = switchsync::changed_program("zero_sided.p4", "(!is_owing || batch == 0 && owes == 0)", "true");
  std::string wrong;
  for (std::uint32_t next_after = 1; next_after <= 8 && wrong.empty(); ++next_after) {
    wrong = with_a_second_switch(program, options_of(FlowKind::shuffle, 3, 1), next_after);
  }
  EXPECT_NE(wrong, "");
}

}  // namespace silences
}  // namespace
}  // namespace sidelatch::flows
