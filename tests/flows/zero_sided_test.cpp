// p4/zero_sided.p4 with software NICs as units, item by item.
#include "flow_network.h"

#include "roce/packet.h"
#include "tests/sampled.h"
#include "tests/switchsync/changed_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace zero_sided {

using softnic::nic::WireFaults;

constexpr WireFaults kBad{.drop = 0.05, .duplicate = 0.05, .reorder = 0.1};

std::size_t seeds() { return takes_long() ? 500 : is_sampled() ? 2 : 10; }

void expect_all(const FlowNetworkOptions& options, std::uint32_t items) {
  FlowNetwork network(zero_sided_program(), options);
  const auto arrived = network.move(items);
  EXPECT_EQ(judge(arrived, network.rings(), items), "") << "seed " << options.seed;
  EXPECT_FALSE(network.state().is_broken);
  // The last acknowledgements, and then nothing but idleness.
  network.run([&] {
    bool all = network.state().has_ended;
    for (std::size_t i = 0; i < network.rings(); ++i) {
      all = all && network.producer(i).is_drained();
    }
    return all;
  });
  EXPECT_TRUE(network.state().has_ended);
}

TEST(ZeroSided, ItemsOfAllSizesArrive) {
  for (const std::uint32_t bytes : {6U, 8U, 100U, 256U, 257U, 1000U, 3000U}) {
    for (const std::uint32_t alignment : {1U, 64U}) {
      const RingShape shape{.slots = 8, .item_bytes = bytes, .alignment = alignment};
      for (const std::uint32_t mtu : {256U, 1024U, 4096U}) {
        expect_all({.producer_shape = shape, .consumer_shape = shape, .path_mtu = mtu}, 40);
      }
    }
  }
}

TEST(ZeroSided, RingsOfDifferentSizes) {
  for (const std::uint32_t at_producer : {1U, 2U, 64U}) {
    for (const std::uint32_t at_consumer : {1U, 4U, 32U}) {
      expect_all({.producer_shape = {.slots = at_producer, .item_bytes = 100},
                  .consumer_shape = {.slots = at_consumer, .item_bytes = 100}},
                 100);
    }
  }
}

TEST(ZeroSided, BatchesAreNoLongerThanTheyMay) {
  for (const std::uint64_t most : {std::uint64_t{1}, std::uint64_t{250}, std::uint64_t{1000}}) {
    FlowNetwork network(zero_sided_program(), {.producer_shape = {.slots = 64, .item_bytes = 100},
                                               .consumer_shape = {.slots = 64, .item_bytes = 100},
                                               .batch_bytes = most});
    std::uint64_t longest = 0;
    network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
      const auto parsed = roce::parse_frame(frame, roce::IcrcCheck::no);
      const auto& packet = std::get<roce::Packet>(parsed);
      if (from == FlowNetwork::kSwitch && packet.bth.opcode == roce::Opcode::read_request) {
        longest = std::max<std::uint64_t>(longest, packet.reth.dma_length);
      }
      return -1;
    };
    EXPECT_EQ(judge(network.move(100), 1, 100), "");
    EXPECT_EQ(longest, std::max<std::uint64_t>(100, most / 100 * 100));
  }
}

TEST(ZeroSided, UnitsOfBothByteOrders) {
  for (const ByteOrder producer : {ByteOrder::little, ByteOrder::big}) {
    for (const ByteOrder consumer : {ByteOrder::little, ByteOrder::big}) {
      expect_all({.producer_shape = {.slots = 8, .item_bytes = 100, .order = producer},
                  .consumer_shape = {.slots = 4, .item_bytes = 100, .order = consumer}},
                 1000);
    }
  }
}

TEST(ZeroSided, CountersAndPsnsWrapAround) {
  for (const std::uint32_t before : {0U, 1U, 3U, 13U, 100U}) {
    expect_all({.producer_shape = {.slots = 8, .item_bytes = 600},
                .consumer_shape = {.slots = 4, .item_bytes = 600},
                .first_count = kCount - before,
                .first_psn = 0xff'ffff - 2 * before},
               200);
  }
}

TEST(ZeroSided, NothingIsLostOrRepeatedOnABadNetwork) {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    expect_all({.producer_shape = {.slots = 16, .item_bytes = 300},
                .consumer_shape = {.slots = 8, .item_bytes = 300},
                .faults = kBad,
                .seed = seed,
                .defers = seed % 2 == 0},
               200);
  }
}

