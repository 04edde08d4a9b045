// Units that join and leave a flow that runs, and units that come back after they were given up.
#include "flow_network.h"

#include "tests/sampled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace joins {

using ::testing::HasSubstr;

constexpr std::uint32_t kItems = 60;  // of each ring
constexpr softnic::nic::Time kLongest = 500'000'000;

FlowNetworkOptions open_flow(FlowKind kind, std::size_t producers, std::size_t consumers, std::uint64_t seed = 1) {
  FlowNetworkOptions options{.producers = producers,
                             .consumers = consumers,
                             .kind = kind,
                             .producer_shape = {.slots = 4, .item_bytes = 300},
                             .consumer_shape = {.slots = 4, .item_bytes = 300},
                             .seed = seed,
                             .is_open = true};
  if (seed % 2 == 0) {
    options.faults = {.drop = 0.02, .duplicate = 0.02, .reorder = 0.1};
  }
  return options;
}

// Units that push `items` to each ring and end, and consumers that pop what comes.
class Elastic {
 public:
  explicit Elastic(const FlowNetworkOptions& options) : network(zero_sided_program(), options) {}

  // Until `done`, which is asked before each step.
  void run(const std::function<bool()>& done) {
    network.run([&] {
      step();
      return done() || network.now() > kLongest || testing::Test::HasFailure();
    });
    EXPECT_LT(network.now(), kLongest) << "the flow has come to a halt";
  }
  void run_to_the_end() {
    run([&] { return std::ranges::all_of(at_end, [](bool end) { return end; }); });
  }
  [[nodiscard]] std::uint64_t popped() const {
    std::uint64_t all = 0;
    for (const auto& items : arrived) {
      all += items.size();
    }
    return all;
  }

  FlowNetwork network;
  std::vector<std::vector<ItemName>> arrived;
  std::vector<bool> at_end;
  std::vector<bool> broken;

 private:
  void step() {
    pushed_.resize(network.rings());
    arrived.resize(network.consumers());
    at_end.resize(network.consumers());
    broken.resize(network.consumers());
    for (std::size_t i = 0; i < network.rings(); ++i) {
      while (pushed_[i] < kItems && network.push(i)) {
        ++pushed_[i];
      }
      if (pushed_[i] == kItems) {
        network.producer(i).end();
      }
    }
    for (std::size_t i = 0; i < network.consumers(); ++i) {
      try {
        while (const auto name = network.pop(i)) {
          arrived[i].push_back(*name);
        }
        at_end[i] = at_end[i] || network.consumer(i).has_ended();
      } catch (const FlowBroken&) {
        at_end[i] = true;
        broken[i] = true;
      }
    }
  }
  std::vector<std::uint32_t> pushed_;
};

void expect_right(const Elastic& flow, std::size_t rings) {
  if (flow.network.options().kind != FlowKind::replicate) {
    EXPECT_EQ(judge(flow.arrived, rings, kItems), "");
    return;
  }
  for (const auto& items : flow.arrived) {
    EXPECT_EQ(judge({items}, rings, kItems), "");
    EXPECT_EQ(items, flow.arrived[0]);
  }
}

class FlowJoins : public ::testing::TestWithParam<FlowKind> {};

