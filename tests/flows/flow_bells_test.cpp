// Units that ring: an idle flow wakes at once, whatever becomes of the bells.
#include "flow_network.h"

#include "tests/sampled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace bells {

// How long an item takes that comes when all have been popped long ago; the longest of some.
softnic::nic::Time longest_wait(FlowNetwork& network) {
  softnic::nic::Time longest = 0;
  for (int i = 0; i < 20; ++i) {
    const softnic::nic::Time quiet = network.now() + 50'000;
    network.run([&] {
      network.count_bells();
      return network.travelling() == 0 && (i != 0 || network.now() < quiet);
    });
    const softnic::nic::Time pushed = network.now();
    for (std::size_t ring = 0; ring < network.rings(); ++ring) {
      EXPECT_TRUE(network.push(ring));
    }
    std::size_t wanted = network.rings() * (network.options().kind == FlowKind::replicate ? network.consumers() : 1);
    network.run([&] {
      network.count_bells();
      for (std::size_t c = 0; c < network.consumers(); ++c) {
        while (wanted != 0 && network.pop(c)) {
          --wanted;
        }
      }
      return wanted == 0 || network.now() > pushed + 2 * kRarePoll;
    });
    longest = std::max(longest, network.now() - pushed);
  }
  return longest;
}

struct Shape {
  FlowKind kind;
  std::size_t producers;
  std::size_t consumers;
};
constexpr std::array kShapes{Shape{FlowKind::shuffle, 1, 1}, Shape{FlowKind::shuffle, 2, 2},
                             Shape{FlowKind::balance, 2, 2}, Shape{FlowKind::replicate, 2, 2}};

TEST(FlowBells, WakeAnIdleFlowAtOnce) {
  for (const Shape& shape : kShapes) {
    FlowNetwork network(zero_sided_program(), ringing(shape.kind, shape.producers, shape.consumers));
    EXPECT_LT(longest_wait(network), kRarePoll / 10) << static_cast<int>(shape.kind);
    EXPECT_GT(network.bells(), 0U);
  }
  // Without them it is a poll that does.
  FlowNetworkOptions silent = ringing(FlowKind::shuffle, 1, 1);
  silent.rings = false;
  FlowNetwork network(zero_sided_program(), silent);
  EXPECT_GT(longest_wait(network), kRarePoll / 10);
}

// The consumer stops until its ring and the producer's are full. When it goes on, its bell wakes the flow, and all
// items come without a poll.
TEST(FlowBells, AConsumerThatHasRoomAgainWakesTheFlow) {
  FlowNetwork network(zero_sided_program(), ringing(FlowKind::shuffle, 1, 1));
  constexpr std::uint32_t kItems = 100;
  std::uint32_t popped = 0;
  std::uint32_t pushed = 0;
  network.run([&] {
    pushed += pushed < kItems && network.push(0) ? 1U : 0U;
    return pushed == 8 && network.travelling() == 0;
  });
  const softnic::nic::Time begun = network.now();
  network.run([&] {
    network.count_bells();
    while (network.pop(0)) {
      ++popped;
    }
    while (pushed < kItems && network.push(0)) {
      ++pushed;
    }
    return popped == kItems || network.now() > begun + kRarePoll;
  });
  EXPECT_EQ(popped, kItems);
  EXPECT_LT(network.now(), begun + kRarePoll);
}

// A bell that gets lost is repeated by the unit's NIC, and one that comes twice wakes nobody twice.
TEST(FlowBells, NothingIsLostOrRepeatedOnABadNetwork) {
  for (const Shape& shape : kShapes) {
    for (std::uint64_t seed = 1; seed <= (is_sampled() ? 1U : 3U); ++seed) {
      FlowNetworkOptions options = ringing(shape.kind, shape.producers, shape.consumers);
      options.poll_interval = std::chrono::microseconds(300);
      options.faults = {.drop = 0.03, .duplicate = 0.03, .reorder = 0.1};
      options.seed = seed;
      FlowNetwork network(zero_sided_program(), options);
      const auto arrived = network.move(100);
      EXPECT_GT(network.bells(), 0U);
      if (shape.kind == FlowKind::replicate) {
        EXPECT_EQ(judge({arrived[0]}, network.rings(), 100), "");
        EXPECT_EQ(arrived[0], arrived[1]);
      } else {
        EXPECT_EQ(judge(arrived, network.rings(), 100), "");
      }
    }
  }
}

