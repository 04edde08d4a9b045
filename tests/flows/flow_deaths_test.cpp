// Units that die or refuse: the others go on or get an error, and nothing comes twice.
#include "flow_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace deaths {

constexpr std::uint32_t kItems = 6;
constexpr softnic::nic::Time kTooLate = 20'000'000;  // virtual

FlowNetworkOptions mortal(FlowNetworkOptions options) {
  options.producer_shape = {.slots = 4, .item_bytes = 600};
  options.consumer_shape = {.slots = 4, .item_bytes = 600};
  options.time_out = std::chrono::microseconds(20);
  options.most_retries = 3;
  return options;
}

// Runs the flow and calls `die` when `after` frames have been sent.
std::vector<std::vector<ItemName>> move_until(FlowNetwork& network, std::uint64_t after,
                                              const std::function<void()>& die, std::uint64_t& frames) {
  frames = 0;
  bool is_dead = false;
  network.on_send = [&](std::size_t, std::size_t, std::span<const std::byte>) {
    ++frames;
    return -1;
  };
  std::vector<std::vector<ItemName>> arrived(network.consumers());
  std::vector<bool> is_at_end(network.consumers());
  std::vector<bool> is_given_up(network.rings());
  std::vector<std::uint32_t> pushed(network.rings());
  network.run([&] {
    if (frames >= after && !std::exchange(is_dead, true)) {
      die();
    }
    for (std::size_t i = 0; i < network.rings(); ++i) {
      try {
        while (!is_given_up[i] && pushed[i] < kItems && network.push(i)) {
          ++pushed[i];
        }
        if (!is_given_up[i] && pushed[i] == kItems) {
          network.producer(i).end();
          is_given_up[i] = network.producer(i).is_drained();
        }
      } catch (const FlowBroken&) {
        is_given_up[i] = true;
      }
    }
    for (std::size_t i = 0; i < network.consumers(); ++i) {
      try {
        while (const auto name = network.pop(i)) {
          arrived[i].push_back(*name);
        }
        is_at_end[i] = is_at_end[i] || network.consumer(i).has_ended();
      } catch (const FlowBroken&) {
        is_at_end[i] = true;
      }
    }
    const bool all_popped = std::ranges::all_of(is_at_end, [](bool end) { return end; });
    const bool all_pushed = std::ranges::all_of(is_given_up, [](bool end) { return end; });
    const FlowState state = network.state();
    const bool is_decided = state.has_ended || state.is_broken;
    return (is_decided && (all_popped || all_pushed)) || network.now() > kTooLate;
  });
  EXPECT_LE(network.now(), kTooLate) << "somebody waits for ever; the death was after frame " << after;
  return arrived;
}

bool is_broken_for_consumer(FlowNetwork& network, std::size_t i) {
  try {
    static_cast<void>(network.consumer(i).available());
    return false;
  } catch (const FlowBroken&) {
    return true;
  }
}

bool is_broken_for_producer(FlowNetwork& network, std::size_t i) {
  try {
    static_cast<void>(network.producer(i).room());
    return false;
  } catch (const FlowBroken&) {
    return true;
  }
}

TEST(FlowDeaths, AConsumerGetsWhatADyingProducerHadDeliveredAndAnError) {
  std::uint64_t frames = ~std::uint64_t{0};
  std::uint64_t broken = 0;
  for (std::uint64_t after = 0; after < frames; ++after) {
    FlowNetwork network(zero_sided_program(), mortal({}));
    const auto arrived = move_until(
        network, after, [&] { network.kill_ring(0); }, frames);
    EXPECT_EQ(judge(arrived, 1, kItems, {0}), "") << after;
    if (is_broken_for_consumer(network, 0)) {
      ++broken;
      EXPECT_TRUE(network.state().is_broken);
      EXPECT_FALSE(network.producer(0).is_drained()) << after;
    } else {
      EXPECT_EQ(arrived[0].size(), kItems) << after;
    }
  }
  EXPECT_GT(broken, 20U);
}