// Packets of data that a producer sends so that 512 packets arrive in one batch, and what the limit of a batch is then.
struct Cost {
  std::uint32_t packets = 0;
  std::uint32_t limit = 0;
};

Cost cost_of_a_batch(const std::shared_ptr<const p4::Program>& program, double loss, std::uint32_t items) {
  const RingShape shape{.slots = 256, .item_bytes = 512};
  FlowNetwork network(program, {.producer_shape = shape,
                                .consumer_shape = shape,
                                .batch_bytes = std::uint64_t{256} * 512,
                                .faults = {.drop = loss},
                                .seed = 3});
  Cost cost;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    cost.packets += from == 0 && frame.size() > 256 ? 1U : 0U;
    return -1;
  };
  EXPECT_EQ(judge(network.move(items), 1, items), "");
  cost.limit = network.state().batch_items.at(0);
  return cost;
}

// Failed when a batch was always as long as it may be: twelve times the packets. 512 packets are whole at the first
// attempt once in 10^9 times.
TEST(ZeroSided, LongBatchesGoOnWhereTheyBrokeAndBecomeShorter) {
  constexpr std::uint32_t kItems = 2048;
  const Cost good = cost_of_a_batch(zero_sided_program(), 0, kItems);
  EXPECT_EQ(good.packets, 2 * kItems);
  EXPECT_EQ(good.limit, 256U);
  const Cost bad = cost_of_a_batch(zero_sided_program(), 0.02, kItems);
  EXPECT_LT(bad.packets, 3 * good.packets);
  EXPECT_LT(bad.limit, 128U);
  EXPECT_GT(bad.limit, 1U);
  // From the beginning each time, but for those that come after a time-out and begin with one packet.
  const auto forgetful =
      switchsync::changed_program("zero_sided.p4", "start = have;\n                goes_round", "goes_round");
  EXPECT_GT(cost_of_a_batch(forgetful, 0.02, kItems).packets, bad.packets + good.packets / 8);
}

// Failed: each copy of a NAK made the producer send the rest of the batch once more.
TEST(ZeroSided, ANakThatIsRepeatedAsksOnce) {
  const RingShape shape{.slots = 64, .item_bytes = 512};
  const auto packets_if = [&](int copies) {
    FlowNetwork network(zero_sided_program(), {.producer_shape = shape, .consumer_shape = shape});
    std::uint32_t packets = 0;
    bool is_lost = false;
    network.on_send = [&](std::size_t from, std::size_t to, std::span<const std::byte> frame) {
      const auto parsed = roce::parse_frame(frame, roce::IcrcCheck::no);
      const auto& packet = std::get<roce::Packet>(parsed);
      packets += from == 0 && packet.payload.size() == 256 ? 1U : 0U;
      if (to == 1 && packet.payload.size() == 256 && packets > 20 && !is_lost) {
        is_lost = true;
        return 0;
      }
      const bool is_nak = from == 1 && packet.bth.opcode == roce::Opcode::acknowledge &&
                          packet.aeth.syndrome.kind() != roce::Syndrome::Kind::ack;
      return is_nak ? copies : -1;
    };
    EXPECT_EQ(judge(network.move(64), 1, 64), "");
    EXPECT_TRUE(is_lost);
    return packets;
  };
  EXPECT_EQ(packets_if(4), packets_if(1));
}

// Each frame of a flow, whatever it is, is lost, doubled, or comes so late that its request was repeated.
struct Fate {
  const char* name;
  int copies;
};
class ZeroSidedFrame : public testing::TestWithParam<Fate> {};