TEST_P(FlowJoins, ProducersJoinAtAnyTimeAndLeave) {
  for (std::uint64_t seed = 1; seed <= (is_sampled() ? 2U : 6U); ++seed) {
    Elastic flow(open_flow(GetParam(), 2, 2, seed));
    std::mt19937_64 random(seed);
    for (int joined = 0; joined < 4; ++joined) {
      const std::uint64_t wanted = flow.popped() + random() % 60;
      flow.run([&] { return flow.popped() >= wanted || flow.network.travelling() == 0; });
      flow.network.join_producer(random() % 2);
    }
    const std::size_t rings = flow.network.rings();
    const std::uint64_t all = rings * kItems * (GetParam() == FlowKind::replicate ? 2 : 1);
    flow.run([&] { return flow.popped() == all; });
    EXPECT_FALSE(flow.network.state().has_ended) << "it is open";
    EXPECT_EQ(std::ranges::count(flow.at_end, true), 0);
    flow.network.control().close(flow.network.flow());
    flow.run_to_the_end();
    expect_right(flow, rings);
    EXPECT_FALSE(flow.network.state().is_broken);
    EXPECT_EQ(flow.network.state().taken, std::vector<std::uint32_t>(rings, kItems));
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, FlowJoins,
                         ::testing::Values(FlowKind::shuffle, FlowKind::balance, FlowKind::replicate));

// It waited for room in that ring for ever.
TEST(FlowJoin, AProducerThatJoinsAShuffleIsToldOfTheConsumerThatHasDied) {
  for (const bool have_ended : {false, true}) {  // the first producers: then the new one gets their place
    FlowNetworkOptions options = open_flow(FlowKind::shuffle, 2, 2);
    options.time_out = std::chrono::microseconds(20);
    options.most_retries = 3;
    FlowNetwork network(zero_sided_program(), options);
    if (have_ended) {
      network.producer(0).end();
      network.run([&] { return network.producer(0).is_drained(); });
    }
    network.kill_consumer(0);
    network.push(2);
    network.run([&] { return network.state().lost_consumers[0] || network.now() > kLongest; });
    const std::size_t joined = network.join_producer(0);
    bool is_told = false;
    std::uint32_t popped = 0;
    std::uint32_t pushed = 0;
    network.run([&] {
      try {
        static_cast<void>(network.producer(joined).room());
        network.push(joined);
      } catch (const FlowBroken&) {
        is_told = true;
      }
      pushed += pushed < kItems && network.push(joined + 1) ? 1U : 0U;
      popped += network.pop(1) ? 1U : 0U;
      return (is_told && popped == kItems) || network.now() > 2 * kLongest;
    });
    EXPECT_TRUE(is_told) << have_ended;
    EXPECT_EQ(popped, kItems) << "the other consumer goes on";
  }
}

FlowNetworkOptions balance_with_deaths(std::size_t consumers) {
  FlowNetworkOptions options = open_flow(FlowKind::balance, 2, consumers);
  options.time_out = std::chrono::microseconds(20);
  options.most_retries = 3;
  return options;
}

// The thread of the dead one told all producers that their flow is broken.
TEST(FlowJoin, AProducerJoinsABalancedFlowThatHasLostOneOfItsConsumers) {
  FlowNetwork network(zero_sided_program(), balance_with_deaths(3));
  network.kill_consumer(0);
  std::vector<std::uint32_t> came(3);
  const auto step = [&] {
    for (std::size_t ring = 0; ring < network.rings(); ++ring) {
      while (network.push(ring)) {
      }
    }
    for (std::size_t c = 1; c < 3; ++c) {
      while (const auto name = network.pop(c)) {
        ++came[name->producer];
      }
    }
    return network.now() > kLongest;
  };
  network.run([&] { return step() || network.state().lost_consumers[0]; });
  const softnic::nic::Time then = network.now() + 100'000;  // the dead one's thread has no more to do
  network.run([&] { return step() || network.now() > then; });
  EXPECT_EQ(network.join_producer(0), 2U);
  std::ranges::fill(came, 0U);
  network.run([&] { return step() || std::ranges::min(came) > kItems; });
  EXPECT_LT(network.now(), kLongest);
  EXPECT_EQ(network.state().lost_producers, std::vector<bool>(3, false));
}

// Who went last decides. A dead one: all are told. One that has left: the items wait for a consumer that joins.
TEST(FlowJoin, AProducerThatJoinsABalancedFlowWithoutConsumersIsToldIfTheOthersWere) {
  for (const bool has_died_last : {true, false}) {
    FlowNetwork network(zero_sided_program(), balance_with_deaths(2));
    const auto kill = [&] {
      network.kill_consumer(0);
      for (std::size_t ring = 0; ring < 2; ++ring) {
        network.push(ring);
      }
      network.run([&] {
        network.pop(1);
        network.push(0);
        network.push(1);
        return network.state().lost_consumers[0] || network.now() > kLongest;
      });
    };
    const auto leave = [&] {
      network.control().leave_consumer(network.flow(), 1);
      network.run([&] {
        network.pop(1);
        return network.consumer(1).has_ended() || network.now() > kLongest;
      });
    };
    if (has_died_last) {
      leave();
      kill();
    } else {
      kill();
      leave();
    }
    const softnic::nic::Time then = network.now() + 1'000'000;
    network.run([&] { return network.now() > then; });
    const std::size_t joined = network.join_producer(0);
    bool is_told = false;
    const auto look = [&] {
      try {
        static_cast<void>(network.producer(joined).room());
      } catch (const FlowBroken&) {
        is_told = true;
      }
      return is_told || network.now() > then + 2'000'000;
    };
    network.run(look);
    EXPECT_EQ(is_told, has_died_last);
    if (has_died_last) {
      continue;
    }
    const std::size_t consumer = network.join_consumer(1);
    network.push(joined);
    bool has_come = false;
    network.run([&] {
      while (const auto name = network.pop(consumer)) {
        has_come = has_come || name->producer == joined;
      }
      return has_come || network.now() > 2 * kLongest;
    });
    EXPECT_TRUE(has_come);
  }
}

// Threads came to a halt at the places of those that nobody had replaced.
TEST_P(FlowJoins, OneProducerJoinsWhenSeveralHaveEnded) {
  Elastic flow(open_flow(GetParam(), 3, 2));
  const std::uint64_t copies = GetParam() == FlowKind::replicate ? 2 : 1;
  for (int joined = 0; joined < 3; ++joined) {
    const std::size_t rings = flow.network.rings();
    const auto have_all_ended = [&] {
      const FlowState state = flow.network.state();
      return flow.popped() == rings * kItems * copies && state.taken == std::vector<std::uint32_t>(rings, kItems);
    };
    flow.run([&] { return have_all_ended() && flow.network.travelling() == 0; });
    flow.network.join_producer(0);
  }
  const std::size_t rings = flow.network.rings();
  flow.run([&] { return flow.popped() == rings * kItems * copies; });
  flow.network.control().close(flow.network.flow());
  flow.run_to_the_end();
  expect_right(flow, rings);
}

TEST(FlowJoin, ConsumersJoinAndLeaveAtAnyTime) {
  for (std::uint64_t seed = 1; seed <= (is_sampled() ? 2U : 8U); ++seed) {
    Elastic flow(open_flow(FlowKind::balance, 2, 1, seed));
    std::mt19937_64 random(seed);
    std::vector<std::size_t> there{0};
    for (int step = 0; step < 6; ++step) {
      const std::uint64_t wanted = flow.popped() + random() % 15;
      flow.run([&] { return flow.popped() >= wanted; });
      if (there.size() == 1 || random() % 2 == 0) {
        there.push_back(flow.network.join_consumer(0));
      } else {
        const auto leaver = there.begin() + static_cast<std::ptrdiff_t>(random() % there.size());
        flow.network.control().leave_consumer(flow.network.flow(), *leaver);
        there.erase(leaver);
      }
    }
    flow.network.control().close(flow.network.flow());
    flow.run_to_the_end();
    EXPECT_EQ(judge(flow.arrived, 2, kItems), "");
    EXPECT_FALSE(flow.network.state().is_broken);
    EXPECT_EQ(std::ranges::count(flow.broken, true), 0);
  }
}

// Scale to nothing and back.
TEST(FlowJoin, ItemsWaitWhileAllConsumersHaveLeft) {
  Elastic flow(open_flow(FlowKind::balance, 1, 1));
  flow.run([&] { return flow.popped() >= 10; });
  flow.network.control().leave_consumer(flow.network.flow(), 0);
  flow.run_to_the_end();
  const std::uint64_t before = flow.popped();
  EXPECT_LT(before, kItems);
  const auto later = flow.network.now() + 1'000'000;
  flow.run([&] { return flow.network.now() > later; });
  EXPECT_EQ(flow.popped(), before);
  flow.network.join_consumer(0);
  flow.network.control().close(flow.network.flow());
  flow.run_to_the_end();
  EXPECT_EQ(judge(flow.arrived, 1, kItems), "");
}

// Producers waited for a consumer that could not join any more.
TEST(FlowJoin, AFlowThatIsClosedWhenAllConsumersHaveLeftEnds) {
  for (const auto& [have_ended, closes_at_once] :
       {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    FlowNetwork network(zero_sided_program(), open_flow(FlowKind::balance, 1, 2));
    network.push(0);
    std::uint32_t popped = 0;
    const auto pop = [&] {
      for (std::size_t c = 0; c < 2; ++c) {
        while (network.pop(c)) {
          ++popped;
        }
      }
    };
    if (have_ended) {
      network.producer(0).end();
    }
    network.run([&] {
      pop();
      return (popped == 1 && (!have_ended || network.producer(0).is_drained())) || network.now() > kLongest;
    });
    network.control().leave_consumer(network.flow(), 0);
    network.control().leave_consumer(network.flow(), 1);
    const auto have_left = [&] { return network.consumer(0).has_ended() && network.consumer(1).has_ended(); };
    if (!closes_at_once) {
      network.run([&] { return have_left() || network.now() > kLongest; });
      const softnic::nic::Time later = network.now() + 1'000'000;
      network.run([&] { return network.now() > later; });
    }
    network.control().close(network.flow());
    bool is_told = false;
    network.run([&] {
      try {
        static_cast<void>(network.producer(0).room());
      } catch (const FlowBroken&) {
        is_told = true;
      }
      const FlowState state = network.state();
      return state.has_ended || (state.is_broken && is_told) || network.now() > 2 * kLongest;
    });
    EXPECT_EQ(network.state().has_ended, have_ended);
    EXPECT_EQ(is_told, !have_ended);
    EXPECT_EQ(network.state().is_broken, !have_ended);
  }
}

// Its first batch would be taken from a producer that is just being told.
TEST(FlowJoin, NoConsumerJoinsWhenTheProducersAreToldThatTheLastOneHasDied) {
  FlowNetwork network(zero_sided_program(), balance_with_deaths(2));
  network.control().leave_consumer(network.flow(), 1);
  network.run([&] { return network.consumer(1).has_ended() || network.now() > kLongest; });
  network.kill_ring(1);  // it takes long to be told
  network.kill_consumer(0);
  network.push(0);
  const auto refusal = [&] {
    try {
      static_cast<void>(network.join_consumer(0));
      return std::string("it joins");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
  };
  network.run([&] { return network.state().lost_consumers[0] || network.now() > kLongest; });
  EXPECT_THAT(refusal(), HasSubstr("its producers are being told"));
  const auto are_told = [&] {
    const FlowState state = network.state();
    return std::ranges::count(state.lost_producers, true) == 2;
  };
  network.run([&] { return are_told() || network.now() > kLongest; });
  const softnic::nic::Time later = network.now() + 1'000'000;
  network.run([&] { return network.now() > later; });
  EXPECT_THAT(refusal(), HasSubstr("were told: start another"));
}

// A flow that is not open ends with the last consumer that leaves by death, and its producers are told.
TEST(FlowJoin, WhenTheLastOneDiesAfterOthersHaveLeftProducersAreTold) {
  FlowNetworkOptions options = open_flow(FlowKind::balance, 1, 2);
  options.is_open = false;
  options.time_out = std::chrono::microseconds(20);
  options.most_retries = 3;
  FlowNetwork network(zero_sided_program(), options);
  network.control().leave_consumer(network.flow(), 0);
  EXPECT_THROW(network.control().leave_consumer(network.flow(), 1), std::invalid_argument);
  network.run([&] { return network.consumer(0).has_ended() || network.now() > kLongest; });
  network.kill_consumer(1);
  bool is_told = false;
  network.run([&] {
    try {
      network.push(0);
      static_cast<void>(network.producer(0).room());
    } catch (const FlowBroken&) {
      is_told = true;
    }
    return is_told || network.now() > kLongest;
  });
  EXPECT_TRUE(is_told);
}

TEST(FlowJoin, AConsumerOfAReplicatedFlowLeavesAndTheOthersGoOn) {
  for (std::uint64_t after = 0; after < 40; after += 3) {
    Elastic flow(open_flow(FlowKind::replicate, 2, 3));
    flow.run([&] { return flow.popped() >= after; });
    flow.network.control().leave_consumer(flow.network.flow(), 1);
    flow.network.control().close(flow.network.flow());
    flow.run([&] { return flow.at_end[0] && flow.at_end[2]; });
    EXPECT_EQ(judge({flow.arrived[0]}, 2, kItems), "");
    EXPECT_EQ(flow.arrived[0], flow.arrived[2]);
    const auto& early = flow.arrived[1];
    EXPECT_LE(early.size(), flow.arrived[0].size());
    EXPECT_TRUE(std::equal(early.begin(), early.end(), flow.arrived[0].begin()));
    EXPECT_FALSE(flow.network.state().is_broken);
  }
}

// Cut off when so many frames have passed, given up, and back: nothing is lost and nothing comes twice.
TEST_P(FlowJoins, AProducerThatWasGivenUpComesBackWithEveryItem) {
  for (std::uint64_t after = 1;; ++after) {
    FlowNetworkOptions options = open_flow(GetParam(), 2, 2);
    options.time_out = std::chrono::microseconds(20);
    options.most_retries = 2;
    Elastic flow(options);
    std::uint64_t frames = 0;
    bool is_cut = true;
    flow.network.on_send = [&](std::size_t from, std::size_t to, std::span<const std::byte>) {
      ++frames;
      return frames >= after && is_cut && (from == 0 || to == 0) ? 0 : -1;
    };
    const std::size_t of_host = GetParam() == FlowKind::shuffle ? 2 : 1;
    // A ring whose items have all been taken is not asked any more, so nobody gives it up.
    const auto lost = [&] {
      const FlowState state = flow.network.state();
      bool any = false;
      for (std::size_t ring = 0; ring < of_host; ++ring) {
        if (!state.lost_producers[ring] && state.taken[ring] != kItems) {
          return false;
        }
        any = any || state.lost_producers[ring];
      }
      return any;
    };
    const std::uint64_t all = 2 * of_host * kItems * (GetParam() == FlowKind::replicate ? 2 : 1);
    flow.run([&] { return lost() || flow.popped() == all; });
    if (!lost()) {
      EXPECT_GT(after, 100U);
      return;
    }
    is_cut = false;
    const FlowState at_rejoining = flow.network.state();
    for (std::size_t ring = 0; ring < of_host; ++ring) {
      if (at_rejoining.lost_producers[ring]) {
        flow.network.rejoin_producer(ring);
      }
    }
    flow.network.control().close(flow.network.flow());
    flow.run_to_the_end();
    expect_right(flow, 2 * of_host);
    EXPECT_EQ(std::ranges::count(flow.broken, true), 0) << after;
    EXPECT_FALSE(flow.network.state().is_broken);
    if (HasFailure()) {
      return;
    }
    after += takes_long() ? 0 : is_sampled() ? after : after / 8;
  }
}

// All of its own items come; those of the one that was lost before do not.
TEST_P(FlowJoins, WhoComesBackDoesNotHideThatAnotherWasLostAndLeftOut) {
  for (const bool had_another : {true, false}) {
    FlowNetworkOptions options = open_flow(GetParam(), 2, 2);
    options.time_out = std::chrono::microseconds(20);
    options.most_retries = 2;
    Elastic flow(options);
    flow.run([&] { return flow.popped() >= 10; });
    flow.network.fail_over(had_another);
    const std::size_t of_host = GetParam() == FlowKind::shuffle ? 2 : 1;
    const auto are_lost = [&] {
      const FlowState state = flow.network.state();
      return std::all_of(state.lost_producers.begin(), state.lost_producers.begin() + static_cast<long>(of_host),
                         [](bool lost) { return lost; });
    };
    bool is_cut = true;
    flow.network.on_send = [&](std::size_t from, std::size_t to, std::span<const std::byte>) {
      return is_cut && (from == 0 || to == 0) ? 0 : -1;
    };
    flow.run(are_lost);
    is_cut = false;
    for (std::size_t ring = 0; ring < of_host; ++ring) {
      flow.network.rejoin_producer(ring);
    }
    flow.network.control().close(flow.network.flow());
    flow.run_to_the_end();
    expect_right(flow, 2 * of_host);
    EXPECT_EQ(std::ranges::count(flow.broken, true), had_another ? 2 : 0);
    EXPECT_EQ(flow.network.state().is_broken, had_another);
  }
}

void expect_refused(const std::function<void()>& call, const std::string& says) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << says;
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr(says));
  }
}