TEST(FlowDeaths, OtherProducersGoOn) {
  std::uint64_t frames = ~std::uint64_t{0};
  std::uint64_t broken = 0;
  for (std::uint64_t after = 0; after < frames; after += 3) {
    FlowNetwork network(zero_sided_program(), mortal({.producers = 3}));
    const auto arrived = move_until(
        network, after, [&] { network.kill_ring(1); }, frames);
    EXPECT_EQ(judge(arrived, 3, kItems, {1}), "") << after;
    broken += is_broken_for_consumer(network, 0) ? 1U : 0U;
  }
  EXPECT_GT(broken, 10U);
}

TEST(FlowDeaths, ProducersOfADeadConsumerGetAnError) {
  std::uint64_t frames = ~std::uint64_t{0};
  for (std::uint64_t after = 0; after < frames; after += 2) {
    FlowNetwork network(zero_sided_program(), mortal({.producers = 2}));
    const auto arrived = move_until(
        network, after, [&] { network.kill_consumer(0); }, frames);
    EXPECT_EQ(judge(arrived, 2, kItems, {0, 1}), "") << after;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(is_broken_for_producer(network, i) || network.producer(i).is_drained()) << after;
    }
  }
}

TEST(FlowDeaths, OtherConsumersGetTheRest) {
  std::uint64_t frames = ~std::uint64_t{0};
  std::uint64_t longest_loss = 0;
  for (std::uint64_t after = 0; after < frames; ++after) {
    FlowNetworkOptions options = mortal({.producers = 2, .consumers = 2, .kind = FlowKind::balance});
    options.batch_bytes = 600;
    FlowNetwork network(zero_sided_program(), options);
    const auto arrived = move_until(
        network, after, [&] { network.kill_consumer(0); }, frames);
    std::set<std::pair<std::uint16_t, std::uint32_t>> all;
    std::uint64_t count = 0;
    for (const auto& items : arrived) {
      for (const ItemName& name : items) {
        all.insert({name.producer, name.number});
        ++count;
      }
    }
    EXPECT_EQ(count, all.size()) << "an item came twice; the death was after frame " << after;
    longest_loss = std::max<std::uint64_t>(longest_loss, 2 * kItems - all.size());
    EXPECT_TRUE(network.producer(0).is_drained()) << after;
    EXPECT_TRUE(network.producer(1).is_drained()) << after;
  }
  // What was on its way into the dead consumer's ring and had no head yet: one batch at most.
  EXPECT_EQ(longest_loss, 1U);
}

// Failed: the flow never ended for the control plane.
TEST(FlowDeaths, AFlowEndsWhenTheConsumersThatLiveHaveEverything) {
  for (const FlowKind kind : {FlowKind::shuffle, FlowKind::balance, FlowKind::replicate}) {
    FlowNetwork network(zero_sided_program(), mortal({.producers = 2, .consumers = 2, .kind = kind}));
    network.kill_consumer(0);
    std::uint64_t frames = 0;
    static_cast<void>(move_until(
        network, ~std::uint64_t{0}, [] {}, frames));
    network.run([&] {
      while (network.pop(1)) {
      }
      return network.state().has_ended || network.now() > 2 * kTooLate;
    });
    EXPECT_TRUE(network.state().has_ended);
    EXPECT_TRUE(network.state().is_broken);
  }
}

// The tail of a full ring must move, although those who popped the items are dead. Failed: it did not.
TEST(FlowDeaths, AFullRingIsEmptiedWhenAConsumerDies) {
  std::uint64_t frames = ~std::uint64_t{0};
  for (std::uint64_t after = 0; after < frames; ++after) {
    FlowNetworkOptions options = mortal({.consumers = 2, .kind = FlowKind::balance});
    options.producer_shape.slots = 2;
    FlowNetwork network(zero_sided_program(), options);
    const auto arrived = move_until(
        network, after, [&] { network.kill_consumer(0); }, frames);
    EXPECT_GE(arrived[0].size() + arrived[1].size() + 2, kItems) << after;
    EXPECT_TRUE(network.producer(0).is_drained()) << after;
  }
}