TEST(FlowBells, MayBeRungAtAnyTime) {
  FlowNetworkOptions options = ringing(FlowKind::balance, 2, 2);
  options.poll_interval = std::chrono::microseconds(5);
  FlowNetwork network(zero_sided_program(), options);
  std::uint64_t frames = 0;
  network.on_send = [&](std::size_t, std::size_t, std::span<const std::byte>) {
    if (++frames % 7 == 0) {
      network.ring_of_producer(frames % 2);
      network.ring_of_consumer(frames / 7 % 2);
    }
    return -1;
  };
  const auto arrived = network.move(300);
  EXPECT_EQ(judge(arrived, 2, 300), "");
  EXPECT_GT(network.bells(), 100U);
}

// ---- What nobody rings for.

// Failed: the packet that asks it again was the only one of the thread, and the other's item waited for a poll.
TEST(FlowBells, ASilentProducerThatIsAskedAgainDoesNotHoldTheOthers) {
  FlowNetwork network(zero_sided_program(), ringing(FlowKind::shuffle, 2, 1));
  network.on_send = [](std::size_t from, std::size_t, std::span<const std::byte>) { return from == 0 ? 0 : -1; };
  pass(network, 2 * kRarePoll + kRarePoll / 2);  // the first poll asks it, and at the second one it is put aside
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(network.push(1));
    expect_soon(network, pops(network, 0, 1));
    pass(network, kRarePoll / 10);
  }
}

// The first one lasts to the next poll. Failed: so did all.
TEST(FlowBells, PausesAfterCongestionAreNotAsLongAsPolls) {
  FlowNetwork network(zero_sided_program(), ringing(FlowKind::shuffle, 1, 1));
  constexpr std::uint32_t kItems = 40;  // ten batches at least
  constexpr std::uint64_t kSlowness = 8;
  std::uint32_t pushed = 0;
  const auto are_there = pops(network, 0, kItems);
  network.run([&] {
    network.device().state().reg("Move.slownesses").write(0, kSlowness);
    while (pushed < kItems && network.push(0)) {
      ++pushed;
    }
    return are_there() || network.now() > 20 * kRarePoll;
  });
  EXPECT_LT(network.now(), 2 * kRarePoll);
}

FlowNetworkOptions open_and_ringing(FlowKind kind) {
  FlowNetworkOptions options = ringing(kind, 1, 1);
  options.is_open = true;
  options.time_out = std::chrono::microseconds(20);
  options.most_retries = 2;
  return options;
}