TEST_P(ZeroSidedFrame, WhateverBecomesOfIt) {
  const FlowNetworkOptions options{.producer_shape = {.slots = 2, .item_bytes = 600},
                                   .consumer_shape = {.slots = 2, .item_bytes = 600}};
  std::map<std::string, int> kinds;
  bool is_over = false;
  std::uint64_t victim = 0;
  for (; !is_over; ++victim) {
    FlowNetwork network(zero_sided_program(), options);
    std::uint64_t seen = 0;
    network.on_send = [&](std::size_t from, std::size_t to, std::span<const std::byte> frame) {
      if (seen++ != victim) {
        return -1;
      }
      const auto parsed = roce::parse_frame(frame, roce::IcrcCheck::no);
      const auto& packet = std::get<roce::Packet>(parsed);
      ++kinds[std::to_string(static_cast<int>(packet.bth.opcode)) + (from == FlowNetwork::kSwitch ? " to " : " from ") +
              std::to_string(from == FlowNetwork::kSwitch ? to : from)];
      return GetParam().copies;
    };
    ASSERT_EQ(judge(network.move(5), 1, 5), "") << "frame " << victim;
    network.run([&] { return network.producer(0).is_drained(); });
    is_over = seen <= victim;
  }
  EXPECT_GT(victim, 30U);
  std::string all;
  for (const auto& [kind, times] : kinds) {
    all += kind + ", ";
  }
  // READ requests to both, WRITEs to both, answers of the producer of all kinds but MIDDLE beside it, acknowledgements.
  EXPECT_EQ(all,
            "10 to 0, 10 to 1, 12 to 0, 12 to 1, 13 from 0, 14 from 0, 15 from 0, 16 from 0, 16 from 1, 17 from 0, "
            "17 from 1, ");
}

INSTANTIATE_TEST_SUITE_P(Fates, ZeroSidedFrame, testing::Values(Fate{"IsLost", 0}, Fate{"IsDoubled", 2}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(ZeroSided, AnIdleFlowOnlyAsksNowAndThen) {
  FlowNetwork network(zero_sided_program(), {});
  std::uint64_t frames = 0;
  network.on_send = [&](std::size_t, std::size_t, std::span<const std::byte>) {
    ++frames;
    return -1;
  };
  const auto begin = network.now();
  network.run([&] { return network.now() > begin + 1'000'000; });
  // A request and an answer every 5 us.
  EXPECT_LE(frames, 2 * 200U + 2);
  EXPECT_GE(frames, 2 * 150U);
}

// It does not ask as often for ever.
TEST(ZeroSided, AFlowThatIsIdleForLongAsksSeldomAndWakesUp) {
  FlowNetwork network(zero_sided_program(), {.idle_interval = std::chrono::microseconds(500)});
  std::uint64_t frames = 0;
  network.on_send = [&](std::size_t, std::size_t, std::span<const std::byte>) {
    ++frames;
    return -1;
  };
  network.run([&] { return network.now() > 50'000'000; });
  frames = 0;
  network.run([&] { return network.now() > 100'000'000; });
  EXPECT_LE(frames, 2 * 100U + 2);  // each 500 us
  EXPECT_GE(frames, 2 * 90U);
  ASSERT_TRUE(network.push(0));
  network.run([&] { return network.pop(0).has_value(); });
  EXPECT_LT(network.now(), 100'600'000U);
  frames = 0;
  network.run([&] { return network.now() > 101'600'000; });
  EXPECT_GE(frames, 2 * 150U);  // each 5 us again
}

// Its timers do not go on until it is stopped.
TEST(ZeroSided, AFlowThatIsOverHasNoTimer) {
  FlowNetwork network(zero_sided_program(), {.producers = 2, .consumers = 2});
  EXPECT_EQ(judge(network.move(10), 4, 10), "");
  network.run([&] { return network.state().has_ended; });
  network.run();  // ends when nothing happens any more
  EXPECT_FALSE(network.device().next_generated());
}

// Failed when the time at which a request left was lost.
TEST(ZeroSided, ARequestIsRepeatedAfterItsTimeOutAndNotBefore) {
  FlowNetwork network(zero_sided_program(), {.time_out = std::chrono::microseconds(50)});
  std::vector<softnic::nic::Time> sent;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    if (from != FlowNetwork::kSwitch) {
      return 0;  // no answer arrives
    }
    sent.push_back(network.now());
    return -1;
  };
  network.run([&] { return sent.size() == 6; });
  for (std::size_t i = 1; i < sent.size(); ++i) {
    const softnic::nic::Time wait =
        std::min(400'000U, 50'000U << (i - 1));  // longer each time: 50, 100, 200, 400, 400 us
    EXPECT_GE(sent[i] - sent[i - 1], wait);
    EXPECT_LE(sent[i] - sent[i - 1], wait + 6'000U);  // looked at every 5 us; the program's clock has microseconds
  }
}

// It repeats at each look.
TEST(ZeroSided, ATimeOutOfZeroIsNoEnd) {
  FlowNetwork network(zero_sided_program(), {.time_out = std::chrono::microseconds(0)});
  int lost = 0;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    const bool is_lost = from == FlowNetwork::kSwitch && lost < 5;
    lost += is_lost ? 1 : 0;
    return is_lost ? 0 : -1;
  };
  const auto end = network.now() + 20'000'000;
  ASSERT_TRUE(network.push(0));
  bool has_come = false;
  network.run([&] {
    has_come = has_come || network.pop(0).has_value();
    return has_come || network.now() > end;
  });
  EXPECT_TRUE(has_come);
}

TEST(ZeroSided, AFullConsumerHoldsItsProducerBack) {
  FlowNetwork network(zero_sided_program(), {.producer_shape = {.slots = 8, .item_bytes = 100},
                                             .consumer_shape = {.slots = 4, .item_bytes = 100}});
  std::uint32_t pushed = 0;
  const auto end = network.now() + 2'000'000;
  network.run([&] {
    while (network.push(0)) {
      ++pushed;
    }
    return network.now() > end;
  });
  EXPECT_EQ(pushed, 12U);
  EXPECT_EQ(network.consumer(0).available(), 4U);
  ASSERT_TRUE(network.pop(0));
  network.run([&] { return network.push(0); });
  EXPECT_EQ(network.state().delivered, std::vector<std::uint32_t>{5});
}

TEST(ZeroSided, AShuffleKeepsKeysApart) {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    const FlowNetworkOptions options{
        .producers = 2, .consumers = 3, .faults = kBad, .seed = seed, .defers = seed % 2 == 0};
    FlowNetwork network(zero_sided_program(), options);
    const auto arrived = network.move(60);
    EXPECT_EQ(judge(arrived, 6, 60), "") << "seed " << seed;
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_TRUE(std::ranges::all_of(arrived[c], [&](const ItemName& name) { return name.producer % 3 == c; }));
    }
  }
}