TEST(FlowDeaths, OtherConsumersOfAReplicatedFlowGetEverything) {
  std::uint64_t frames = ~std::uint64_t{0};
  for (std::uint64_t after = 0; after < frames; after += 3) {
    FlowNetwork network(zero_sided_program(), mortal({.producers = 2, .consumers = 3, .kind = FlowKind::replicate}));
    const auto arrived = move_until(
        network, after, [&] { network.kill_consumer(1); }, frames);
    EXPECT_EQ(judge({arrived[0]}, 2, kItems), "") << after;
    EXPECT_EQ(arrived[0], arrived[2]) << after;
    EXPECT_TRUE(std::ranges::equal(arrived[1], std::span(arrived[0]).first(arrived[1].size()))) << after;
  }
}

TEST(FlowDeaths, AProducerOfAReplicatedFlowDies) {
  std::uint64_t frames = ~std::uint64_t{0};
  for (std::uint64_t after = 0; after < frames; after += 3) {
    FlowNetwork network(zero_sided_program(), mortal({.producers = 2, .consumers = 2, .kind = FlowKind::replicate}));
    const auto arrived = move_until(
        network, after, [&] { network.kill_ring(0); }, frames);
    EXPECT_EQ(judge({arrived[0]}, 2, kItems, {0}), "") << after;
    EXPECT_EQ(arrived[0], arrived[1]) << after;
  }
}

TEST(FlowDeaths, IfAllConsumersDieTheProducersGetAnError) {
  FlowNetwork network(zero_sided_program(), mortal({.producers = 2, .consumers = 2, .kind = FlowKind::balance}));
  std::uint64_t frames = 0;
  static_cast<void>(move_until(
      network, 10,
      [&] {
        network.kill_consumer(0);
        network.kill_consumer(1);
      },
      frames));
  EXPECT_TRUE(is_broken_for_producer(network, 0));
  EXPECT_TRUE(is_broken_for_producer(network, 1));
}

TEST(FlowDeaths, ABadNetworkAndADeath) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    FlowNetworkOptions options = mortal({.producers = 3});
    options.faults = {.drop = 0.05, .duplicate = 0.05, .reorder = 0.1};
    options.seed = seed;
    options.defers = seed % 2 == 0;
    options.most_retries = 20;
    FlowNetwork network(zero_sided_program(), options);
    std::uint64_t frames = 0;
    const auto arrived = move_until(
        network, seed * 5, [&] { network.kill_ring(0); }, frames);
    EXPECT_EQ(judge(arrived, 3, kItems, {0}), "") << seed;
  }
}

// It answers at once, so nothing waits for a time-out.
TEST(FlowDeaths, AUnitThatRefusesIsGivenUp) {
  for (const bool is_producer : {true, false}) {
    FlowNetwork network(zero_sided_program(), mortal({}));
    softnic::nic::Host& unit = network.host(is_producer ? 0 : 1);
    ASSERT_TRUE(network.push(0));
    unit.nic.deregister_memory(unit.key);
    const auto begin = network.now();
    network.run([&] { return network.state().is_broken; });
    EXPECT_LT(network.now() - begin, 60'000U);  // virtual
    if (is_producer) {
      network.run([&] { return is_broken_for_consumer(network, 0); });
    } else {
      network.run([&] { return is_broken_for_producer(network, 0); });
    }
  }
}

TEST(FlowDeaths, ARingThatWasSpoiltIsGivenUp) {
  FlowNetwork network(zero_sided_program(), mortal({}));
  *reinterpret_cast<std::uint32_t*>(network.host(0).at(RingShape::head_offset())) = 5;  // of 4 slots
  network.run([&] { return is_broken_for_consumer(network, 0); });
  EXPECT_EQ(network.state().delivered, std::vector<std::uint32_t>{0});
}

}  // namespace deaths
}  // namespace
}  // namespace sidelatch::flows
