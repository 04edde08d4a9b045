// Units that live and are cut off for too long, that refuse, that leave early, and that begin anew.
#include "flow_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace cuts {

constexpr softnic::nic::Time kLongest = 50'000'000;  // virtual

FlowNetworkOptions impatient(FlowNetworkOptions options) {
  options.time_out = std::chrono::microseconds(20);
  options.most_retries = 3;
  return options;
}

// ---- A consumer of a replicated flow that is given up, and lives.

// Cut off when `items` items have been delivered; then three rings of items pass through the others.
void expect_its_ring_to_stand_still(const std::function<void(FlowNetwork&)>& cut,
                                    const std::function<void(FlowNetwork&)>& mend, std::uint32_t items) {
  const RingShape shape{.slots = 4, .item_bytes = 600};
  FlowNetwork network(
      zero_sided_program(),
      impatient({.consumers = 2, .kind = FlowKind::replicate, .producer_shape = shape, .consumer_shape = shape}));
  std::uint32_t popped = 0;
  bool is_cut = false;
  const auto pop_until = [&](std::uint32_t wanted) {
    network.run([&] {
      if (popped >= items && !is_cut) {
        is_cut = true;
        cut(network);
      }
      while (network.push(0)) {
      }
      while (network.pop(0)) {
        ++popped;
      }
      return popped >= wanted || network.now() > kLongest;
    });
  };
  pop_until(items + 3 * shape.slots);
  EXPECT_TRUE(network.state().is_broken);
  mend(network);
  pop_until(popped + 3 * shape.slots);
  EXPECT_LT(network.now(), kLongest);
  std::uint32_t number = 0;
  while (const auto name = network.pop(1)) {
    EXPECT_EQ(name->number, number++);
  }
  EXPECT_LE(number, shape.slots);
}

// Failed: it went on to get copies, over items that it had not popped.
TEST(FlowCuts, AConsumerWhoseAnswersAreLostKeepsWhatItHas) {
  for (std::uint32_t items = 0; items <= 4; ++items) {
    bool is_cut = false;
    expect_its_ring_to_stand_still(
        [&](FlowNetwork& network) {
          is_cut = true;
          network.on_send = [&, silent = network.host_of_consumer(1)](std::size_t from, std::size_t,
                                                                      std::span<const std::byte>) {
            return is_cut && from == silent ? 0 : -1;
          };
        },
        [&](FlowNetwork&) { is_cut = false; }, items);
  }
}

TEST(FlowCuts, AConsumerWhosePortIsPausedKeepsWhatItHas) {
  for (std::uint32_t items = 0; items <= 4; ++items) {
    expect_its_ring_to_stand_still([](FlowNetwork& network) { network.device().set_paused(2, true); },
                                   [](FlowNetwork& network) { network.device().set_paused(2, false); }, items);
  }
}

// ---- A consumer that refuses.

// Its producer's NIC answers one READ at a time. Failed: the next READ came while that one was being answered, and the
// NIC gave the connection up.
TEST(FlowCuts, AConsumerThatRefusesDoesNotHarmAProducer) {
  const RingShape shape{.slots = 8, .item_bytes = 8192};
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    FlowNetwork network(zero_sided_program(), {.consumers = 2,
                                               .kind = FlowKind::balance,
                                               .producer_shape = shape,
                                               .consumer_shape = shape,
                                               .dest_rd_atomic = 1,
                                               .seed = seed,
                                               .defers = true});
    softnic::nic::Host& refuser = network.host(network.host_of_consumer(0));
    refuser.nic.deregister_memory(refuser.key);
    std::uint32_t pushed = 0;
    std::vector<ItemName> arrived;
    network.run([&] {
      while (pushed < 16 && network.push(0)) {
        ++pushed;
      }
      if (pushed == 16) {
        network.producer(0).end();
      }
      while (const auto name = network.pop(1)) {
        arrived.push_back(*name);
      }
      return network.consumer(1).has_ended() || network.now() > kLongest;
    });
    EXPECT_LT(network.now(), kLongest);
    EXPECT_TRUE(network.producer(0).is_drained());
    EXPECT_EQ(judge({arrived}, 1, 16), "");  // what was refused was no item of that consumer
  }
}

// ---- A consumer that is silent when asked for its tail.

// Failed: its thread kept the producer for itself until it was given up.
TEST(FlowCuts, AConsumerThatIsSilentDoesNotHoldItsProducer) {
  FlowNetwork network(zero_sided_program(), {.consumers = 2,
                                             .kind = FlowKind::balance,
                                             .producer_shape = {.slots = 8, .item_bytes = 100},
                                             .consumer_shape = {.slots = 4, .item_bytes = 100}});
  network.run([&] {
    while (network.push(0)) {
    }
    return network.head_of(0) == 4 && network.head_of(1) == 4;  // both are full
  });
  while (network.pop(0)) {  // there would be room, if it could be asked
  }
  bool is_cut = true;
  bool is_asked = false;  // it is its thread's turn
  network.on_send = [&, silent = network.host_of_consumer(0)](std::size_t from, std::size_t to,
                                                              std::span<const std::byte>) {
    is_asked = is_asked || to == silent;
    return is_cut && from == silent ? 0 : -1;
  };
  std::uint32_t popped = 0;
  const auto pop_40 = [&] {
    network.run([&] {
      while (network.push(0)) {
      }
      popped += is_asked && network.pop(1) ? 1U : 0U;
      return popped == 40 || network.now() > kLongest;
    });
  };
  pop_40();
  EXPECT_EQ(popped, 40U);
  is_cut = false;
  network.run([&] { return network.pop(0).has_value() || network.now() > kLongest; });
  EXPECT_LT(network.now(), kLongest);
}