TEST(ZeroSided, ProducersOfOneConsumerGetEqualShares) {
  FlowNetwork network(zero_sided_program(), {.producers = 4,
                                             .producer_shape = {.slots = 4, .item_bytes = 100},
                                             .consumer_shape = {.slots = 8, .item_bytes = 100}});
  std::vector<std::uint32_t> from(4);
  std::uint32_t all = 0;
  network.run([&] {
    for (std::size_t i = 0; i < 4; ++i) {
      while (network.push(i)) {
      }
    }
    while (const auto name = network.pop(0)) {
      ++from[name->producer];
      ++all;
    }
    return all >= 1000;
  });
  for (const std::uint32_t one : from) {
    EXPECT_NEAR(one, 250, 12);
  }
}

// Who has emptied a producer's ring gives it to a consumer that waits, and does not take it again at once.
TEST(ZeroSided, ConsumersOfFewProducersGetSharesToo) {
  for (const auto& [producers, consumers] : {std::pair{1U, 2U}, {1U, 3U}, {2U, 3U}}) {
    for (const bool rings : {false, true}) {
      FlowNetwork network(zero_sided_program(), {.producers = producers,
                                                 .consumers = consumers,
                                                 .kind = FlowKind::balance,
                                                 .rings = rings,
                                                 .poll_interval = std::chrono::microseconds(rings ? 300 : 5)});
      std::vector<std::uint32_t> to(consumers);
      std::uint32_t all = 0;
      network.run([&] {
        for (std::size_t i = 0; i < producers; ++i) {
          while (network.push(i)) {
          }
        }
        for (std::size_t i = 0; i < consumers; ++i) {
          while (network.pop(i)) {
            ++to[i];
            ++all;
          }
        }
        return all >= 1200;
      });
      EXPECT_GE(*std::ranges::min_element(to), 1200 / consumers / 2)
          << producers << " to " << consumers << (rings ? ", with bells: " : ": ") << ::testing::PrintToString(to);
    }
  }
}

TEST(ZeroSided, LoadIsBalancedAndNothingIsLostOrRepeated) {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    expect_all({.producers = 3,
                .consumers = 2,
                .kind = FlowKind::balance,
                .faults = kBad,
                .seed = seed,
                .defers = seed % 2 == 0},
               100);
  }
}