// Failed: each of them waited for a poll.
TEST(FlowBells, AConsumerThatJoinsGetsAtOnceWhatHasWaitedForIt) {
  FlowNetwork network(zero_sided_program(), open_and_ringing(FlowKind::balance));
  pass(network, kRarePoll + kRarePoll / 2);
  network.control().leave_consumer(network.flow(), 0);
  expect_soon(network, [&] { return network.consumer(0).has_ended(); });
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(network.push(0));
  }
  pass(network, kRarePoll / 10);
  const std::size_t joined = network.join_consumer(0);
  expect_soon(network, pops(network, joined, 4));
}
TEST(FlowBells, AFlowThatIsClosedEndsAtOnce) {
  FlowNetwork network(zero_sided_program(), open_and_ringing(FlowKind::replicate));
  network.producer(0).end();
  network.ring_of_producer(0);
  network.run([&] { return network.producer(0).is_drained() || network.now() > 2 * kRarePoll; });
  pass(network, kRarePoll + kRarePoll / 2);
  network.control().close(network.flow());
  expect_soon(network, [&] { return network.consumer(0).has_ended(); });
}
TEST(FlowBells, AProducerThatComesBackIsReadAtOnce) {
  FlowNetwork network(zero_sided_program(), open_and_ringing(FlowKind::shuffle));
  bool is_cut = true;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    return is_cut && from == 0 ? 0 : -1;
  };
  ASSERT_TRUE(network.push(0));
  network.run([&] { return network.state().lost_producers[0] || network.now() > 10 * kRarePoll; });
  pass(network, kRarePoll / 5);
  is_cut = false;
  network.rejoin_producer(0);
  expect_soon(network, pops(network, 0, 1));
}
TEST(FlowBells, AProducerThatJoinsIsReadAtOnce) {
  FlowNetworkOptions options = open_and_ringing(FlowKind::shuffle);
  options.rings = false;
  FlowNetwork network(zero_sided_program(), options);
  const std::size_t joined = network.join_producer(0);
  ASSERT_TRUE(network.push(joined));
  expect_soon(network, pops(network, 0, 1));
}
TEST(FlowBells, ASecondSwitchGoesOnAtOnce) {
  FlowNetwork network(zero_sided_program(), ringing(FlowKind::shuffle, 1, 1));
  bool is_cut = true;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    return is_cut && from == 0 ? 0 : -1;
  };
  ASSERT_TRUE(network.push(0));
  pass(network, kRarePoll / 5);
  is_cut = false;
  network.fail_over();
  expect_soon(network, pops(network, 0, 1));
}

// ---- Two consumers that share. Batches of two items: the producer's ring is never empty, so it rings no more.

constexpr std::uint32_t kShared = 40;  // items
FlowNetworkOptions shared_and_ringing() {
  FlowNetworkOptions options = ringing(FlowKind::balance, 1, 2);
  options.batch_bytes = 600;
  return options;
}
// Pushes kShared items as there is room, and pops so many from this consumer.
std::function<bool()> pushes_and_pops(FlowNetwork& network, std::size_t consumer, std::uint32_t wanted) {
  return [&network, are_there = pops(network, consumer, wanted), pushed = std::uint32_t{0}]() mutable {
    while (pushed < kShared && network.push(0)) {
      ++pushed;
    }
    return are_there();
  };
}
// The producer has rung, and thread 0 has its lock; then thread 1 asks for it.
void let_thread_1_ask(FlowNetwork& network, const std::function<bool()>& step) {
  const auto read = [&](const char* name) {
    return static_cast<std::uint32_t>(network.device().state().reg(std::string("Move.") + name).read(0));
  };
  network.run([&] {
    static_cast<void>(step());
    return (read("locks") & 0xffffU) == 1 || network.now() > kRarePoll;
  });
  network.ring_of_consumer(1);
  network.run([&] {
    static_cast<void>(step());
    return read("locks") >> 16 == 2 || network.now() > kRarePoll;
  });
  ASSERT_LT(network.now(), kRarePoll / 10);
  ASSERT_EQ(read("locks"), 2U << 16 | 1U);
}