// ---- A unit that leaves as soon as it may. Failed: the flow was broken, although all had been delivered.

std::uint32_t counter_of(FlowNetwork& network, std::size_t host, std::uint64_t offset) {
  std::uint32_t value = 0;
  std::memcpy(&value, network.host(host).at(offset), sizeof value);
  return value;
}

class FlowLeavers : public testing::TestWithParam<FlowKind> {};

TEST_P(FlowLeavers, AProducerThatIsDrainedMayLeave) {
  FlowNetwork network(zero_sided_program(), impatient({.producers = 2, .consumers = 2, .kind = GetParam()}));
  const std::size_t rings = network.rings();
  std::vector<bool> has_left(rings);
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    // The last acknowledgement of each is lost.
    const bool is_over = from < 2 && (counter_of(network, from, RingShape::tail_offset()) & kEnded) != 0;
    return is_over ? 0 : -1;
  };
  for (std::size_t i = 0; i < rings; ++i) {
    ASSERT_TRUE(network.push(i));
    network.producer(i).end();
  }
  std::vector<std::uint32_t> popped(2);
  network.run([&] {
    for (std::size_t i = 0; i < rings; ++i) {
      if (!has_left[i] && network.producer(i).is_drained()) {
        has_left[i] = true;
        network.kill_ring(i);
      }
    }
    for (std::size_t c = 0; c < 2; ++c) {
      popped[c] += network.pop(c) ? 1U : 0U;
    }
    return (network.consumer(0).has_ended() && network.consumer(1).has_ended()) || network.now() > kLongest;
  });
  EXPECT_LT(network.now(), kLongest);
  EXPECT_FALSE(network.state().is_broken);
  EXPECT_EQ(popped[0] + popped[1], GetParam() == FlowKind::balance ? 2U : 4U);
}

TEST_P(FlowLeavers, AConsumerThatHasSeenTheEndMayLeave) {
  FlowNetwork network(zero_sided_program(), impatient({.producers = 2, .consumers = 2, .kind = GetParam()}));
  std::vector<bool> has_left(2);
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    const bool is_over =
        (from == 2 || from == 3) && (counter_of(network, from, RingShape::head_offset()) & kEnded) != 0;
    return is_over ? 0 : -1;
  };
  for (std::size_t i = 0; i < network.rings(); ++i) {
    ASSERT_TRUE(network.push(i));
    network.producer(i).end();
  }
  network.run([&] {
    for (std::size_t c = 0; c < 2; ++c) {
      while (network.pop(c)) {
      }
      if (!has_left[c] && network.consumer(c).has_ended()) {
        has_left[c] = true;
        network.kill_consumer(c);
      }
    }
    return network.state().has_ended || network.now() > kLongest;
  });
  EXPECT_TRUE(network.state().has_ended);
  EXPECT_FALSE(network.state().is_broken);
  for (std::size_t i = 0; i < network.rings(); ++i) {
    EXPECT_TRUE(network.producer(i).is_drained());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FlowLeavers,
                         testing::Values(FlowKind::shuffle, FlowKind::balance, FlowKind::replicate));

// ---- A flow in the place of another one.

// Failed: copies that waited at a port were rewritten for the later flow's consumers as they left.
TEST(FlowCuts, WhatAStoppedFlowHasSentIsNotTakenForTheNextOnes) {
  for (int frames = 1; frames < 60; ++frames) {
    FlowNetwork network(zero_sided_program(), {.consumers = 2,
                                               .kind = FlowKind::replicate,
                                               .producer_shape = {.slots = 4, .item_bytes = 600},
                                               .consumer_shape = {.slots = 4, .item_bytes = 600},
                                               .first_psn = 0x2b3c4d});
    int seen = 0;
    network.on_send = [&](std::size_t, std::size_t, std::span<const std::byte>) {
      ++seen;
      return -1;
    };
    // Items of the first flow have other bytes: those of a ring 1.
    network.run([&] {
      while (network.producer(0).try_push(network.item({1, 77}))) {
      }
      if (seen > frames / 2) {
        network.device().set_paused(2, true);
      }
      return seen > frames;
    });
    network.start_anew();
    network.device().set_paused(2, false);
    const auto arrived = network.move(6);
    for (const auto& one : arrived) {
      ASSERT_EQ(judge({one}, 1, 6), "") << "after " << frames << " frames";
    }
  }
}

}  // namespace cuts
}  // namespace
}  // namespace sidelatch::flows