TEST(FlowJoin, WhatMeansNothingIsRefused) {
  FlowNetworkOptions closed = open_flow(FlowKind::balance, 1, 1);
  closed.is_open = false;
  FlowNetwork network(zero_sided_program(), closed);
  FlowSwitch& control = network.control();
  expect_refused([&] { control.join_producer(network.flow(), {}); }, "is not open");
  expect_refused([&] { control.join_consumer(network.flow(), {}); }, "is not open");
  expect_refused([&] { control.join_producer(77, {}); }, "there is no flow 77");
  expect_refused([&] { control.leave_consumer(network.flow(), 5); }, "there is no consumer 5");
  expect_refused([&] { control.rejoin_producer(network.flow(), 0, {}); }, "producer 0 was not given up");
  FlowNetwork shuffle(zero_sided_program(), open_flow(FlowKind::shuffle, 1, 2));
  expect_refused([&] { shuffle.control().join_producer(shuffle.flow(), {{}}); }, "1 rings; this flow needs 2");
  expect_refused([&] { shuffle.control().join_consumer(shuffle.flow(), {}); }, "does not balance");
  expect_refused([&] { shuffle.control().leave_consumer(shuffle.flow(), 0); }, "is a shuffle");
  FlowNetwork balance(zero_sided_program(), open_flow(FlowKind::balance, 1, 1));
  expect_refused([&] { balance.control().join_producer(balance.flow(), {{}}); }, "slots 0");
  expect_refused([&] { balance.control().join_consumer(balance.flow(), {}); }, "slots 0");
}

}  // namespace joins
}  // namespace
}  // namespace sidelatch::flows