TEST(ZeroSided, EveryConsumerOfAReplicatedFlowGetsAllInOneOrder) {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    const FlowNetworkOptions options{.producers = 1 + seed % 3,
                                     .consumers = 1 + seed % 4,
                                     .kind = FlowKind::replicate,
                                     .producer_shape = {.slots = 8, .item_bytes = 300},
                                     .consumer_shape = {.slots = 4, .item_bytes = 300},
                                     .first_count = kCount - 20,
                                     .faults = seed == 1 ? WireFaults{} : kBad,
                                     .seed = seed,
                                     .defers = seed % 2 == 0};
    FlowNetwork network(zero_sided_program(), options);
    const auto arrived = network.move(60);
    for (const auto& one : arrived) {
      EXPECT_EQ(judge({one}, network.rings(), 60), "") << "seed " << seed;
      EXPECT_EQ(one, arrived[0]) << "seed " << seed;
    }
    network.run([&] { return network.state().has_ended; });
    EXPECT_FALSE(network.state().is_broken);
  }
}

// Of a replicated flow on a bad network.
struct Seen {
  std::uint32_t lacking = 0;      // times that a consumer lacked an item that another one could see
  std::uint32_t differences = 0;  // moments at which one could see more than another one
};

Seen watch_replication(const std::shared_ptr<const p4::Program>& program) {
  const RingShape shape{.slots = 16, .item_bytes = 300};
  FlowNetwork network(program, {.consumers = 3,
                                .kind = FlowKind::replicate,
                                .producer_shape = shape,
                                .consumer_shape = shape,
                                .batch_bytes = 1000,
                                .faults = kBad,
                                .seed = 5});
  for (std::uint32_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(network.push(0));
  }
  network.producer(0).end();
  Seen result;
  const auto end = network.now() + 20'000'000;
  network.run([&] {
    std::uint32_t most = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      const std::uint32_t head = network.head_of(c);
      result.differences += head != most && c != 0 ? 1U : 0U;
      most = std::max(most, head);
    }
    for (std::size_t c = 0; c < 3; ++c) {
      const auto memory = network.host(network.host_of_consumer(c)).bytes(0, shape.bytes());
      for (std::uint32_t i = 0; i < most; ++i) {
        const auto slot = memory.subspan(shape.items_offset() + i * shape.stride(), shape.item_bytes);
        result.lacking += std::ranges::equal(slot, network.item({0, i})) ? 0U : 1U;
      }
    }
    return network.state().has_ended || network.now() > end;
  });
  return result;
}

TEST(ZeroSided, NoItemOfAReplicatedFlowIsSeenBeforeAllHaveIt) {
  const Seen seen = watch_replication(zero_sided_program());
  EXPECT_EQ(seen.lacking, 0U);
  EXPECT_GT(seen.differences, 0U);
}

TEST(ZeroSided, AHeadThatMovesWhenOneConsumerHasTheDataIsCaught) {
  const Seen seen = watch_replication(switchsync::changed_program(
      "zero_sided.p4", "if (answered | given_up == all_bits) {\n                    c_psn = ",
      "if (true) {\n                    c_psn = "));
  EXPECT_GT(seen.lacking, 0U);
}

// Where WRITEs of one queue pair are not ordered, a head may be placed before its data.
TEST(ZeroSided, RelaxedOrderingBreaksAFlow) {
  std::uint32_t wrong = 0;
  for (std::uint64_t seed = 1; seed <= 50 && wrong == 0; ++seed) {
    FlowNetwork network(zero_sided_program(), {.seed = seed, .defers = true, .is_relaxed = true});
    const auto end = network.now() + 2'000'000;
    network.run([&] {
      static_cast<void>(network.push(0));
      while (network.pop(0)) {
      }
      return network.now() > end;
    });
    wrong += network.wrong_items();
  }
  EXPECT_GT(wrong, 0U);
}

TEST(ZeroSided, AFasterConsumerGetsMore) {
  FlowNetwork network(zero_sided_program(), {.producers = 2,
                                             .consumers = 2,
                                             .kind = FlowKind::balance,
                                             .consumer_shape = {.slots = 2, .item_bytes = 100},
                                             .batch_bytes = 100});
  std::vector<std::uint32_t> popped(2);
  softnic::nic::Time slow = 0;
  network.run([&] {
    for (std::size_t i = 0; i < 2; ++i) {
      while (network.push(i)) {
      }
    }
    while (network.pop(0)) {
      ++popped[0];
    }
    if (network.now() >= slow && network.pop(1)) {
      ++popped[1];
      slow = network.now() + 200'000;
    }
    return popped[0] + popped[1] >= 500;
  });
  EXPECT_GT(popped[0], 4 * popped[1]);
  EXPECT_GT(popped[1], 0U);
}

}  // namespace zero_sided
}  // namespace
}  // namespace sidelatch::flows