// Failed: the bells went to the thread of consumer 0, which never pops, and the other thread slept.
TEST(FlowBells, AThreadWhoseConsumerIsFullCallsAnotherOne) {
  FlowNetwork network(zero_sided_program(), shared_and_ringing());
  expect_soon(network, pushes_and_pops(network, 1, kShared - 4));
}
// A call passes each thread whose consumer is full, too: where polls come soon enough there is none.
TEST(FlowBells, WherePollsComeSoonNoThreadCallsAnotherOne) {
  FlowNetworkOptions options = shared_and_ringing();
  options.time_out = std::chrono::microseconds(2 * kRarePoll / 1000);
  FlowNetwork network(zero_sided_program(), options);
  const auto step = pushes_and_pops(network, 1, kShared - 4);
  network.run([&] { return step() || network.now() > kRarePoll / 2; });
  EXPECT_EQ(network.state().delivered[1], 0U);
  network.run([&] { return step() || network.now() > 40 * kRarePoll; });
  EXPECT_LT(network.now(), 40 * kRarePoll);
}
// Failed: thread 0 slept after it had given the producer to the one that filled its consumer's ring.
TEST(FlowBells, AThreadThatHasGivenItsProducerIsCalledWhenTheOtherOneIsFull) {
  FlowNetwork network(zero_sided_program(), shared_and_ringing());
  const auto step = pushes_and_pops(network, 0, kShared - 4);
  ASSERT_NO_FATAL_FAILURE(let_thread_1_ask(network, step));
  expect_soon(network, step);
}
// Failed: thread 0 gave the producer to one that had left, and slept.
TEST(FlowBells, AThreadThatHasGivenItsProducerIsCalledWhenTheOtherOneHasLeft) {
  FlowNetwork network(zero_sided_program(), shared_and_ringing());
  const auto step = pushes_and_pops(network, 0, kShared);
  ASSERT_NO_FATAL_FAILURE(let_thread_1_ask(network, step));
  network.control().leave_consumer(network.flow(), 1);
  expect_soon(network, step);
}
// Thread 1 waits for its consumer's tail, or for the last data of one that has died, when it is given the producer.
// Failed: it did not hear of it, and both slept.
TEST(FlowBells, AThreadThatIsBusyWhenItIsGivenAProducerHearsOfItAndCallsAnotherOne) {
  constexpr std::uint64_t kTailPhase = 9;
  constexpr std::uint64_t kDrainPhase = 12;
  constexpr std::uint64_t kRung = 16;
  for (const std::uint64_t phase : {kTailPhase, kDrainPhase}) {
    FlowNetwork network(zero_sided_program(), shared_and_ringing());
    const auto reg = [&](const char* name) -> p4::RegisterState& {
      return network.device().state().reg(std::string("Move.") + name);
    };
    const auto step = pushes_and_pops(network, 0, kShared);
    ASSERT_NO_FATAL_FAILURE(let_thread_1_ask(network, step));
    reg("phases").write(1, phase);
    reg("sent").write(1, network.now() / 1000);
    expect_soon(network, step);
    EXPECT_EQ(reg("phases").read(1), phase);
    EXPECT_NE(static_cast<std::uint64_t>(reg("marks").read(1)) & kRung, 0U);
  }
}
// Failed: nobody moved anything before the pause ended, or a poll came.
TEST(FlowBells, AThreadThatPausesAfterCongestionCallsAnotherOne) {
  constexpr std::uint64_t kSlowest = 28;
  FlowNetwork network(zero_sided_program(), shared_and_ringing());
  network.device().state().reg("Move.slownesses").write(0, kSlowest);
  expect_soon(network, pushes_and_pops(network, 1, kShared - 4));
  EXPECT_LE(network.state().delivered[0], 4U);
}
// Consumer 0 pops and rings while the answer is on its way that it is full, and thread 1 asks for the producer. Failed:
// thread 0 had heard the bell, gave the producer away, and slept.
TEST(FlowBells, ABellThatOvertakesTheTailOfAFullRingIsNotForgotten) {
  constexpr std::uint32_t kTailPhase = 9;
  constexpr std::uint32_t kRung = 16;
  FlowNetwork network(zero_sided_program(), shared_and_ringing());
  const auto reg = [&](const char* name) -> p4::RegisterState& {
    return network.device().state().reg(std::string("Move.") + name);
  };
  std::uint32_t pushed = 0;
  const auto run_until = [&](const std::function<bool()>& done) {
    expect_soon(network, [&] {
      while (pushed < kShared && network.push(0)) {
        ++pushed;
      }
      return done();
    });
  };
  run_until([&] { return network.head_of(0) == 4; });
  network.ring_of_consumer(1);
  run_until([&] { return network.head_of(1) == 4; });
  pass(network, kRarePoll / 10);
  bool has_answered = false;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    has_answered = has_answered || (from == network.host_of_consumer(0) && reg("phases").read(0) == kTailPhase);
    return -1;
  };
  network.ring_of_consumer(0);
  run_until([&] { return has_answered; });
  std::vector<std::byte> item(network.options().consumer_shape.item_bytes);
  while (network.consumer(0).try_pop(item) == Consumer::Popped::item) {
  }
  reg("marks").write(0, reg("marks").read(0) | kRung);
  reg("locks").write(0, 2U << 16 | 1U);
  run_until([&] { return network.head_of(0) == 8; });
}

// ---- A thread lets its producer go. Thread 1 has asked for it at its own poll, and its next one is far away; the
// timer of thread 0, which had asked for something by then, fires each time-out.

constexpr std::uint64_t kTail = 9;  // phases
constexpr std::uint64_t kDrain = 12;
constexpr softnic::nic::Time kBeforePoll = kRarePoll - 60'000;
std::uint64_t read_first(FlowNetwork& network, const char* name) {
  return static_cast<std::uint64_t>(network.device().state().reg(std::string("Move.") + name).read(0));
}
void expect_after_poll(FlowNetwork& network, const std::function<bool()>& done) {
  network.run([&] { return done() || network.now() > kRarePoll + kRarePoll / 2; });
  EXPECT_LT(network.now(), kRarePoll + kRarePoll / 10);
}

// Failed, all three: thread 1 slept until its next poll.
TEST(FlowBells, AProducerIsTakenUpWhenAConsumerDoesNotSayWhetherItHasRoom) {
  FlowNetwork network(zero_sided_program(), shared_and_ringing());
  network.pass_time(kBeforePoll);
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    return from == network.host_of_consumer(0) && read_first(network, "phases") == kTail ? 0 : -1;
  };
  expect_after_poll(network, pushes_and_pops(network, 1, kShared - 4));
}
TEST(FlowBells, AProducerIsTakenUpWhenAConsumerDoesNotAcknowledgeItsData) {
  FlowNetwork network(zero_sided_program(), shared_and_ringing());
  network.pass_time(kBeforePoll);
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    return from == network.host_of_consumer(0) ? 0 : -1;
  };
  expect_after_poll(network, pushes_and_pops(network, 1, kShared));
}
// The last packet of its items is what the thread of the dead one has waited for.
TEST(FlowBells, AProducerIsTakenUpWhenTheLastDataForADeadConsumerHasCome) {
  constexpr std::size_t kOpcodeAt = 14 + 20 + 8;  // Ethernet, IPv4, UDP
  constexpr std::byte kReadResponseLast{0x0f};
  FlowNetwork network(zero_sided_program(), shared_and_ringing());
  softnic::nic::Host& refuser = network.host(network.host_of_consumer(0));
  refuser.nic.deregister_memory(refuser.key);
  network.pass_time(kBeforePoll);
  std::vector<std::byte> held;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    if (from != 0 || !held.empty() || frame[kOpcodeAt] != kReadResponseLast) {
      return -1;
    }
    held.assign(frame.begin(), frame.end());
    return 0;
  };
  const auto step = pushes_and_pops(network, 1, kShared);
  network.run([&] {
    static_cast<void>(step());
    return read_first(network, "locks") == (2U << 16 | 1U) || network.now() > 2 * kRarePoll;
  });
  ASSERT_EQ(read_first(network, "phases"), kDrain);
  ASSERT_FALSE(held.empty());
  static_cast<void>(network.exchange(0, held));
  expect_after_poll(network, step);
}

// The rate that was set is kept.
TEST(FlowBells, DoNotMakeALimitedFlowFaster) {
  FlowNetworkOptions options = ringing(FlowKind::shuffle, 1, 1);
  options.poll_interval = std::chrono::microseconds(5);
  options.batch_bytes = 300;
  FlowNetwork network(zero_sided_program(), options);
  network.control().limit_rate(network.flow(), 3'000'000);  // an item each 100 us
  const softnic::nic::Time begun = network.now();
  EXPECT_EQ(judge(network.move(50), 1, 50), "");
  EXPECT_GT(network.now() - begun, 45U * 100'000U);
}

}  // namespace bells
}  // namespace
}  // namespace sidelatch::flows
